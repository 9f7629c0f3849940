#include "common.h"

int main(int argc, char** argv) {
  using namespace onepass;
  CLI::App app{"onepass: transformer inference as one recorded pass"};
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  tool::Run run;
  tool::add_devices(app, run);
  tool::add_block(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return run();
}
