#include "common.h"

#include <iostream>

namespace onepass::tool {

int report(const Error& error) {
  std::cerr << "onepass: " << error.to_string() << '\n';
  return 1;
}

int exit_code(const Status& status) { return status ? 0 : report(status.error()); }

void DeviceArgs::add_to(CLI::App& app) {
  app.add_option("--device", name, "auto, cpu, null")->capture_default_str();
  app.add_option("-t,--threads", options.threads, "worker threads, 0: all cores")
      ->capture_default_str();
  app.add_flag("--pin", options.pin_threads, "keep worker i on core i");
  app.add_flag("--serial", options.serial, "run each dispatch after the one before");
  app.add_flag("--profile", profile, "time every dispatch");
  app.add_option("--barriers", barriers, "automatic or manual")
      ->check(CLI::IsMember({"automatic", "manual"}))
      ->capture_default_str();
}

Result<Device> DeviceArgs::open() {
  options.barriers = barriers == "manual" ? Barriers::manual : Barriers::automatic;
  options.profile = profile ? Profile::dispatches : Profile::none;
  options.log = [](std::string_view category, std::string_view text) {
    std::cerr << "onepass: " << category << ": " << text << '\n';
  };
  return Device::open(name, options);
}

}  // namespace onepass::tool
