// A kernel of your own in a recorded pass: declare what it reads and writes, nothing else.
#include <cstdio>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

using namespace onepass;

namespace {

struct ScaleParams {
  float factor;
  std::uint32_t n;
};

// Called once per tile, on any worker; view 0 is read, view 1 is written.
void scale(const KernelArgs& args) noexcept {
  const auto& p = args.params_as<ScaleParams>();
  const auto part = args.part(p.n);
  for (std::uint64_t i = part.begin; i < part.end; ++i) {
    args.ptr<float>(1)[i] = p.factor * args.ptr<const float>(0)[i];
  }
}

Status run() {
  ONEPASS_ASSIGN(const Device device, Device::open("cpu"));
  KernelDesc desc{.name = "scale", .slots = "io"};
  desc.params_bytes = sizeof(ScaleParams);
  desc.cpu = scale;
  ONEPASS_ASSIGN(const KernelId kernel, device.kernels().add(desc));

  constexpr std::uint32_t n = 1000;
  ONEPASS_ASSIGN(const Buffer x, device.allocate(n * sizeof(float)));
  ONEPASS_ASSIGN(const Buffer y, device.allocate(n * sizeof(float)));
  std::vector<float> values(n);
  for (std::uint32_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  ONEPASS_TRY(device.write_as<float>(x.view(), values));

  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  const Tensor tmp = s.scratch(DType::f32, {n});
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = kernel;
  d.grid = Grid::groups({4, 1, 1}, {1, 1, 1});  // four tiles
  d.set_params(ScaleParams{3.0f, n});
  d.bind(x.view(), Access::read);
  d.bind(tmp.view, Access::write);
  s.encode(d);
  // The order follows from the bytes: nobody wrote a barrier.
  ops::add(s, {.a = tmp, .b = x.tensor(DType::f32, {n}), .out = y.tensor(DType::f32, {n})});
  ONEPASS_ASSIGN(const FinishReport report, s.finish());
  ONEPASS_TRY(device.read_as<float>(y.view(), values));
  std::printf("%u dispatches, %u barrier, y[7] = %g\n", report.dispatches, report.barrier_count(),
              static_cast<double>(values[7]));
  return values[7] == 28.0f && report.barrier_count() == 1
             ? Status{}
             : Status(fail(ErrorCode::internal, "wrong result"));
}

}  // namespace

int main() {
  const Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
