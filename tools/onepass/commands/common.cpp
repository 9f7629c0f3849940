#include "common.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "common/terminal.h"
#include "core/features.h"
#include "core/os.h"
#include "help/completion.h"
#include "machine/device_choice.h"
#include "machine/machine.h"
#include "model/model_files.h"
#include "model/synthetic.h"
#include "model/weight_kernel.h"
#include "onepass/backends/cpu.h"
#include "options/habits.h"
#include "options/suggest.h"

namespace onepass::tool {
namespace {

constexpr const char* built_in_name = "stories-12m-q8_0.gguf";
// Of code, recorded passes and the heap, beside what a model takes.
constexpr std::uint64_t program_bytes = 32u << 20;
constexpr const char* device_group = "Model and device";

bool reader_is_gone = false;

}  // namespace

int report(const Error& error) {
  if (reader_is_gone) return 0;
  if (error.code == ErrorCode::cancelled && interrupted()) return exit_interrupted;
  Error shown = error;
  if (!verbose()) shown.line = 0;  // where in the sources it was
  std::cerr << "onepass: " << shown.to_string() << '\n';
  return 1;
}

int exit_code(const Status& status) { return status ? 0 : report(status.error()); }

void refuse(const std::string& option, const std::string& message) {
  throw CLI::ValidationError(option, message);
}
void refuse(const std::string& option, const Error& error) { refuse(option, error.message); }

Status put(std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      reader_is_gone = errno == EPIPE;
      return fail(ErrorCode::io, std::string("write to stdout: ") + std::strerror(errno));
    }
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Status write_file(const std::string& path, std::string_view data) {
  if (path == "-") refuse("-", "names no file; a file of that name is ./-");
  return os::write_file(path, data);
}

Result<std::string> read_stdin() {
  std::string text;
  char part[1 << 16];
  while (true) {
    if (!wait_for_stdin()) {
      return fail(ErrorCode::cancelled, "interrupted while reading stdin");
    }
    const ssize_t n = ::read(STDIN_FILENO, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::io, std::string("read stdin: ") + std::strerror(errno));
    if (n == 0) return text;
    text.append(part, static_cast<std::size_t>(n));
    if (text.size() > max_input_bytes) {
      return fail(ErrorCode::limit, "stdin has more than " + show_bytes(max_input_bytes));
    }
  }
}

Result<std::vector<std::uint32_t>> parse_ids(std::string_view text) {
  const auto is_gap = [](char c) { return std::strchr(", \t\r\n", c) != nullptr && c != '\0'; };
  std::vector<std::uint32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at != end && is_gap(*at)) ++at;
    if (at == end) return ids;
    std::uint32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && !is_gap(*next))) {
      const char* stop = at;
      while (stop != end && !is_gap(*stop) && stop - at < 40) ++stop;
      return fail(ErrorCode::invalid_argument, "token " + std::to_string(ids.size()) + " is '" +
                                                   std::string(at, stop) +
                                                   "', expected an id from 0 to 4294967295");
    }
    ids.push_back(id);
    at = next;
  }
}

std::string show_bytes(std::uint64_t bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000.0;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value,
                units[unit]);
  return text;
}

CLI::Validator number_from(double min, double max) {
  std::string range = CLI::detail::to_string(min) + " to " + CLI::detail::to_string(max);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value = 0.0;
        if (CLI::detail::lexical_cast(text, value) && value >= min && value <= max) return {};
        return "'" + text + "', expected a number from " + range;
      },
      "[" + range + "]");
}

void add_quiet_to(CLI::App& app) {
  app.add_flag("-q,--quiet", quiet(), "nothing on stderr but warnings and errors");
}

void add_context_to(CLI::App& app, std::uint32_t& context, const std::string& help) {
  app.add_option("-c,--context", context, help)
      ->transform(CLI::Validator(
          [](std::string& text) -> std::string {
            if (text == "auto") text = "0";
            return {};
          },
          ""))
      ->default_str("auto");
}

void DeviceArgs::add_to(CLI::App& app) {
  app.add_option(
         "--device", name,
         "auto (a card, else cpu), cpu, cuda, cuda:1, null, or a part of what 'onepass devices' "
         "tells of one")
      ->type_name(device_value)
      ->capture_default_str()
      ->group(device_group);
  app.add_option("-t,--threads", cpu.threads, "worker threads of the CPU, 0: all cores")
      ->check(CLI::Range(0u, max_threads))
      ->capture_default_str()
      ->group(device_group);
  app.add_option("--gpu-layers", gpu_layers,
                 "0: the CPU; with any other number the whole model is on the device, as always")
      ->type_name(count_value)
      ->group(device_group);
  std::vector<std::string> paths{"best"};
  for (const CpuPath& path : cpu_paths()) paths.emplace_back(path.name);
  app.add_option("--cpu-features", cpu_features,
                 "use no better kernels: " + CLI::detail::join(paths, ", "))
      ->check(CLI::IsMember(paths))
      ->capture_default_str()
      ->group(device_group);
}

