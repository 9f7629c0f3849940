#include "ops/shared/cpu.h"

#include "core/kernel_row.h"
#include "ops/kv_cache/kernels.h"
#include "ops/kv_cache/params.h"

namespace onepass::ops {
namespace {

// A row whose slot or position lies outside the cache is not stored.
template <class T>
void kv_store(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<KvStoreParams>();
  const StepReader step(a.data[1], a.bytes[1]);
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end && r < step.n_rows(); ++r) {
    const StepRow row = step.row(static_cast<std::uint32_t>(r));
    if (row.slot >= p.slots || row.position >= p.capacity) continue;
    for (std::uint64_t h = 0; h < p.kv_heads; ++h) {
      const float* x = a.ptr<const float>(0) + (r * p.kv_heads + h) * p.head_dim;
      const std::uint64_t at =
          (std::uint64_t{row.slot} * p.kv_heads + h) * p.capacity + row.position;
      T* y = a.ptr<T>(2) + at * p.head_dim;
      for (std::size_t i = 0; i < p.head_dim; ++i) y[i] = from_float<T>(x[i]);
    }
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::kv_store, DType::f32, "kv_store_f32_f32", launch_kv_store, kv_store<float>),
    cpu_row(Op::kv_store, DType::f16, "kv_store_f16_f32", launch_kv_store, kv_store<F16>),
};

}  // namespace

std::span<const KernelRow> kv_cache_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
