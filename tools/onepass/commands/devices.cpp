#include <memory>

#include "common.h"
#include "common/json_writer.h"
#include "common/order_text.h"
#include "machine/device_details.h"
#include "machine/machine.h"

namespace onepass::tool {
namespace {

struct DevicesArgs {
  bool json = false;
  bool names = false;
};

// What only an opened device tells.
struct Details {
  DeviceInfo info;
  std::uint64_t free = 0;  // bytes; 0: unknown
  std::string driver;      // empty: it has none
};

std::string joined(const std::vector<std::string>& words, const char* gap) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : gap) + word;
  return text;
}

Result<Details> examine(const DeviceListing& listing) {
  ONEPASS_ASSIGN(const Device device, Device::open(listing.name));
  Details d{device.info(), free_bytes(device), ""};
  if (!d.info.unified_memory) d.driver = joined(driver_versions(), "; ");
  return d;
}

std::string memory_text(const Details& d) {
  if (d.info.memory_bytes == 0) return "";
  return show_bytes(d.info.memory_bytes) + " memory" +
         (d.free == 0 ? "" : ", " + show_bytes(d.free) + " free");
}

std::string to_text(const DeviceListing& l, const Result<Details>& details) {
  std::string line = l.name + "\t";
  if (!l.available) return line + "unavailable\t" + l.description + " (" + l.reason + ")\n";
  if (!details) {
    return line + "unavailable\t" + l.description + " (" + details.error().message + ")\n";
  }
  const DeviceInfo& info = details->info;
  std::vector<std::string> parts;
  parts.push_back(std::to_string(info.compute_units) + (!info.unified_memory ? " multiprocessors"
                                                        : info.compute_units == 1 ? " thread"
                                                                                  : " threads"));
  if (const std::string memory = memory_text(*details); !memory.empty()) parts.push_back(memory);
  if (info.name == "cpu") parts.push_back("kernels " + cpu_path(info));
  if (!info.unified_memory) {
    std::string sizes;
    for (const std::uint32_t n : info.subgroup_sizes) {
      sizes += (sizes.empty() ? "" : "/") + std::to_string(n);
    }
    parts.push_back("subgroups of " + sizes);
    parts.push_back(joined(feature_names(info), " "));
  }
  if (!details->driver.empty()) parts.push_back("driver " + details->driver);
  return line + "available\t" + l.description + "\t" + joined(parts, ", ") + "\n";
}

void add_json(JsonWriter& json, const DeviceListing& l, const Result<Details>& details) {
  json.begin_object().key("name").value(l.name).key("available").value(bool(details));
  json.key("reason").value(details ? "" : details.error().message);
  json.key("description").value(l.description);
  if (details) {
    const DeviceInfo& info = details->info;
    json.key("memory_bytes").value(info.memory_bytes).key("free_bytes");
    details->free == 0 ? json.null() : json.value(details->free);
    json.key("unified_memory").value(info.unified_memory);
    json.key("compute_units").value(info.compute_units).key("features").begin_array();
    for (const std::string& name : feature_names(info)) json.value(name);
    json.end_array().key("kernels").value(info.name == "cpu" ? cpu_path(info) : "");
    json.key("subgroup_sizes").begin_array();
    for (const std::uint32_t n : info.subgroup_sizes) json.value(n);
    json.end_array().key("max_group_threads").value(info.max_group_threads);
    json.key("max_shared_bytes").value(info.max_shared_bytes);
    json.key("order").value(order_name(info.order)).key("driver").value(details->driver);
  }
  json.end_object();
}

Status run_devices(const DevicesArgs& args) {
  const std::vector<DeviceListing> listed = Device::list();
  JsonWriter json;
  json.begin_array();
  std::string text;
  for (const DeviceListing& l : listed) {
    if (args.names) {
      text += l.name + "\n";
      continue;
    }
    const Result<Details> details =
        l.available ? examine(l) : Result<Details>(fail(ErrorCode::not_found, l.reason));
    if (args.json) {
      add_json(json, l, details);
    } else {
      text += to_text(l, details);
    }
  }
  return put(args.json && !args.names ? json.end_array().text() + "\n" : text);
}

}  // namespace

void add_devices(CLI::App& app, Run& run) {
  const auto args = std::make_shared<DevicesArgs>();
  CLI::App* command = app.add_subcommand(
      "devices", "list devices, their memory and features, and why one is not available");
  command->add_flag("--names", args->names, "the names only; opens no device");
  command->add_flag("--json", args->json, "as a JSON list, with limits");
  command->footer(
      "--device takes a name of this list, 'auto', or a part of the description: of the vendor's "
      "name or\nthe UUID.\nExamples:\n  onepass devices\n  onepass devices --json");
  command->callback([&run, args] { run = [args] { return exit_code(run_devices(*args)); }; });
}

}  // namespace onepass::tool
