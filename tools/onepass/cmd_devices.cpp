#include <iostream>

#include "common.h"

namespace onepass::tool {
namespace {

int run_devices() {
  for (const DeviceListing& l : Device::list()) {
    std::cout << l.name << "\t" << (l.available ? "available" : "unavailable") << "\t"
              << l.description << (l.reason.empty() ? "" : " (" + l.reason + ")") << '\n';
  }
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("devices", "list devices and why one is not available");
  command->footer("Example:\n  onepass devices");
  command->callback([&run] { run = run_devices; });
}

}  // namespace onepass::tool
