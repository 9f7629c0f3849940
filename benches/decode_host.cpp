// decode_host MODEL [TOKENS]: what the host does between two tokens of a CUDA device, with 16 of
// them queued, and how much device memory a long text takes.
//
// MODEL: a GGUF file, an MLX folder or synthetic:NAME:FORMAT. Prints the time from the return of
// one graph launch to the call of the next (medians and 99th percentiles), the launch itself apart,
// how many graphs were built, and free device memory before and after TOKENS tokens (10,000).
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/cuda.h"
#include "backends/cuda/driver.h"
#include "core/device_state.h"
#include "core/os.h"
#include "run/decoder.h"

namespace onepass {
namespace {

constexpr std::uint32_t queued = 16;

// The driver with clocks around its graph calls.
struct Clocked {
  static inline cuda::Driver real;
  static inline std::uint64_t returned = 0;
  static inline std::vector<std::uint64_t> gaps, launches;
  static inline std::uint64_t built = 0;

  static CUresult launch(CUgraphExec exec, CUstream stream) {
    const std::uint64_t called = os::now_ns();
    if (returned != 0) gaps.push_back(called - returned);
    const CUresult result = real.cuGraphLaunch(exec, stream);
    returned = os::now_ns();
    launches.push_back(returned - called);
    return result;
  }
  static CUresult instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
    ++built;
    return real.cuGraphInstantiate(exec, graph, flags);
  }
  static void clear() {
    gaps.clear();
    launches.clear();
    returned = 0;
  }
};

double part(std::vector<std::uint64_t>& ns, double share) {
  if (ns.empty()) return 0.0;
  std::sort(ns.begin(), ns.end());
  const auto at = static_cast<std::size_t>(share * static_cast<double>(ns.size() - 1));
  return static_cast<double>(ns[at]) / 1e3;
}

Result<std::uint64_t> free_bytes(const cuda::Driver& driver) {
  CUcontext context = nullptr;
  std::size_t free = 0, total = 0;
  ONEPASS_TRY(cuda::check(driver, driver.cuDevicePrimaryCtxRetain(&context, 0),
                          "cuDevicePrimaryCtxRetain", ErrorCode::device_lost));
  Status status;
  {
    const cuda::Context here{&driver, context, nullptr};
    const cuda::Current current(here);
    status = cuda::check(driver, driver.cuMemGetInfo(&free, &total), "cuMemGetInfo",
                         ErrorCode::device_lost);
  }
  driver.cuDevicePrimaryCtxRelease(0);
  ONEPASS_TRY(std::move(status));
  return free;
}

Status run(const std::string& name, std::uint32_t tokens) {
  ONEPASS_ASSIGN(const cuda::Driver* driver, cuda::load_driver());
  Clocked::real = *driver;
  cuda::Driver clocked = *driver;
  clocked.cuGraphLaunch = Clocked::launch;
  clocked.cuGraphInstantiate = Clocked::instantiate;
  DeviceOptions options;
  options.command_buffers = queued + 2;
  ONEPASS_ASSIGN(std::unique_ptr<Backend> backend,
                 cuda::open_device(clocked, cuda::kernel_images(), 0, options));
  ONEPASS_ASSIGN(std::shared_ptr<DeviceState> state,
                 DeviceState::create(std::move(backend), options));
  const Device device(std::move(state));
  ONEPASS_ASSIGN(const std::shared_ptr<const llm::Model> model, llm::Model::open(device, name));
  ONEPASS_ASSIGN(llm::Decoder decoder, llm::Decoder::create(model, {}));
  const std::uint32_t context = decoder.context();
  const std::uint32_t prompt[] = {1};
  std::array<std::uint32_t, queued> made;
  const auto restart = [&]() -> Status {
    ONEPASS_TRY(decoder.truncate(0));
    ONEPASS_TRY(decoder.append(prompt));
    ONEPASS_TRY(decoder.greedy());
    return {};
  };

  ONEPASS_TRY(restart());
  for (int i = 0; i < 4; ++i) ONEPASS_TRY(decoder.next(made, {}));
  std::vector<std::uint64_t> gaps, launches;
  for (int i = 0; i < 50; ++i) {
    if (decoder.length() + queued > context) ONEPASS_TRY(restart());
    Clocked::clear();
    ONEPASS_TRY(decoder.next(made, {}));
    gaps.insert(gaps.end(), Clocked::gaps.begin(), Clocked::gaps.end());
    launches.insert(launches.end(), Clocked::launches.begin(), Clocked::launches.end());
  }
  std::printf("between launches: median %.2f us, 99th percentile %.2f us (%zu)\n", part(gaps, 0.5),
              part(gaps, 0.99), gaps.size());
  std::printf("launch:           median %.2f us, 99th percentile %.2f us\n", part(launches, 0.5),
              part(launches, 0.99));

  const std::uint64_t built = Clocked::built;
  ONEPASS_ASSIGN(const std::uint64_t before, free_bytes(*driver));
  const std::uint64_t begin = os::now_ns();
  std::uint32_t done = 0;
  while (done < tokens) {
    if (decoder.length() + queued > context) ONEPASS_TRY(restart());
    ONEPASS_TRY(decoder.next(made, {}));
    done += queued;
    Clocked::clear();
  }
  ONEPASS_ASSIGN(const std::uint64_t after, free_bytes(*driver));
  std::printf(
      "%u tokens in %.2f s: free memory %.3f MiB less, %llu graphs built before, %llu more\n", done,
      static_cast<double>(os::now_ns() - begin) / 1e9,
      (static_cast<double>(before) - static_cast<double>(after)) / 1048576.0,
      static_cast<unsigned long long>(built),
      static_cast<unsigned long long>(Clocked::built - built));
  return {};
}

}  // namespace
}  // namespace onepass

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: decode_host MODEL [TOKENS]\n");
    return 2;
  }
  const auto tokens =
      static_cast<std::uint32_t>(argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 10000);
  const onepass::Status status = onepass::run(argv[1], tokens);
  if (!status) std::fprintf(stderr, "decode_host: %s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
