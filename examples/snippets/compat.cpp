// The ancestor's names.
#include "onepass/compat.h"

#include "snippets.h"

namespace snippets {
namespace {

namespace compat = onepass::compat;
using onepass::Device;
using onepass::Status;
using onepass::Tensor;

// Slot 0 becomes twice what it was; slot 3 holds how many there are.
void twice(const onepass::KernelArgs& a) noexcept {
  const std::uint32_t n = *compat::bytes_at<std::uint32_t>(a, 3);
  for (auto i = a.part(n).begin; i < a.part(n).end; ++i) compat::buffer_at<float>(a, 0)[i] *= 2;
}

onepass::Result<onepass::KernelId> add_twice(const Device& device) {
  onepass::KernelDesc desc{.name = "compat_twice"};
  desc.cpu = twice;
  return device.kernels().add(desc);
}

Status all(const Device& device) {
  // [compat.h]
  namespace compat = onepass::compat;
  compat::CommandEncoder encoder(device);
  compat::GraphExecutor executor(device);
  // [compat.h]
  ONEPASS_TRY(encoder.commit_and_wait());
  return check(executor.begin_recorded().is_recording());
}

Status args(const Device& device) {
  Arrays arrays(device);
  const Tensor x = arrays.fill({2048}, 1.0f);
  const std::uint32_t n = 1024;
  ONEPASS_ASSIGN(const compat::Pipeline kernel, add_twice(device));
  compat::CommandEncoder encoder(device);
  compat::reset_counters();
  // [compat/args.h]
  const auto tail = compat::KernelArg::buffer_with_offset(x.view, 4096);
  const compat::Args args{{0, tail}, {3, compat::KernelArg::bytes(n)}};  // slots may have gaps
  encoder.encode_threadgroups_with_args(kernel, args, {4, 1, 1}, {1, 1, 1});
  const std::uint64_t dispatches = compat::dispatch_count();  // of all devices
  // [compat/args.h]
  ONEPASS_TRY(encoder.commit_and_wait());
  ONEPASS_ASSIGN(const std::vector<float> out, arrays.read(x));
  return check(dispatches == 1 && out[1023] == 1.0f && out[1024] == 2.0f);
}

Status encoder(const Device& device) {
  Arrays arrays(device);
  const Tensor x = arrays.fill({64}, 1.0f);
  const std::uint32_t n = 64;
  ONEPASS_ASSIGN(const compat::Pipeline kernel, add_twice(device));
  // [compat/encoder.h]
  compat::CommandEncoder encoder(device);
  const compat::Args args{{0, x.view}, {3, compat::KernelArg::bytes(n)}};
  encoder.encode_with_args(kernel, args, {64, 1, 1}, {32, 1, 1});
  ONEPASS_TRY(encoder.commit_and_wait());
  // [compat/encoder.h]
  ONEPASS_ASSIGN(const std::vector<float> out, arrays.read(x));
  return check(out[63] == 2.0f);
}

Status session(const Device& device) {
  constexpr std::uint32_t rows = 2, dim = 64;
  Arrays arrays(device);
  const Tensor x = arrays.fill({rows, dim}, 3.0f), weight = arrays.fill({dim}, 1.0f);
  const Tensor out = arrays.zeros({rows, dim});
  ONEPASS_TRY(arrays.status());
  // [compat/session.h]
  compat::GraphExecutor executor(device);
  compat::GraphSession s = executor.begin_recorded();
  s.rms_norm(x, weight, out, 1e-5f, rows, dim);
  ONEPASS_ASSIGN(const onepass::FinishReport report, s.finish_with_fusion_and_reorder());
  // [compat/session.h]
  ONEPASS_ASSIGN(const std::vector<float> normed, arrays.read(out));
  return check(report.dispatches == 1 && normed[0] > 0.99f && normed[0] < 1.01f);
}

constexpr Snippet list[] = {
    {"compat.h", all},
    {"compat/args.h", args},
    {"compat/encoder.h", encoder},
    {"compat/session.h", session},
};

}  // namespace

std::span<const Snippet> compat() { return list; }

}  // namespace snippets
