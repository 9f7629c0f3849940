#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "common.h"
#include "common/json_writer.h"
#include "core/os.h"
#include "machine/bandwidth.h"
#include "machine/device_details.h"
#include "machine/machine.h"
#include "options/environment.h"

namespace onepass::tool {
namespace {

struct DoctorArgs {
  bool json = false;
  bool quick = false;
};

// Rows of the block, in order; several values of one name follow each other.
struct Fact {
  std::string name, value;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

const DeviceOptions one_thread{.backend = {CpuOptions{.threads = 1}}};

void tell_devices(std::vector<Fact>& facts) {
  for (const DeviceListing& l : Device::list()) {
    std::string text = l.name + ": ";
    if (!l.available) {
      facts.push_back({"device", text + "refused, " + (l.reason.empty() ? "no reason" : l.reason)});
      continue;
    }
    text += l.description;
    const Result<Device> device = Device::open(l.name, one_thread);
    if (!device) {
      text += "; listed, but opening it failed: " + device.error().message;
    } else if (!device->info().unified_memory) {
      text += "; " + show_bytes(device->info().memory_bytes) + ", " +
              show_bytes(free_bytes(*device)) + " free, " +
              std::to_string(device->info().compute_units) + " multiprocessors";
    }
    facts.push_back({"device", text});
  }
}

void tell_environment(std::vector<Fact>& facts, const CLI::App& app) {
  const std::vector<Variable> known = known_variables(table_of(app));
  bool any = false;
  const auto add = [&](const std::string& name, const char* note) {
    const char* value = variable_value(name);
    if (value == nullptr) return;
    facts.push_back({"environment", name + "=" + valid_utf8(value) + note});
    any = true;
  };
  for (const Variable& v : known) add(v.name, "");
  for (const std::string& name : unknown_variables(known)) add(name, " (unknown)");
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LANG", "TERM"})
    add(name, "");
  if (!any) facts.push_back({"environment", "nothing set that matters"});
}

std::vector<Fact> examine(const CLI::App& app, bool measure) {
  std::vector<Fact> facts;
  facts.push_back({"onepass", std::string(version()) + ", commit " + commit_name()});
  facts.push_back({"build", build_name() + ", " + compiler_name()});
  facts.push_back({"program", os::executable_path()});
  const Result<std::string> model = built_in_model();
  facts.push_back({"model", model ? *model : "the one in the box is not there"});
  facts.push_back({"system", system_name()});
  const std::uint32_t cores = os::core_count();
  facts.push_back({"cpu", os::cpu_name() + ", " + std::to_string(cores) + " of " +
                              std::to_string(std::max(std::thread::hardware_concurrency(), 1u)) +
                              " cores usable"});
  facts.push_back({"cpu has", joined(cpu_flags())});
  if (const Result<Device> cpu = Device::open("cpu", one_thread)) {
    facts.push_back({"cpu kernels", cpu_path(cpu->info())});
  }
  const std::uint64_t available = available_memory_bytes();
  facts.push_back({"memory", show_bytes(os::total_memory_bytes()) + ", " + show_bytes(available) +
                                 " available"});
  if (measure) {
    const double rate = memory_bandwidth(cores, true);
    char text[64];
    std::snprintf(text, sizeof text, "%.1f GB/s with %u threads", rate / 1e9, cores);
    facts.push_back({"memory read", rate > 0.0 ? text : "not measured, too little is free"});
  }
  tell_devices(facts);
  for (const std::string& line : driver_versions()) facts.push_back({"driver", line});
  tell_environment(facts, app);
  return facts;
}

Status run_doctor(const CLI::App& app, const DoctorArgs& args) {
  const std::vector<Fact> facts = examine(app, !args.quick);
  if (args.json) {
    JsonWriter json;
    json.begin_array();
    for (const Fact& f : facts) {
      json.begin_object().key("name").value(f.name).key("value").value(f.value).end_object();
    }
    return put(json.end_array().text() + "\n");
  }
  std::string text;
  for (const Fact& f : facts) {
    text += f.name + std::string(f.name.size() < 14 ? 14 - f.name.size() : 1, ' ') + f.value + "\n";
  }
  return put(text);
}

}  // namespace

void add_doctor(CLI::App& app, Run& run) {
  const auto args = std::make_shared<DoctorArgs>();
  CLI::App* command =
      app.add_subcommand("doctor", "this program and machine in one block, to paste in a report");
  command->add_flag("--quick", args->quick, "do not measure how fast memory is read, 0.3 s");
  command->add_flag("--json", args->json, "as a JSON list of names and values");
  command->footer(
      "It shows paths and the values of some environment variables: look before you paste.\n"
      "Example:\n  onepass doctor");
  command->callback(
      [&app, &run, args] { run = [&app, args] { return exit_code(run_doctor(app, *args)); }; });
}

}  // namespace onepass::tool
