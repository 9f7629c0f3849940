// Cache kernels for one instruction set.
#ifndef OP_ISA

#include "core/kernel_row.h"
#include "ops/kv_cache/kernels.h"
#include "ops/kv_cache/params.h"
#include "ops/shared/cache.h"
#include "ops/shared/cpu.h"

#else

#include "ops/shared/cache_rows.h"

namespace onepass::ops::OP_ISA {

// A row whose slot, page or position lies outside the cache is not stored.
template <DType Type>
void kv_store(const KernelArgs& a) noexcept {
  const auto& p = params<KvStoreParams>(a);
  const StepReader step(a.data[1], a.bytes[1]);
  CachePlaces places{p.slots, p.kv_heads, p.capacity, p.ring != 0, nullptr, a.bytes[2] / 4};
  if (places.n_pages != 0) places.pages = a.data[2];
  const KernelArgs::Part part = a.part(p.rows);
  for (std::uint64_t r = part.begin; r < part.end && r < step.n_rows(); ++r) {
    const StepRow row = step.row(static_cast<std::uint32_t>(r));
    std::uint32_t page_offset = 0;
    if (places.pages != nullptr) {
      if (row.slot >= step.n_slots()) continue;
      page_offset = step.slot(row.slot).page_offset;
    }
    for (std::uint64_t h = 0; h < p.kv_heads; ++h) {
      std::uint64_t at;
      if (!places.find(row.slot, page_offset, h, row.position, at)) break;
      store_cache_row(Type, in<float>(a, 0) + (r * p.kv_heads + h) * p.head_dim, p.head_dim,
                      a.data[3], at);
    }
  }
}

// Heads are copied whole up to the position.
template <DType Type>
void kv_copy(const KernelArgs& a) noexcept {
  const auto& p = params<KvCopyParams>(a);
  const std::uint64_t row = cache_row_bytes(Type, p.head_dim);
  const KernelArgs::Part part = a.part(p.kv_heads);
  for (std::uint64_t h = part.begin; h < part.end; ++h) {
    const std::uint64_t at = h * p.capacity * row;
    std::memcpy(a.data[1] + at, a.data[0] + at, p.positions * row);
  }
}

#define CACHE_ROWS(op)                                                                      \
  cpu_row(Op::op, DType::f32, #op "_f32", launch_##op, op<DType::f32>, OP_ISA_FEATURE),     \
      cpu_row(Op::op, DType::f16, #op "_f16", launch_##op, op<DType::f16>, OP_ISA_FEATURE), \
      cpu_row(Op::op, DType::q8_0, #op "_q8_0", launch_##op, op<DType::q8_0>, OP_ISA_FEATURE)
constexpr KernelRow kv_cache_rows[] = {CACHE_ROWS(kv_store), CACHE_ROWS(kv_copy)};
#undef CACHE_ROWS

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
