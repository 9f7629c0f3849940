// Record a pass once, replay it, and see its schedule.
#include <cmath>
#include <cstdio>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

using namespace onepass;

namespace {

Status run() {
  ONEPASS_ASSIGN(const Device device, Device::open("cpu"));
  constexpr std::uint32_t dim = 64;
  ONEPASS_ASSIGN(const Buffer memory, device.allocate(4 * dim * sizeof(float)));
  const auto row = [&](std::uint32_t i) {
    return memory.tensor(DType::f32, {1, dim}, i * dim * sizeof(float));
  };
  const Tensor x = row(0), gate = row(1), out = row(2);
  const Tensor weight = memory.tensor(DType::f32, {dim}, 3 * dim * sizeof(float));

  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  const Tensor normed = s.scratch(DType::f32, {1, dim});
  ops::rms_norm(s, {.x = x, .weight = weight, .out = normed});
  ops::mul(s, {.a = normed, .b = gate, .out = out});  // fused with the norm
  ONEPASS_ASSIGN(const Plan plan, s.compile());       // fused, scheduled, proven
  std::printf("2 ops, %u dispatch(es) in %u level(s), proven: %s\n", plan.report().dispatches,
              plan.report().levels, plan.report().validated ? "yes" : "no");

  ONEPASS_TRY(device.write_as<float>(weight.view, std::vector<float>(dim, 1.0f)));
  ONEPASS_TRY(device.write_as<float>(gate.view, std::vector<float>(dim, 2.0f)));
  for (const float value : {3.0f, -5.0f}) {  // a row of equal values is normed to +-1
    ONEPASS_TRY(device.write_as<float>(x.view, std::vector<float>(dim, value)));
    ONEPASS_TRY(plan.run());  // one submission, one wait, as often as you like
    std::vector<float> result(dim);
    ONEPASS_TRY(device.read_as<float>(out.view, result));
    std::printf("x = %g: out[0] = %g\n", static_cast<double>(value),
                static_cast<double>(result[0]));
    if (std::abs(result[0] - std::copysign(2.0f, value)) > 1e-4f) {
      return fail(ErrorCode::internal, "wrong result");
    }
  }
  return {};
}

}  // namespace

int main() {
  const Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