Status DeviceArgs::take_gpu_layers() {
  if (gpu_layers.empty()) return {};
  const bool number = gpu_layers.find_first_not_of("0123456789") == gpu_layers.npos;
  if (!number && gpu_layers != "auto" && gpu_layers != "all" && gpu_layers != "-1") {
    refuse("--gpu-layers", "'" + gpu_layers + "', expected a number, auto or all");
  }
  if (number && gpu_layers.find_first_not_of('0') == gpu_layers.npos) {
    if (name != "auto" && name != "cpu") {
      refuse("--gpu-layers", "0 is the CPU, and --device asks for " + name);
    }
    name = "cpu";
  }
  return {};
}

Result<Device> DeviceArgs::open() {
  ONEPASS_TRY(take_gpu_layers());
  cpu.features = cpu_path_features(cpu_features).value();
  options.backend = {cpu};
  options.profile = profile ? Profile::dispatches : Profile::none;
  options.log = [](std::string_view category, std::string_view text) {
    std::cerr << "onepass: " << category << ": " << text << '\n';
  };
  const bool on_cpu = name == "auto" && cpu_features != "best";
  Result<Device> opened = Device::open(on_cpu ? "cpu" : name, options);
  if (!opened && opened.error().code == ErrorCode::not_found) {
    const std::vector<DeviceListing> listed = Device::list();
    ONEPASS_ASSIGN(const std::string found, find_device(name, listed));
    if (found.empty()) {
      std::vector<std::string> known{"auto"};
      for (const DeviceListing& l : listed) known.push_back(l.name);
      Error error = std::move(opened).error();
      error.message += did_you_mean(name, known);
      return error;
    }
    opened = Device::open(found, options);
  }
  ONEPASS_ASSIGN(Device device, std::move(opened));
  if (cpu_features != "best" &&
      (device.info().name != "cpu" || (cpu.features & ~device.info().features) != 0)) {
    return fail(ErrorCode::unsupported, "--cpu-features " + cpu_features + ": " +
                                            device.info().name + " has no such kernels");
  }
  return device;
}

namespace {

std::string reason(const DeviceArgs& asked, const DeviceInfo& info) {
  if (asked.name != "auto") return "chosen with --device";
  if (asked.cpu_features != "best") return "as --cpu-features asks";
  if (info.name != "cpu") return "the first card (--device to choose)";
  std::string text = "the best there is (--device to choose)";
  if (!driver_versions().empty()) {
    text += "; a GPU driver is loaded, 'onepass devices' tells what can be used";
  }
  return text;
}

}  // namespace

Result<Device> DeviceArgs::open_and_tell() {
  ONEPASS_ASSIGN(Device device, open());
  details() << "device: " << described(device.info()) << ", " << reason(*this, device.info())
            << '\n';
  const bool wants_card = !gpu_layers.empty() && name != "cpu";
  if (wants_card && device.info().name == "cpu") {
    std::cerr << "onepass: warning: --gpu-layers " << gpu_layers
              << " has no effect: there is no card that can be used ('onepass devices' tells "
                 "why)\n";
  }
  return device;
}

std::string described(const DeviceInfo& info) {
  return info.name + " (" + info.description + ", " + std::to_string(info.compute_units) +
         (!info.unified_memory      ? " multiprocessors"
          : info.compute_units == 1 ? " thread"
                                    : " threads") +
         ")";
}

void warn_of_context(std::uint64_t trained, std::uint64_t asked) {
  if (asked <= trained) return;
  std::cerr << "onepass: warning: the model was trained on " << trained << " tokens, asked for are "
            << asked << '\n';
}

