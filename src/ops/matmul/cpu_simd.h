// The ops on packed weights, for one instruction set.
#ifndef OP_ISA

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "core/kernel_row.h"
#include "onepass/device.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "quant/packed.h"

#else

#include "ops/matmul/cpu_forms.h"

namespace onepass::ops::OP_ISA {
namespace {

constexpr std::size_t row_bytes_of(bool quantized, std::size_t k) {
  return quantized ? k / 32 * 40 : k * 4;
}

// The part of the work that a tile does: rows of x, and units of the weights.
struct Tile {
  std::size_t m_begin, m;
  std::size_t begin, end;
  const std::byte* rows[matmul_packed_block_m];
};
template <class Form>
OP_INLINE void open_tile(const KernelArgs& a, std::size_t m, std::size_t k, std::size_t units,
                         Tile& t) {
  const std::size_t blocks_m = a.launch->grid[1];
  const std::size_t size = a.launch->group[0];
  const std::size_t i = a.tile / blocks_m;
  t.begin = matmul_block_begin(*a.launch, i, units);
  t.end = matmul_block_begin(*a.launch, i + 1, units);
  t.m_begin = a.tile % blocks_m * size;
  t.m = t.m_begin >= m ? 0 : m - t.m_begin < size ? m - t.m_begin : size;
  const std::size_t row_bytes = row_bytes_of(Form::quantized, k);
  const std::byte* x = a.data[0] + t.m_begin * row_bytes;
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
template <class Form>
OP_NOINLINE void run_groups(const Target& to, const Tile& t, std::size_t begin, std::size_t end,
                            std::size_t k) {
  alignas(64) float acc[16 * matmul_packed_block_m];
  const std::size_t group_bytes = k / Form::elements * Form::bytes;
  for (std::size_t g = begin; g < end; ++g) {
    dot_rows<Form>(to.weights + g * group_bytes, t.rows, t.m, k, acc);
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

template <class Form>
void matmul_to(const KernelArgs& a, const float* bias, const float* residual, float* out) {
  const auto& p = *static_cast<const MatmulParams*>(a.params);
  Tile t;
  open_tile<Form>(a, p.m, p.k, groups_of(p.n), t);
  run_groups<Form>({a.data[1], bias, residual, out, p.n}, t, t.begin, t.end, p.k);
}

OP_INLINE float* floats(const KernelArgs& a, std::size_t view) {
  return reinterpret_cast<float*>(a.data[view]);
}

template <class Form>
void matmul(const KernelArgs& a) noexcept {
  matmul_to<Form>(a, nullptr, nullptr, floats(a, 2));
}
template <class Form>
void matmul_bias(const KernelArgs& a) noexcept {
  matmul_to<Form>(a, floats(a, 2), nullptr, floats(a, 3));
}
template <class Form>
void matmul_add(const KernelArgs& a) noexcept {
  matmul_to<Form>(a, nullptr, floats(a, 2), floats(a, 3));
}
template <class Form>
void matmul_bias_add(const KernelArgs& a) noexcept {
  matmul_to<Form>(a, floats(a, 2), floats(a, 3), floats(a, 4));
}

template <class Form>
void matmul_3(const KernelArgs& a) noexcept {
  const auto& p = *static_cast<const Matmul3Params*>(a.params);
  const std::size_t n[3] = {p.n0, p.n1, p.n2};
  Tile t;
  open_tile<Form>(a, p.m, p.k, groups_of(n[0]) + groups_of(n[1]) + groups_of(n[2]), t);
  std::size_t first = 0;  // of the weights' groups
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t groups = groups_of(n[i]), last = first + groups;
    const std::size_t begin = t.begin > first ? t.begin : first;
    const std::size_t end = t.end < last ? t.end : last;
    if (begin < end) {
      const float* bias = a.bytes[4 + i] > 0 ? floats(a, 4 + i) : nullptr;
      run_groups<Form>({a.data[1 + i], bias, nullptr, floats(a, 7 + i), n[i]}, t, begin - first,
                       end - first, p.k);
    }
    first = last;
  }
}

OP_INLINE F activate(op_u32 activation, F x) {
  return activation == 0 ? silu(x) : activation == 1 ? gelu(x) : gelu_erf(x);
}

// Products of the tile's rows with groups [begin, end): acc[16 (m (g - begin) + r) + i].
template <class Form>
OP_INLINE void dot_groups(const std::byte* weights, const Tile& t, std::size_t begin,
                          std::size_t end, std::size_t k, float* acc) {
  const std::size_t group_bytes = k / Form::elements * Form::bytes;
  for (std::size_t g = begin; g < end; ++g, acc += 16 * t.m) {
    dot_rows<Form>(weights + g * group_bytes, t.rows, t.m, k, acc);
  }
}

// How many pieces of a tile to multiply with one matrix before the other one's turn, where the
// products of one row with one piece take a row of a buffer of matmul_packed_block_m rows. Memory
// is read faster in long runs.
OP_INLINE std::size_t pieces_per_turn(const Tile& t) {
  return t.m == 0 ? 1 : matmul_packed_block_m / t.m;
}

template <class Form>
void matmul_glu(const KernelArgs& a) noexcept {
  const auto& p = *static_cast<const MatmulGluParams*>(a.params);
  alignas(64) float gate[16 * matmul_packed_block_m];
  alignas(64) float up[16 * matmul_packed_block_m];
  Tile t;
  open_tile<Form>(a, p.m, p.k, groups_of(p.n), t);
  const std::size_t per_turn = pieces_per_turn(t);
  for (std::size_t begin = t.begin; begin < t.end; begin += per_turn) {
    const std::size_t end = t.end - begin < per_turn ? t.end : begin + per_turn;
    dot_groups<Form>(a.data[1], t, begin, end, p.k, gate);
    dot_groups<Form>(a.data[2], t, begin, end, p.k, up);
    for (std::size_t i = 0; i < (end - begin) * t.m; ++i) {
      const std::size_t column = 16 * (begin + i / t.m), count = p.n - column;
      const F y =
          Simd::mul(activate(p.activation, Simd::load(gate + 16 * i)), Simd::load(up + 16 * i));
      float* out = floats(a, 3) + (t.m_begin + i % t.m) * p.n + column;
      if (count >= 16) {
        Simd::store(out, y);
      } else {
        Simd::store_part(out, y, count);
      }
    }
  }
}

template <class Form>
void matmul_glu_q(const KernelArgs& a) noexcept {
  const auto& p = *static_cast<const MatmulGluParams*>(a.params);
  alignas(64) float gate[2 * 16 * matmul_packed_block_m];
  alignas(64) float up[2 * 16 * matmul_packed_block_m];
  Tile t;
  open_tile<Form>(a, p.m, p.k, p.n / 32, t);
  const std::size_t per_turn = pieces_per_turn(t);
  for (std::size_t begin = t.begin; begin < t.end; begin += per_turn) {
    const std::size_t end = t.end - begin < per_turn ? t.end : begin + per_turn;
    dot_groups<Form>(a.data[1], t, 2 * begin, 2 * end, p.k, gate);
    dot_groups<Form>(a.data[2], t, 2 * begin, 2 * end, p.k, up);
    for (std::size_t b = begin; b < end; ++b) {
      for (std::size_t r = 0; r < t.m; ++r) {
        const std::size_t first = 16 * (2 * (b - begin) * t.m + r), second = first + 16 * t.m;
        const F y0 =
            Simd::mul(activate(p.activation, Simd::load(gate + first)), Simd::load(up + first));
        const F y1 =
            Simd::mul(activate(p.activation, Simd::load(gate + second)), Simd::load(up + second));
        std::byte* out = a.data[3] + (t.m_begin + r) * row_bytes_of(true, p.n);
        quantize_q8a(y0, y1, out + 32 * b, out + p.n + 8 * b);
      }
    }
  }
}

// Products of up to 64 pairs with one expert's groups; the rows of out are those of the pairs.
struct Pairs {
  static constexpr std::size_t max = 64;
  std::size_t count;
  const std::byte* rows[max];
  float* out[max];
};
template <class Form>
OP_NOINLINE void run_pairs(const std::byte* weights, const Pairs& pairs, std::size_t begin,
                           std::size_t end, std::size_t n, std::size_t k) {
  alignas(64) float acc[16 * Pairs::max];
  const std::size_t group_bytes = k / Form::elements * Form::bytes;
  for (std::size_t g = begin; g < end; ++g) {
    dot_rows<Form>(weights + g * group_bytes, pairs.rows, pairs.count, k, acc);
    const std::size_t column = 16 * g, count = n - column;
    for (std::size_t r = 0; r < pairs.count; ++r) {
      if (count >= 16) {
        Simd::store(pairs.out[r] + column, Simd::load(acc + 16 * r));
      } else {
        Simd::store_part(pairs.out[r] + column, Simd::load(acc + 16 * r), count);
      }
    }
  }
}

template <class Form>
void matmul_id(const KernelArgs& a) noexcept {
  const auto& p = *static_cast<const MatmulIdParams*>(a.params);
  const std::size_t blocks_n = a.launch->grid[0], pairs = std::size_t{p.tokens} * p.used;
  const std::size_t i = a.tile % blocks_n, index = a.tile / blocks_n;
  const std::size_t groups = groups_of(p.n);
  const std::size_t begin = groups * i / blocks_n, end = groups * (i + 1) / blocks_n;
  const std::size_t last = 16 * end < p.n ? 16 * end : p.n;
  const std::size_t row_bytes = row_bytes_of(Form::quantized, p.k);
  const std::size_t expert_bytes = groups * (p.k / Form::elements * Form::bytes);
  const auto* ids = reinterpret_cast<const std::uint32_t*>(a.data[2]);
  const std::size_t n_bound = p.bound_experts != 0 ? p.bound_experts : p.experts;
  const bool by_expert = pairs > n_bound;
  const std::size_t from = by_expert ? 0 : index;
  const std::size_t to = by_expert ? pairs : index < pairs ? index + 1 : 0;

  Pairs chosen;
  chosen.count = 0;
  std::size_t expert = index;
  for (std::size_t pair = from; pair < to; ++pair) {
    float* out = floats(a, 3) + pair * p.n;
    if (ids[pair] >= p.experts) {
      if (p.first_expert == 0 && (!by_expert || index == 0)) {
        for (std::size_t column = 16 * begin; column < last; ++column) out[column] = 0.0f;
      }
      continue;
    }
    const std::size_t bound = ids[pair] - std::size_t{p.first_expert};
    if (bound >= n_bound || (by_expert && bound != index)) continue;
    expert = bound;
    chosen.rows[chosen.count] = a.data[0] + (p.pair_rows != 0 ? pair : pair / p.used) * row_bytes;
    chosen.out[chosen.count++] = out;
    if (chosen.count == Pairs::max) {
      run_pairs<Form>(a.data[1] + expert * expert_bytes, chosen, begin, end, p.n, p.k);
      chosen.count = 0;
    }
  }
  if (chosen.count > 0) {
    run_pairs<Form>(a.data[1] + expert * expert_bytes, chosen, begin, end, p.n, p.k);
  }
}

#define OP_TEXT_(x) #x
#define OP_TEXT(x) OP_TEXT_(x)
#define OP_PACKED_ROW(op, format, ...)                                                \
  packed_row(Op::op, DType::format, #op "_" #format "_" OP_TEXT(OP_ISA), launch_##op, \
             op<__VA_ARGS__>, __VA_ARGS__::quantized)
#define OP_PACKED_ROWS(format, ...)                                                            \
  OP_PACKED_ROW(matmul, format, __VA_ARGS__), OP_PACKED_ROW(matmul_bias, format, __VA_ARGS__), \
      OP_PACKED_ROW(matmul_add, format, __VA_ARGS__),                                          \
      OP_PACKED_ROW(matmul_bias_add, format, __VA_ARGS__),                                     \
      OP_PACKED_ROW(matmul_3, format, __VA_ARGS__),                                            \
      OP_PACKED_ROW(matmul_glu, format, __VA_ARGS__),                                          \
      OP_PACKED_ROW(matmul_glu_q, format, __VA_ARGS__),                                        \
      OP_PACKED_ROW(matmul_id, format, __VA_ARGS__)

constexpr KernelRow packed_row(Op op, DType format, const char* name, LaunchFn launch,
                               CpuKernelFn cpu, bool quantized) {
  KernelRow row = cpu_row(op, format, name, launch, cpu);
  row.needs = OP_ISA_FEATURE;
  row.input = quantized ? DType::q8a : DType::f32;
  row.convert = quantized ? quantize_x : nullptr;
  row.lower = matmul_lower(op);
  return row;
}

constexpr KernelRow matmul_rows[] = {
    OP_PACKED_ROWS(f32_r16, FloatForm<LoadF32>),
    OP_PACKED_ROWS(f16_r16, FloatForm<LoadF16>),
    OP_PACKED_ROWS(bf16_r16, FloatForm<LoadBF16>),
    OP_PACKED_ROWS(q4_0_r16, Q4_0Form),
    OP_PACKED_ROWS(q8_0_r16, Q8_0Form),
    OP_PACKED_ROWS(q4_k_r16, Q4_KForm),
    OP_PACKED_ROWS(q5_k_r16, Q5_KForm),
    OP_PACKED_ROWS(q6_k_r16, Q6_KForm),
    OP_PACKED_ROWS(a4_f16_r16, AffineForm<4, LoadF16>),
    OP_PACKED_ROWS(a4_bf16_r16, AffineForm<4, LoadBF16>),
    OP_PACKED_ROWS(a8_f16_r16, AffineForm<8, LoadF16>),
    OP_PACKED_ROWS(a8_bf16_r16, AffineForm<8, LoadBF16>),
};

#undef OP_PACKED_ROWS
#undef OP_PACKED_ROW
#undef OP_TEXT
#undef OP_TEXT_

}  // namespace
}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
