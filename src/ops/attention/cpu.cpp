#include "ops/shared/cpu.h"

#include <algorithm>
#include <limits>

#include "core/kernel_row.h"
#include "ops/attention/kernels.h"
#include "ops/attention/params.h"

namespace onepass::ops {
namespace {

// Keys per step of the online softmax. Steps start at multiples of it, so a row's bits do not
// depend on capacity, window start of other rows or number of rows.
constexpr std::uint64_t key_chunk = 64;

struct Keys {
  std::uint64_t begin = 0, end = 0;  // visible positions
  std::uint64_t slot = 0;
  bool active = true;  // false: the row is not part of this pass
};

Keys visible_keys(const KernelArgs& a, const AttentionParams& p, std::uint32_t row) noexcept {
  Keys keys;
  std::uint64_t position = 0, length = p.kv_len;
  if (p.has_step != 0) {
    const StepReader step(a.data[3], a.bytes[3]);
    if (row >= step.n_rows()) {
      keys.active = false;
      return keys;
    }
    const StepRow r = step.row(row);
    if (r.slot >= p.slots || r.slot >= step.n_slots()) return keys;
    keys.slot = r.slot;
    position = r.position;
    length = std::min(step.slot(r.slot).kv_length, p.capacity);
  } else {
    position = std::uint64_t{p.kv_len} - p.rows + row;
  }
  keys.end = p.causal != 0 ? std::min(position + 1, length) : length;
  if (p.window != 0 && position + 1 > p.window) {
    keys.begin = std::min(position + 1 - p.window, keys.end);
  }
  return keys;
}

template <class K, class V>
void attend(const AttentionParams& p, const Keys& keys, const float* q, const K* k, const V* v,
            float* out) noexcept {
  const std::size_t dim = p.head_dim;
  std::fill_n(out, dim, 0.0f);
  float top = -std::numeric_limits<float>::infinity(), total = 0.0f;
  float weights[key_chunk];
  for (std::uint64_t at = keys.begin / key_chunk * key_chunk; at < keys.end; at += key_chunk) {
    const std::uint64_t begin = std::max(at, keys.begin);
    const std::uint64_t end = std::min(at + key_chunk, keys.end);
    float chunk_top = top;
    for (std::uint64_t key = begin; key < end; ++key) {
      const K* row = k + key * dim;
      Lanes lanes{};
      accumulate(lanes, dim, [q, row](std::size_t i) { return q[i] * to_float(row[i]); });
      float score = sum(lanes) * p.scale;
      if (p.softcap != 0.0f) score = op_softcap(score, p.softcap);
      weights[key - begin] = score;
      chunk_top = score > chunk_top ? score : chunk_top;
    }
    // Scores of minus infinity alone have no maximum to subtract.
    const float base = chunk_top > -std::numeric_limits<float>::infinity() ? chunk_top : 0.0f;
    const float shrink = op_exp(top - base);
    total *= shrink;
    for (std::size_t i = 0; i < dim; ++i) out[i] *= shrink;
    for (std::uint64_t key = begin; key < end; ++key) {
      const float weight = op_exp(weights[key - begin] - base);
      const V* row = v + key * dim;
      total += weight;
      for (std::size_t i = 0; i < dim; ++i) out[i] += weight * to_float(row[i]);
    }
    top = chunk_top;
  }
  // No keys, or none with weight: zeros.
  if (total == 0.0f) return;
  for (std::size_t i = 0; i < dim; ++i) out[i] /= total;
}

template <class K>
void attention(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<AttentionParams>();
  if (a.tile >= std::uint64_t{p.rows} * p.heads) return;
  const std::uint32_t row = a.tile / p.heads, head = a.tile % p.heads;
  const Keys keys = visible_keys(a, p, row);
  if (!keys.active) return;
  const std::uint64_t kv_head = head / (p.heads / p.kv_heads);
  const std::uint64_t cache = (keys.slot * p.kv_heads + kv_head) * p.capacity * p.head_dim;
  const std::uint64_t offset = std::uint64_t{a.tile} * p.head_dim;
  const float* q = a.ptr<const float>(0) + offset;
  const K* k = a.ptr<const K>(1) + cache;
  float* out = a.ptr<float>(4) + offset;
  if (p.v_is_f16 != 0) {
    attend(p, keys, q, k, a.ptr<const F16>(2) + cache, out);
  } else {
    attend(p, keys, q, k, a.ptr<const float>(2) + cache, out);
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::attention, DType::f32, "attention_f32_f32", launch_attention, attention<float>),
    cpu_row(Op::attention, DType::f16, "attention_f16_f32", launch_attention, attention<F16>),
};

}  // namespace

std::span<const KernelRow> attention_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