Result<std::string> built_in_model() {
  if (const char* folder = std::getenv("ONEPASS_MODELS"); folder != nullptr && *folder != '\0') {
    return std::string(folder) + "/" + built_in_name;
  }
  std::vector<std::string> folders;
  const std::string program = os::executable_path();
  if (const std::size_t slash = program.rfind('/'); slash != program.npos) {
    folders.push_back(program.substr(0, slash + 1) + ONEPASS_DATA_FROM_BIN);
  }
  folders.push_back(ONEPASS_DATA_DIR);
  folders.push_back(ONEPASS_SOURCE_MODELS);
  std::string tried;
  for (const std::string& folder : folders) {
    std::string path = folder + "/" + built_in_name;
    if (::access(path.c_str(), R_OK) == 0) return path;
    tried += "\n  " + path;
  }
  return fail(ErrorCode::not_found,
              "the model in the box is not there; give one with -m, or its folder in "
              "ONEPASS_MODELS. Tried:" +
                  tried);
}

void ModelArgs::add_model_to(CLI::App& app) {
  app.add_option("-m,--model", model,
                 "GGUF file, MLX or Hugging Face folder, or synthetic:PRESET:QUANT "
                 "(default: the model in the box)")
      ->type_name(model_value)
      ->group(device_group);
}

void ModelArgs::add_to(CLI::App& app) {
  add_model_to(app);
  device.add_to(app);
  app.add_flag("--force", force, "load a model even if it seems not to fit in memory")
      ->group(device_group);
  app.add_option("--mmap", mmap,
                 "keep so much in memory, as 6G or 800M, and read experts from the file when they "
                 "are needed")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false))
      ->group(device_group);
  add_quiet_to(app);
}

namespace {

// "model.gguf" of "/models/model.gguf", "folder" of "/models/folder/".
std::string name_of_file(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Result<std::string> ModelArgs::path() const {
  if (model.empty()) return built_in_model();
  if (llm::model_store(model) == llm::ModelStore::synthetic) {
    if (Result<llm::SyntheticSource> source = llm::SyntheticSource::create(model); !source) {
      Error error = std::move(source).error();
      error.message += did_you_mean(model, synthetic_names());
      return error;
    }
  } else if (::access(model.c_str(), F_OK) != 0 && errno == ENOENT && !looks_like_model(model)) {
    return fail(ErrorCode::not_found, "there is no file or folder '" + model +
                                          "'; a model is a path, and nothing is downloaded");
  }
  return model;
}

Result<llm::Tokenizer> ModelArgs::open_tokenizer() const {
  ONEPASS_ASSIGN(const std::string file, path());
  ONEPASS_ASSIGN(const std::unique_ptr<llm::ModelFiles> files, llm::ModelFiles::open(file));
  return files->tokenizer();
}

Result<llm::TextModel> ModelArgs::open(bool with_tokenizer, const CacheArgs& cache) {
  ONEPASS_ASSIGN(const std::string file, path());
  ONEPASS_ASSIGN(const Device opened, device.open_and_tell());
  ProgressBar bar("loading");
  llm::OpenOptions options;
  options.tokenizer = with_tokenizer;
  options.before_load = [&](const llm::ModelConfig& config, std::uint64_t weights) -> Status {
    MemoryEstimate estimate = estimate_memory(config, weights, cache);
    if (mmap != 0) {
      const std::uint64_t rest = estimate.cache + estimate.scratch + program_bytes;
      if (rest >= mmap) {
        return fail(ErrorCode::limit, "--mmap " + show_bytes(mmap) +
                                          " leaves nothing for weights: " + to_string(estimate) +
                                          ", " + show_bytes(program_bytes) + " for the program");
      }
      options.weight_budget = mmap - rest;
      estimate.weights = std::min(estimate.weights, options.weight_budget);
    }
    const std::uint64_t available = available_bytes(opened);
    if (!force) ONEPASS_TRY(check_memory(estimate, available, opened.info().name, cache));
    details() << "memory: " << to_string(estimate)
              << (available == 0 ? "" : "; " + show_bytes(available) + " available") << '\n';
    if (!verbose()) {
      notes() << name_of_file(file) << " on " << described(opened.info()) << ": "
              << show_bytes(estimate.weights) << " weights, " << show_bytes(estimate.cache)
              << " cache for " << estimate.context << " tokens"
              << (banner_end.empty() ? "" : "; " + banner_end) << '\n';
    }
    return {};
  };
  options.progress = [&bar](std::uint64_t done, std::uint64_t total) -> Status {
    if (interrupted()) return fail(ErrorCode::cancelled, "interrupted while loading");
    bar.show(done, total);
    return {};
  };
  ONEPASS_ASSIGN(llm::TextModel loaded, llm::open_text_model(opened, file, options));
  const std::string generic = llm::generic_weights(*loaded.model).text(opened);
  if (!generic.empty()) notes() << "slow: " << generic << '\n';
  return loaded;
}

}  // namespace onepass::tool
