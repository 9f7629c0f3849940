// Where the time goes: every dispatch of a pass with its time and the bytes it moved.
#include <cstdio>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

using namespace onepass;

namespace {

Status run() {
  DeviceOptions options;
  options.profile = Profile::dispatches;
  ONEPASS_ASSIGN(const Device device, Device::open("cpu", options));
  constexpr std::uint32_t dim = 512, wide = 1024;
  ONEPASS_ASSIGN(const Buffer w1, device.allocate(wide * dim * sizeof(float)));
  ONEPASS_ASSIGN(const Buffer w2, device.allocate(wide * dim * sizeof(float)));
  ONEPASS_ASSIGN(const Buffer x, device.allocate(dim * sizeof(float)));
  ONEPASS_ASSIGN(const Buffer y, device.allocate(dim * sizeof(float)));

  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  const Tensor h = s.scratch(DType::f32, {1, wide});
  const Tensor in = x.tensor(DType::f32, {1, dim}), out = y.tensor(DType::f32, {1, dim});
  s.set_label("up");
  ops::matmul(s, {.x = in, .weight = w1.tensor(DType::f32, {wide, dim}), .out = h});
  s.set_label("activation");
  ops::silu(s, {.x = h, .out = h});
  s.set_label("down");
  ops::matmul(s, {.x = h, .weight = w2.tensor(DType::f32, {dim, wide}), .out = out});
  ONEPASS_ASSIGN(const Plan plan, s.compile({.fuse = false}));
  for (int i = 0; i < 10; ++i) ONEPASS_TRY(plan.run());

  const ProfileReport report = device.profile();
  std::uint64_t count = 0;
  for (const LabelTimes& t : report.dispatches) {
    count += t.count;
    std::printf("%-12s %3llu times, %8.1f us each\n", t.label.c_str(),
                static_cast<unsigned long long>(t.count),
                static_cast<double>(t.total_ns) / 1e3 / static_cast<double>(t.count));
  }
  return count == 10 * plan.report().dispatches
             ? Status{}
             : Status(fail(ErrorCode::internal, "dispatches are missing"));
}

}  // namespace

int main() {
  const Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
