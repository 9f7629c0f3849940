#include <iostream>

#include "common.h"
#include "terminal.h"

namespace {

using namespace onepass;

// What the parser's messages leave out: the value that was expected.
std::string explain(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) && argc > 1 && argv[1][0] != '-' &&
      app.get_subcommands().empty()) {
    std::string commands;
    for (const CLI::App* command : app.get_subcommands(nullptr)) {
      commands += (commands.empty() ? "" : ", ") + command->get_name();
    }
    return "unknown command '" + std::string(argv[1]) + "', expected one of " + commands;
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error)) {
    for (const CLI::App* command : app.get_subcommands()) {
      for (const CLI::Option* option : command->get_options()) {
        if (text.find(" " + option->get_name() + " = ") == text.npos) continue;
        const std::string type = option->get_type_name();
        return text + ", expected " + (type == "UINT" ? "a whole number of 0 or more" : "a number");
      }
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"onepass: transformer inference as one recorded pass"};
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.footer(
      "Example:\n  onepass generate -p \"Once upon a time\"\nonepass COMMAND --help tells more.");
  tool::Run run;
  tool::add_bench(app, run);
  tool::add_block(app, run);
  tool::add_chat(app, run);
  tool::add_convert(app, run);
  tool::add_detokenize(app, run);
  tool::add_devices(app, run);
  tool::add_generate(app, run);
  tool::add_graph(app, run);
  tool::add_info(app, run);
  tool::add_logits(app, run);
  tool::add_perplexity(app, run);
  tool::add_quantize(app, run);
  tool::add_plan(app, run);
  tool::add_profile(app, run);
  tool::add_tokenize(app, run);
  tool::catch_signals();
  try {
    app.parse(argc, argv);
    return run();
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::cerr << "onepass: " << explain(app, e, argc, argv)
              << "\nRun with --help for more information.\n";
    return tool::exit_usage;
  } catch (const std::bad_alloc&) {
    return tool::report(make_error(ErrorCode::out_of_memory, "out of memory"));
  }
}
