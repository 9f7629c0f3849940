// Passes in a queue: submitted one behind the other, waited for once. The device runs them in
// order, and each sees what those before it wrote.
#include <cstdio>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

using namespace onepass;

namespace {

Status run() {
  ONEPASS_ASSIGN(const Device device, Device::open("cpu"));
  constexpr std::uint32_t n = 1000, passes = 20;
  ONEPASS_ASSIGN(const Buffer memory, device.allocate(n * sizeof(float)));
  const Tensor x = memory.tensor(DType::f32, {n});
  ONEPASS_TRY(device.write_as<float>(x.view, std::vector<float>(n, 1.0f)));

  const GraphExecutor executor(device);
  const auto times = [&](float factor) {
    GraphSession s = executor.begin_recorded();
    ops::scale(s, {.x = x, .out = x, .factor = factor});
    return s.compile();
  };
  ONEPASS_ASSIGN(const Plan doubled, times(2.0f));
  ONEPASS_ASSIGN(const Plan halved, times(0.5f));
  device.reset_counters();
  Submission last;
  for (std::uint32_t i = 0; i < passes; ++i) {
    ONEPASS_ASSIGN(last, doubled.run_async());
    if (i % 2 == 0) continue;
    ONEPASS_ASSIGN(last, halved.run_async());
  }
  ONEPASS_TRY(last.wait());

  std::vector<float> out(n);
  ONEPASS_TRY(device.read_as<float>(x.view, out));
  std::printf("%u passes, %llu waits, x[0] = %g\n", passes + passes / 2,
              static_cast<unsigned long long>(device.counters().syncs), double(out[0]));
  // Twenty times doubled, ten times halved.
  return out[0] == 1024.0f && out[n - 1] == 1024.0f
             ? Status{}
             : Status(fail(ErrorCode::internal, "wrong result"));
}

}  // namespace

int main() {
  const Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
