#include "common.h"
#include "terminal.h"

int main(int argc, char** argv) {
  using namespace onepass;
  CLI::App app{"onepass: transformer inference as one recorded pass"};
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.footer(
      "Example:\n  onepass generate -p \"Once upon a time\"\nonepass COMMAND --help tells more.");
  tool::Run run;
  tool::add_bench(app, run);
  tool::add_block(app, run);
  tool::add_detokenize(app, run);
  tool::add_devices(app, run);
  tool::add_graph(app, run);
  tool::add_logits(app, run);
  tool::add_perplexity(app, run);
  tool::add_tokenize(app, run);
  tool::catch_signals();
  try {
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : tool::exit_usage;
  } catch (const std::bad_alloc&) {
    return tool::report(make_error(ErrorCode::out_of_memory, "out of memory"));
  }
}
