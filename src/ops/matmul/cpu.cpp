#include "ops/shared/cpu.h"

#include <algorithm>

#include "core/kernel_row.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "quant/blocks.h"

namespace onepass::ops {
namespace {

// Weights turned to f32 at a time; a multiple of every block, group and of the lanes.
constexpr std::size_t chunk = 512;

struct Block {
  std::uint64_t n_begin, n_end, tile_m;
};
Block block_of(const KernelArgs& a, std::uint64_t n) noexcept {
  const std::uint64_t blocks_n = a.launch->grid[0];
  const std::uint64_t i = a.tile % blocks_n;
  return {n * i / blocks_n, n * (i + 1) / blocks_n, a.tile / blocks_n};
}

// y[r] = sum over k of x[r, k] * w[k] for rows r < m <= matmul_block_m. load(begin, count, buffer)
// gives weights as f32.
template <class Load>
void dot_rows(const float* x, std::size_t m, std::size_t k, const Load& load, float* y) noexcept {
  std::array<Lanes, matmul_block_m> lanes;
  for (std::size_t r = 0; r < m; ++r) lanes[r].fill(0.0f);
  float buffer[chunk];
  for (std::size_t begin = 0; begin < k; begin += chunk) {
    const std::size_t count = std::min(chunk, k - begin);
    const float* w = load(begin, count, buffer);
    for (std::size_t r = 0; r < m; ++r) {
      const float* row = x + r * k + begin;
      Lanes acc = lanes[r];
      accumulate(acc, count, [row, w](std::size_t i) { return row[i] * w[i]; });
      lanes[r] = acc;
    }
  }
  for (std::size_t r = 0; r < m; ++r) y[r] = sum(lanes[r]);
}

template <class W>
void dot_weight_row(const W* weights, std::uint64_t n, const float* x, std::size_t m, std::size_t k,
                    float* y) noexcept {
  const W* w = row_of(weights, n, k);
  const auto load = [w](std::size_t begin, std::size_t count, float* buffer) {
    return load_row(w, begin, count, buffer);
  };
  dot_rows(x, m, k, load, y);
}

// Rows of x that a tile works on.
struct XRows {
  std::size_t begin, count;
  const float* x;
};
XRows rows_of(const KernelArgs& a, const Block& b, std::size_t m, std::size_t k) noexcept {
  const std::size_t begin = b.tile_m * matmul_block_m;
  return {begin, std::min<std::size_t>(matmul_block_m, m - begin),
          a.ptr<const float>(0) + begin * k};
}

// The bias of a part; null: none.
const float* bias_of(const KernelArgs& a, const MatmulParams& p, op_u32 part) noexcept {
  const bool there = (p.form & form_bias) != 0 && a.bytes[matmul_bias(part)] != 0;
  return there ? a.ptr<const float>(matmul_bias(part)) : nullptr;
}

// y[r] = x[r] * row n of a part [+ bias]
template <class W>
void dot_part(const KernelArgs& a, const MatmulParams& p, op_u32 part, std::uint64_t n,
              const XRows& rows, float* y) noexcept {
  dot_weight_row(a.ptr<const W>(matmul_weight(part)), n, rows.x, rows.count, p.k, y);
  const float* bias = bias_of(a, p, part);
  if (bias == nullptr) return;
  for (std::size_t r = 0; r < rows.count; ++r) y[r] += bias[n];
}

template <class W>
void gated_matmul(const KernelArgs& a, const MatmulParams& p) noexcept {
  const Block b = block_of(a, p.n0);
  const XRows rows = rows_of(a, b, p.m, p.k);
  float gate[matmul_block_m], up[matmul_block_m];
  for (std::uint64_t n = b.n_begin; n < b.n_end; ++n) {
    dot_part<W>(a, p, 0, n, rows, gate);
    dot_part<W>(a, p, 1, n, rows, up);
    for (std::size_t r = 0; r < rows.count; ++r) {
      const float y = p.activation == 0   ? op_silu(gate[r])
                      : p.activation == 1 ? op_gelu(gate[r])
                                          : op_gelu_erf(gate[r]);
      a.ptr<float>(matmul_out(0))[(rows.begin + r) * p.n0 + n] = y * up[r];
    }
  }
}

template <class W>
void matmul(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<MatmulParams>();
  if ((p.form & form_product) != 0) return gated_matmul<W>(a, p);
  const std::uint64_t sizes[matmul_max_parts] = {p.n0, p.n1, p.n2};
  const Block b = block_of(a, sizes[0] + sizes[1] + sizes[2]);
  const XRows rows = rows_of(a, b, p.m, p.k);
  const float* residual =
      (p.form & form_residual) != 0 ? a.ptr<const float>(matmul_residual) : nullptr;
  float y[matmul_block_m];
  for (std::uint64_t i = b.n_begin; i < b.n_end; ++i) {
    std::uint64_t n = i;
    op_u32 part = 0;
    while (n >= sizes[part]) n -= sizes[part++];
    dot_part<W>(a, p, part, n, rows, y);
    for (std::size_t r = 0; r < rows.count; ++r) {
      const std::size_t at = (rows.begin + r) * sizes[part] + n;
      a.ptr<float>(matmul_out(part))[at] = residual ? y[r] + residual[at] : y[r];
    }
  }
}

template <class W>
void matmul_id(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<MatmulIdParams>();
  const std::uint64_t n = p.product.n0, k = p.product.k;
  const Block b = block_of(a, n + p.product.n1);
  const std::uint64_t pair = b.tile_m;
  if (pair >= p.product.m) return;
  const std::uint32_t expert = a.ptr<const std::uint32_t>(matmul_ids)[pair];
  const float* x = a.ptr<const float>(matmul_x) + (p.pair_rows != 0 ? pair : pair / p.used) * k;
  const std::uint64_t bound = std::uint64_t{expert} - p.first_expert;
  const bool is_bound = bound < (p.bound_experts != 0 ? p.bound_experts : p.experts);
  for (std::uint64_t at = b.n_begin; at < b.n_end; ++at) {
    const op_u32 part = at < n ? 0 : 1;
    const std::uint64_t i = at - part * n;
    float* out = a.ptr<float>(matmul_out(part)) + pair * n + i;
    if (expert >= p.experts) {
      if (p.first_expert == 0) *out = 0.0f;
    } else if (is_bound) {
      dot_weight_row(a.ptr<const W>(matmul_weight(part)), bound * n + i, x, 1, k, out);
    }
  }
}

// Numbers of Bits bits from a little-endian stream. 32 of them fill whole bytes, so begin, a
// multiple of 32, starts one.
template <unsigned Bits>
void unpack(const std::uint8_t* stream, std::size_t begin, std::size_t count, float* out) noexcept {
  const std::uint8_t* bytes = stream + begin / 8 * Bits;
  for (std::size_t i = 0; i < count; i += 8) {
    std::uint64_t word = 0;  // 8 numbers fill Bits bytes
    for (unsigned j = 0; j < Bits; ++j) word |= std::uint64_t{bytes[j]} << (8 * j);
    bytes += Bits;
    for (unsigned j = 0; j < 8; ++j) {
      out[i + j] = static_cast<float>(word >> (Bits * j) & ((1u << Bits) - 1));
    }
  }
}

void unpack(unsigned bits, const std::uint8_t* stream, std::size_t begin, std::size_t count,
            float* out) noexcept {
  switch (bits) {
    case 2:
      return unpack<2>(stream, begin, count, out);
    case 3:
      return unpack<3>(stream, begin, count, out);
    case 4:
      return unpack<4>(stream, begin, count, out);
    case 5:
      return unpack<5>(stream, begin, count, out);
    case 6:
      return unpack<6>(stream, begin, count, out);
    default:
      return unpack<8>(stream, begin, count, out);
  }
}

template <class S>
void matmul_affine(const KernelArgs& a) noexcept {
  const auto& affine = a.params_as<MatmulAffineParams>();
  const MatmulParams& p = affine.product;
  const std::size_t bits = affine.bits, group_size = affine.group_size;
  const Block b = block_of(a, p.n0);
  const std::size_t m_begin = b.tile_m * matmul_block_m;
  const std::size_t m = std::min<std::size_t>(matmul_block_m, p.m - m_begin);
  const std::size_t row_bytes = p.k * bits / 8, groups = p.k / group_size;
  const float* x = a.ptr<const float>(matmul_x) + m_begin * p.k;
  for (std::uint64_t n = b.n_begin; n < b.n_end; ++n) {
    const std::uint8_t* stream = a.ptr<const std::uint8_t>(matmul_weight(0)) + n * row_bytes;
    const S* scales = a.ptr<const S>(matmul_scales) + n * groups;
    const S* biases = a.ptr<const S>(matmul_biases) + n * groups;
    const auto load = [&](std::size_t begin, std::size_t count, float* buffer) {
      unpack(affine.bits, stream, begin, count, buffer);
      for (std::size_t i = 0; i < count; i += group_size) {
        const float scale = to_float(scales[(begin + i) / group_size]);
        const float bias = to_float(biases[(begin + i) / group_size]);
        for (std::size_t j = 0; j < group_size; ++j) {
          buffer[i + j] = buffer[i + j] * scale + bias;
        }
      }
      return static_cast<const float*>(buffer);
    };
    float y[matmul_block_m];
    dot_rows(x, m, p.k, load, y);
    for (std::size_t r = 0; r < m; ++r)
      a.ptr<float>(matmul_out(0))[(m_begin + r) * p.n0 + n] = y[r];
  }
}

constexpr KernelRow row(Op op, Format format, const char* name, LaunchFn launch, CpuKernelFn cpu) {
  KernelRow r = cpu_row(op, format, name, launch, cpu);
  r.lower = matmul_lower(op);
  if (op == Op::matmul_id) r.forms = form_parts;
  return r;
}
constexpr KernelRow matmul_row(Format format, const char* name, CpuKernelFn cpu) {
  KernelRow r = row(Op::matmul, format, name, launch_matmul, cpu);
  r.forms = form_parts | form_bias | form_product | form_residual;
  r.accepts = accepts_cpu_matmul;
  return r;
}

// One line per format that is not packed.
#define OP_WEIGHTS(format, W)                                                            \
  matmul_row(formats::format, "matmul_" #format "_f32", matmul<W>),                      \
      row(Op::matmul_id, formats::format, "matmul_id_" #format "_f32", launch_matmul_id, \
          matmul_id<W>)

constexpr KernelRow kernels[] = {
    OP_WEIGHTS(f32, float),
    OP_WEIGHTS(f16, F16),
    OP_WEIGHTS(bf16, BF16),
#define OP_BLOCK(format, Block) OP_WEIGHTS(format, quant::Block),
    ONEPASS_BLOCK_FORMATS(OP_BLOCK)
#undef OP_BLOCK
        row(Op::matmul_affine, DType::f32, "matmul_affine_f32_f32", launch_matmul_affine,
            matmul_affine<float>),
    row(Op::matmul_affine, DType::f16, "matmul_affine_f16_f32", launch_matmul_affine,
        matmul_affine<F16>),
    row(Op::matmul_affine, DType::bf16, "matmul_affine_bf16_f32", launch_matmul_affine,
        matmul_affine<BF16>),
};
#undef OP_WEIGHTS

}  // namespace

std::span<const KernelRow> matmul_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
