// Rotation kernels for one instruction set.
#ifndef OP_ISA

#include "core/kernel_row.h"
#include "ops/rope/kernels.h"
#include "ops/rope/params.h"
#include "ops/shared/cache.h"
#include "ops/shared/cpu.h"

#else

#include "ops/rope/cpu_rows.h"
#include "ops/shared/cache_rows.h"
#include "ops/shared/norm_rows.h"

namespace onepass::ops::OP_ISA {

// A tile computes its frequencies once, and the angles of a row once for all heads.
template <class T>
void rope(const KernelArgs& a) noexcept {
  const auto& p = params<RopeParams>(a);
  const StepReader step(a.data[1], p.positions_are_u32 != 0 ? 0 : a.bytes[1]);
  const float* factors = a.bytes[2] != 0 ? in<float>(a, 2) : nullptr;
  KernelArgs::Part part = a.part(p.rows);
  if (p.positions_are_u32 == 0 && part.end > step.n_rows()) part.end = step.n_rows();
  if (part.begin >= part.end) return;
  const std::uint64_t row_elements = std::uint64_t{p.heads} * p.head_dim;
  if (a.data[0] != a.data[3]) {
    std::memcpy(out<T>(a, 3) + part.begin * row_elements, in<T>(a, 0) + part.begin * row_elements,
                (part.end - part.begin) * row_elements * sizeof(T));
  }
  RopeFrequencies frequencies;
  RopeRow angles;
  for (std::uint32_t begin = 0; begin < p.angles.pairs; begin += table_pairs) {
    const std::uint32_t left = p.angles.pairs - begin;
    const std::uint32_t n = left < table_pairs ? left : table_pairs;
    rope_frequencies(p.angles, factors, begin, n, frequencies);
    for (std::uint64_t r = part.begin; r < part.end; ++r) {
      const std::uint32_t position = p.positions_are_u32 != 0
                                         ? in<std::uint32_t>(a, 1)[r]
                                         : step.row(static_cast<std::uint32_t>(r)).position;
      rope_row(p.angles, frequencies, n, position, angles);
      T* head = out<T>(a, 3) + r * row_elements;
      for (std::uint32_t h = 0; h < p.heads; ++h, head += p.head_dim) {
        rotate_head(p.angles, angles, begin, n, head);
      }
    }
  }
}

// One head: copied to y, normed if there is a weight, rotated. y may be x.
OP_INLINE void norm_and_rotate(const RopeStoreParams& p, const RopeRow& angles, const float* x,
                               const std::byte* weight, float eps, float* y) {
  if (weight != nullptr) {
    scale_row(x, NormWeight<float>{weight, true}, inverse_rms(x, p.head_dim, eps), p.head_dim, y);
  } else if (x != y) {
    std::memcpy(y, x, p.head_dim * sizeof(float));
  }
  rotate_head(p.angles, angles, 0, p.angles.pairs, y);
}

OP_INLINE const std::byte* data_or_null(const KernelArgs& a, std::size_t view) {
  return a.bytes[view] != 0 ? a.data[view] : nullptr;
}

inline void rope_store(const KernelArgs& a) noexcept {
  enum Slot { q, q_norm, k, k_norm, v, steps, factors, pages, q_out, k_cache, v_cache };
  const auto& p = params<RopeStoreParams>(a);
  const StepReader step(a.data[steps], a.bytes[steps]);
  const CachePlaces places{
      p.slots, p.kv_heads, p.capacity, p.ring != 0, data_or_null(a, pages), a.bytes[pages] / 4};
  KernelArgs::Part part = a.part(p.rows);
  if (part.end > step.n_rows()) part.end = step.n_rows();
  if (part.begin >= part.end) return;
  RopeFrequencies frequencies;
  RopeRow angles;
  rope_frequencies(p.angles, reinterpret_cast<const float*>(data_or_null(a, factors)), 0,
                   p.angles.pairs, frequencies);
  float head[2 * table_pairs];
  for (std::uint64_t r = part.begin; r < part.end; ++r) {
    const StepRow row = step.row(static_cast<std::uint32_t>(r));
    rope_row(p.angles, frequencies, p.angles.pairs, row.position, angles);
    if (a.bytes[q] != 0) {
      const std::uint64_t at = r * p.heads * p.head_dim;
      const float* x = in<float>(a, q) + at;
      float* y = out<float>(a, q_out) + at;
      for (std::uint32_t h = 0; h < p.heads; ++h, x += p.head_dim, y += p.head_dim) {
        norm_and_rotate(p, angles, x, data_or_null(a, q_norm), p.q_eps, y);
      }
    }
    std::uint32_t page_offset = 0;
    if (places.pages != nullptr) {
      if (row.slot >= step.n_slots()) continue;
      page_offset = step.slot(row.slot).page_offset;
    }
    for (std::uint64_t h = 0; h < p.kv_heads; ++h) {
      std::uint64_t place;
      if (!places.find(row.slot, page_offset, h, row.position, place)) break;
      const std::uint64_t at = (r * p.kv_heads + h) * p.head_dim;
      if (a.bytes[k] != 0) {
        norm_and_rotate(p, angles, in<float>(a, k) + at, data_or_null(a, k_norm), p.k_eps, head);
        store_cache_row(static_cast<DType>(p.k_type), head, p.head_dim, a.data[k_cache], place);
      }
      if (a.bytes[v] != 0) {
        store_cache_row(static_cast<DType>(p.v_type), in<float>(a, v) + at, p.head_dim,
                        a.data[v_cache], place);
      }
    }
  }
}

constexpr KernelRow rope_rows[] = {
    cpu_row(Op::rope, DType::f32, "rope_f32", launch_rope, rope<float>, OP_ISA_FEATURE),
    cpu_row(Op::rope, DType::f16, "rope_f16", launch_rope, rope<F16>, OP_ISA_FEATURE),
    cpu_row(Op::rope, DType::bf16, "rope_bf16", launch_rope, rope<BF16>, OP_ISA_FEATURE),
    cpu_row(Op::rope_store, DType::f32, "rope_store_f32", launch_rope_store, rope_store,
            OP_ISA_FEATURE),
    cpu_row(Op::rope_store, DType::f16, "rope_store_f16", launch_rope_store, rope_store,
            OP_ISA_FEATURE),
    cpu_row(Op::rope_store, DType::q8_0, "rope_store_q8_0", launch_rope_store, rope_store,
            OP_ISA_FEATURE),
};

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
