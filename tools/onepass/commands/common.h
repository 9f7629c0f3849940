// What the commands share. Data goes to stdout, everything else to stderr; exit 0, 1 on an error, 2
// on wrong usage, 130 after Ctrl-C.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "info/memory_estimate.h"
#include "model/text_model.h"
#include "onepass/onepass.hpp"
#include "options/option_table.h"

namespace onepass::tool {

// The command that was parsed; run after parsing, returns the exit code.
using Run = std::function<int()>;

// Each adds one subcommand to the app and, once it is parsed, sets run.
#define COMMAND(name, title) void add_##name(CLI::App& app, Run& run);
#include "commands/commands.def"
#undef COMMAND

inline constexpr int exit_usage = 2;
inline constexpr int exit_interrupted = 130;

// Prints the error; the exit code for it. A reader of stdout that went away is no error.
int report(const Error& error);
int exit_code(const Status& status);

// Wrong usage: ends the command with exit_usage. Only while the command runs.
[[noreturn]] void refuse(const std::string& option, const std::string& message);
[[noreturn]] void refuse(const std::string& option, const Error& error);

// Writes to stdout at once. A full disk is an error of code io.
Status put(std::string_view data);
// The file appears only when it is complete. "-" is wrong usage: stdout has the data.
Status write_file(const std::string& path, std::string_view data);
// All of stdin, at most max_input_bytes.
inline constexpr std::size_t max_input_bytes = std::size_t{1} << 30;
Result<std::string> read_stdin();

// "1,2,3" or "1 2 3".
Result<std::vector<std::uint32_t>> parse_ids(std::string_view text);
// "12.7 MB"
std::string show_bytes(std::uint64_t bytes);
// A number from min to max; what is not a number is refused too.
CLI::Validator number_from(double min, double max);

// -q: nothing on stderr but warnings and errors.
void add_quiet_to(CLI::App& app);
// -c: tokens, where 0 and auto are the same.
void add_context_to(CLI::App& app, std::uint32_t& context, const std::string& help);

inline constexpr std::uint32_t max_threads = 4096;

// Says so where more tokens are asked for than the model was trained on.
void warn_of_context(std::uint64_t trained, std::uint64_t asked);

struct DeviceArgs {
  std::string name = "auto";
  DeviceOptions options;
  CpuOptions cpu;
  std::string cpu_features = "best";
  std::string gpu_layers;  // 0: the CPU
  bool profile = false;

  void add_to(CLI::App& app);  // --device, --threads, --gpu-layers and --cpu-features
  Result<Device> open();
  // As open, and with --verbose says on stderr which device it is and why.
  Result<Device> open_and_tell();

 private:
  Status take_gpu_layers();
};

// "cpu (AMD EPYC, 2 threads)"
std::string described(const DeviceInfo& info);

// The model in the box: beside the installed program or in the source tree; the environment
// variable ONEPASS_MODELS names another folder.
Result<std::string> built_in_model();

struct ModelArgs {
  DeviceArgs device;
  std::string model;       // empty: the model in the box
  bool force = false;      // load what seems too large
  std::uint64_t mmap = 0;  // most bytes in memory; 0: as many as it takes
  std::string banner_end;  // what the line on stderr about the model ends with

  // -m, --device, --threads, --cpu-features, --force and --quiet.
  void add_to(CLI::App& app);
  // -m only, for commands that run nothing.
  void add_model_to(CLI::App& app);
  Result<std::string> path() const;
  Result<llm::Tokenizer> open_tokenizer() const;  // reads no tensor
  // Opens the device and the model on it, telling in a line both and the memory they take, more
  // with --verbose, and on a terminal the progress. A model that cannot fit with its cache is
  // refused before it is loaded.
  Result<llm::TextModel> open(bool with_tokenizer = true, const CacheArgs& cache = {});
};

}  // namespace onepass::tool
