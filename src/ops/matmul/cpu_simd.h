// The ops on packed weights, for one instruction set.
#ifndef OP_ISA

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "core/kernel_row.h"
#include "onepass/device.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "quant/affine.h"
#include "quant/blocks.h"
#include "quant/floats.h"

#else

#include "ops/matmul/cpu_forms.h"
#include "ops/matmul/cpu_grid.h"

namespace onepass::ops::OP_ISA {
namespace {

constexpr std::size_t row_bytes_of(bool quantized, std::size_t k) {
  return quantized ? k / 32 * 40 : k * 4;
}

// What the ops need to know of a form; they are compiled once for all of them.
struct Kernel {
  void (*dot_rows)(const std::byte* w, const std::byte* const* rows, std::size_t m, std::size_t k,
                   float* acc);
  std::size_t (*group_bytes)(std::size_t k);
  bool quantized;
};
template <class Form>
constexpr Kernel kernel_of{dot_rows<Form>, quant::r16::group_bytes<Form>, Form::quantized};

// The part of the work that a tile does: rows of x, and units of the weights.
struct Tile {
  std::size_t m_begin, m;
  std::size_t begin, end;
  const std::byte* rows[matmul_packed_block_m];
};
OP_INLINE void open_tile(const Kernel& form, const KernelArgs& a, std::size_t m, std::size_t k,
                         std::size_t units, Tile& t) {
  const std::size_t blocks_m = a.launch->grid[1];
  const std::size_t size = a.launch->group[0];
  const std::size_t i = a.tile / blocks_m;
  t.begin = matmul_block_begin(*a.launch, i, units);
  t.end = matmul_block_begin(*a.launch, i + 1, units);
  t.m_begin = a.tile % blocks_m * size;
  t.m = t.m_begin >= m ? 0 : m - t.m_begin < size ? m - t.m_begin : size;
  const std::size_t row_bytes = row_bytes_of(form.quantized, k);
  const std::byte* x = a.data[matmul_x] + t.m_begin * row_bytes;
  for (std::size_t r = 0; r < t.m; ++r) t.rows[r] = x + r * row_bytes;
}

// Where the products with one weight matrix go. Optional: bias [n], residual [m, n].
struct Target {
  const std::byte* weights;
  const float* bias;
  const float* residual;
  float* out;
  std::size_t n;
};

// Groups [begin, end) of the target for the rows of the tile.
OP_NOINLINE void run_groups(const Kernel& form, const Target& to, const Tile& t, std::size_t begin,
                            std::size_t end, std::size_t k) {
  alignas(64) float acc[16 * matmul_packed_block_m];
  const std::size_t group_bytes = form.group_bytes(k);
  for (std::size_t g = begin; g < end; ++g) {
    form.dot_rows(to.weights + g * group_bytes, t.rows, t.m, k, acc);
    const std::size_t column = 16 * g, count = to.n - column;
    for (std::size_t r = 0; r < t.m; ++r) {
      F y = Simd::load(acc + 16 * r);
      const std::size_t at = (t.m_begin + r) * to.n + column;
      if (count >= 16) {
        if (to.bias) y = Simd::add(y, Simd::load(to.bias + column));
        if (to.residual) y = Simd::add(y, Simd::load(to.residual + at));
        Simd::store(to.out + at, y);
      } else {
        if (to.bias) y = Simd::add(y, Simd::load_part(to.bias + column, count));
        if (to.residual) y = Simd::add(y, Simd::load_part(to.residual + at, count));
        Simd::store_part(to.out + at, y, count);
      }
    }
  }
}

constexpr std::size_t groups_of(std::size_t n) { return (n + 15) / 16; }

OP_INLINE float* floats(const KernelArgs& a, std::size_t view) {
  return reinterpret_cast<float*>(a.data[view]);
}

// The bias of a part; null: none.
OP_INLINE const float* bias_of(const KernelArgs& a, const MatmulParams& p, op_u32 part) {
  const bool there = (p.form & form_bias) != 0 && a.bytes[matmul_bias(part)] != 0;
  return there ? floats(a, matmul_bias(part)) : nullptr;
}

OP_NOINLINE void parts_matmul(const Kernel& form, const KernelArgs& a,
                              const MatmulParams& p) noexcept {
  const std::size_t n[matmul_max_parts] = {p.n0, p.n1, p.n2};
  const float* residual = (p.form & form_residual) != 0 ? floats(a, matmul_residual) : nullptr;
  Tile t;
  open_tile(form, a, p.m, p.k, groups_of(n[0]) + groups_of(n[1]) + groups_of(n[2]), t);
  std::size_t first = 0;  // of the weights' groups
  for (op_u32 i = 0; i < matmul_max_parts; ++i) {
    const std::size_t groups = groups_of(n[i]), last = first + groups;
    const std::size_t begin = t.begin > first ? t.begin : first;
    const std::size_t end = t.end < last ? t.end : last;
    if (begin < end) {
      const Target to{a.data[matmul_weight(i)], bias_of(a, p, i), residual,
                      floats(a, matmul_out(i)), n[i]};
      run_groups(form, to, t, begin - first, end - first, p.k);
    }
    first = last;
  }
}

OP_INLINE F activate(op_u32 activation, F x) {
  return activation == 0 ? silu(x) : activation == 1 ? gelu(x) : gelu_erf(x);
}

// Products of the tile's rows with groups [begin, end): acc[16 (m (g - begin) + r) + i].
OP_INLINE void dot_groups(const Kernel& form, const std::byte* weights, const Tile& t,
                          std::size_t begin, std::size_t end, std::size_t k, float* acc) {
  const std::size_t group_bytes = form.group_bytes(k);
  for (std::size_t g = begin; g < end; ++g, acc += 16 * t.m) {
    form.dot_rows(weights + g * group_bytes, t.rows, t.m, k, acc);
  }
}

// How many pieces of a tile to multiply with one matrix before the other one's turn, where the
// products of one row with one piece take a row of a buffer of matmul_packed_block_m rows. Memory
// is read faster in long runs.
OP_INLINE std::size_t pieces_per_turn(const Tile& t) {
  return t.m == 0 ? 1 : matmul_packed_block_m / t.m;
}

// activation(gate) * up for 16 columns from `column` on.
OP_INLINE F gated(const KernelArgs& a, const MatmulParams& p, std::size_t column, const float* gate,
                  const float* up) {
  F g = Simd::load(gate), u = Simd::load(up);
  if ((p.form & form_bias) != 0) {
    const std::size_t count = p.n0 - column;
    const auto load = [column, count](const float* bias) {
      return count >= 16 ? Simd::load(bias + column) : Simd::load_part(bias + column, count);
    };
    if (const float* bias = bias_of(a, p, 0)) g = Simd::add(g, load(bias));
    if (const float* bias = bias_of(a, p, 1)) u = Simd::add(u, load(bias));
  }
  return Simd::mul(activate(p.activation, g), u);
}

OP_NOINLINE void gated_matmul(const Kernel& form, const KernelArgs& a,
                              const MatmulParams& p) noexcept {
  alignas(64) float gate[16 * matmul_packed_block_m];
  alignas(64) float up[16 * matmul_packed_block_m];
  Tile t;
  open_tile(form, a, p.m, p.k, groups_of(p.n0), t);
  const std::size_t per_turn = pieces_per_turn(t);
  for (std::size_t begin = t.begin; begin < t.end; begin += per_turn) {
    const std::size_t end = t.end - begin < per_turn ? t.end : begin + per_turn;
    dot_groups(form, a.data[matmul_weight(0)], t, begin, end, p.k, gate);
    dot_groups(form, a.data[matmul_weight(1)], t, begin, end, p.k, up);
    for (std::size_t i = 0; i < (end - begin) * t.m; ++i) {
      const std::size_t column = 16 * (begin + i / t.m), count = p.n0 - column;
      const F y = gated(a, p, column, gate + 16 * i, up + 16 * i);
      float* out = floats(a, matmul_out(0)) + (t.m_begin + i % t.m) * p.n0 + column;
      if (count >= 16) {
        Simd::store(out, y);
      } else {
        Simd::store_part(out, y, count);
      }
    }
  }
}

// The same with the output as q8a, in blocks of two groups.
OP_NOINLINE void gated_matmul_q(const Kernel& form, const KernelArgs& a,
                                const MatmulParams& p) noexcept {
  alignas(64) float gate[2 * 16 * matmul_packed_block_m];
  alignas(64) float up[2 * 16 * matmul_packed_block_m];
  Tile t;
  open_tile(form, a, p.m, p.k, p.n0 / 32, t);
  const std::size_t per_turn = pieces_per_turn(t);
  for (std::size_t begin = t.begin; begin < t.end; begin += per_turn) {
    const std::size_t end = t.end - begin < per_turn ? t.end : begin + per_turn;
    dot_groups(form, a.data[matmul_weight(0)], t, 2 * begin, 2 * end, p.k, gate);
    dot_groups(form, a.data[matmul_weight(1)], t, 2 * begin, 2 * end, p.k, up);
    for (std::size_t b = begin; b < end; ++b) {
      for (std::size_t r = 0; r < t.m; ++r) {
        const std::size_t first = 16 * (2 * (b - begin) * t.m + r), second = first + 16 * t.m;
        const F y0 = gated(a, p, 32 * b, gate + first, up + first);
        const F y1 = gated(a, p, 32 * b + 16, gate + second, up + second);
        std::byte* out = a.data[matmul_out(0)] + (t.m_begin + r) * row_bytes_of(true, p.n0);
        quantize_q8a(y0, y1, out + 32 * b, out + p.n0 + 8 * b);
      }
    }
  }
}

template <class Form>
void matmul(const KernelArgs& a) noexcept {
  const auto& p = *static_cast<const MatmulParams*>(a.params);
  if ((p.form & form_product) == 0) return parts_matmul(kernel_of<Form>, a, p);
  if ((p.form & form_quantized) == 0) return gated_matmul(kernel_of<Form>, a, p);
  gated_matmul_q(kernel_of<Form>, a, p);
}

// Up to 64 pairs with one expert.
struct Pairs {
  static constexpr std::size_t max = 64;
  std::size_t count;
  std::size_t expert;  // of those that are bound
  const std::byte* rows[max];
  std::size_t pair[max];
};
// Their products with groups [begin, end) of the expert, of all parts one after the other.
OP_NOINLINE void run_pairs(const Kernel& form, const KernelArgs& a, const Pairs& pairs,
                           std::size_t begin, std::size_t end) {
  alignas(64) float acc[16 * Pairs::max];
  const auto& p = static_cast<const MatmulIdParams*>(a.params)->product;
  const std::size_t n = p.n0, groups = groups_of(n), group_bytes = form.group_bytes(p.k);
  for (std::size_t i = begin; i < end; ++i) {
    const op_u32 part = i < groups ? 0 : 1;
    const std::size_t g = i - part * groups, column = 16 * g, count = n - column;
    const std::byte* weights = a.data[matmul_weight(part)];
    form.dot_rows(weights + (pairs.expert * groups + g) * group_bytes, pairs.rows, pairs.count, p.k,
                  acc);
    for (std::size_t r = 0; r < pairs.count; ++r) {
      float* out = floats(a, matmul_out(part)) + pairs.pair[r] * n + column;
      if (count >= 16) {
        Simd::store(out, Simd::load(acc + 16 * r));
      } else {
        Simd::store_part(out, Simd::load(acc + 16 * r), count);
      }
    }
  }
}
// Zeros instead of them, for a pair without an expert.
OP_INLINE void clear_pair(const KernelArgs& a, std::size_t pair, std::size_t begin,
                          std::size_t end) {
  const std::size_t n = static_cast<const MatmulIdParams*>(a.params)->product.n0;
  const std::size_t groups = groups_of(n);
  for (std::size_t i = begin; i < end; ++i) {
    const op_u32 part = i < groups ? 0 : 1;
    const std::size_t column = 16 * (i - part * groups);
    float* out = floats(a, matmul_out(part)) + pair * n;
    for (std::size_t c = column; c < column + 16 && c < n; ++c) out[c] = 0.0f;
  }
}

OP_NOINLINE void pairs_matmul(const Kernel& form, const KernelArgs& a) noexcept {
  const auto& p = *static_cast<const MatmulIdParams*>(a.params);
  const std::size_t pairs = p.product.m, blocks_n = a.launch->grid[0];
  const std::size_t i = a.tile % blocks_n, index = a.tile / blocks_n;
  const std::size_t groups = groups_of(p.product.n0) + groups_of(p.product.n1);
  const std::size_t begin = groups * i / blocks_n, end = groups * (i + 1) / blocks_n;
  const std::size_t row_bytes = row_bytes_of(form.quantized, p.product.k);
  const auto* ids = reinterpret_cast<const std::uint32_t*>(a.data[matmul_ids]);
  const std::size_t n_bound = p.bound_experts != 0 ? p.bound_experts : p.experts;
  const bool by_expert = pairs > n_bound;
  const std::size_t from = by_expert ? 0 : index;
  const std::size_t to = by_expert ? pairs : index < pairs ? index + 1 : 0;

  Pairs chosen;
  chosen.count = 0;
  for (std::size_t pair = from; pair < to; ++pair) {
    if (ids[pair] >= p.experts) {
      if (p.first_expert == 0 && (!by_expert || index == 0)) clear_pair(a, pair, begin, end);
      continue;
    }
    const std::size_t bound = ids[pair] - std::size_t{p.first_expert};
    if (bound >= n_bound || (by_expert && bound != index)) continue;
    chosen.expert = bound;
    chosen.rows[chosen.count] =
        a.data[matmul_x] + (p.pair_rows != 0 ? pair : pair / p.used) * row_bytes;
    chosen.pair[chosen.count++] = pair;
    if (chosen.count == Pairs::max) {
      run_pairs(form, a, chosen, begin, end);
      chosen.count = 0;
    }
  }
  if (chosen.count > 0) run_pairs(form, a, chosen, begin, end);
}

template <class Form>
void matmul_id(const KernelArgs& a) noexcept {
  pairs_matmul(kernel_of<Form>, a);
}

#define OP_TEXT_(x) #x
#define OP_TEXT(x) OP_TEXT_(x)

constexpr KernelRow packed_row(Op op, Format format, const char* name, LaunchFn launch,
                               CpuKernelFn cpu, bool quantized) {
  KernelRow row = cpu_row(op, format, name, launch, cpu);
  row.needs = OP_ISA_FEATURE;
  row.input = quantized ? DType::q8a : DType::f32;
  row.convert = quantized ? quantize_x : nullptr;
  row.lower = matmul_lower(op);
  if (op == Op::matmul) {
    row.forms = form_parts | form_bias | form_product | form_residual | form_quantized;
    row.accepts = accepts_cpu_matmul;
  }
  if (op == Op::matmul_id) row.forms = form_parts;
  return row;
}

#define OP_PACKED_ROW(op, type, ...)                                                          \
  packed_row(Op::op, formats::type##_r16, #op "_" #type "_r16_" OP_TEXT(OP_ISA), launch_##op, \
             op<__VA_ARGS__>, __VA_ARGS__::quantized),
#define LAYOUT_r16(type, Form)                     \
  OP_PACKED_ROW(matmul, type, FormOf<quant::Form>) \
  OP_PACKED_ROW(matmul_id, type, FormOf<quant::Form>)
#define LAYOUT_s16(type, Form)
#define LAYOUT(type, layout, elements, bytes, Form) LAYOUT_##layout(type, Form)
constexpr KernelRow matmul_rows[] = {
#include "onepass/tables/formats.def"
};

#undef LAYOUT_r16
#undef LAYOUT_s16
#undef OP_PACKED_ROW
#undef OP_TEXT
#undef OP_TEXT_

}  // namespace
}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
