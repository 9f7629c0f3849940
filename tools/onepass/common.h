// What the commands share. Data goes to stdout, everything else to stderr; exit 0, 1 on an error, 2
// on wrong usage, 130 after Ctrl-C.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "onepass/onepass.h"

namespace onepass::tool {

// The command that was parsed; run after parsing, returns the exit code.
using Run = std::function<int()>;

// Each adds one subcommand to the app and, once it is parsed, sets run.
void add_block(CLI::App& app, Run& run);
void add_devices(CLI::App& app, Run& run);

// Prints the error; the exit code for it.
int report(const Error& error);
int exit_code(const Status& status);

struct DeviceArgs {
  std::string name = "auto";
  DeviceOptions options;
  std::string barriers = "automatic";
  bool profile = false;

  void add_to(CLI::App& app);
  Result<Device> open();
};

}  // namespace onepass::tool
