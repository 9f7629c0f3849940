#include "ops/shared/cpu.h"

#include <algorithm>

#include "core/kernel_row.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"

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

// out[r] = sum over k of x[r, k] * w[k] for rows r < m <= matmul_block_m, with row strides k and
// out_stride. load(begin, count, buffer) gives weights as f32.
template <class Load>
void dot_rows(const float* x, std::size_t m, std::size_t k, const Load& load, float* out,
              std::size_t out_stride) noexcept {
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
  for (std::size_t r = 0; r < m; ++r) out[r * out_stride] = sum(lanes[r]);
}

template <class W>
void matmul(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<MatmulParams>();
  const Block b = block_of(a, p.n);
  const std::size_t m_begin = b.tile_m * matmul_block_m;
  const std::size_t m = std::min<std::size_t>(matmul_block_m, p.m - m_begin);
  const float* x = a.ptr<const float>(0) + m_begin * p.k;
  for (std::uint64_t n = b.n_begin; n < b.n_end; ++n) {
    const W* w = row_of(a.ptr<const W>(1), n, p.k);
    const auto load = [w](std::size_t begin, std::size_t count, float* buffer) {
      return load_row(w, begin, count, buffer);
    };
    dot_rows(x, m, p.k, load, a.ptr<float>(2) + m_begin * p.n + n, p.n);
  }
}

template <class W>
void matmul_id(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<MatmulIdParams>();
  const Block b = block_of(a, p.n);
  const std::uint64_t pair = b.tile_m;
  if (pair >= std::uint64_t{p.tokens} * p.used) return;
  const std::uint32_t expert = a.ptr<const std::uint32_t>(2)[pair];
  const float* x = a.ptr<const float>(0) + pair / p.used * p.k;
  float* out = a.ptr<float>(3) + pair * p.n;
  for (std::uint64_t n = b.n_begin; n < b.n_end; ++n) {
    if (expert >= p.experts) {
      out[n] = 0.0f;
      continue;
    }
    const W* w = row_of(a.ptr<const W>(1), std::uint64_t{expert} * p.n + n, p.k);
    const auto load = [w](std::size_t begin, std::size_t count, float* buffer) {
      return load_row(w, begin, count, buffer);
    };
    dot_rows(x, 1, p.k, load, out + n, 1);
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
    case 6:
      return unpack<6>(stream, begin, count, out);
    default:
      return unpack<8>(stream, begin, count, out);
  }
}

template <class S>
void matmul_affine(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<MatmulAffineParams>();
  const Block b = block_of(a, p.n);
  const std::size_t m_begin = b.tile_m * matmul_block_m;
  const std::size_t m = std::min<std::size_t>(matmul_block_m, p.m - m_begin);
  const std::size_t row_bytes = std::size_t{p.k} * p.bits / 8, groups = p.k / p.group_size;
  const float* x = a.ptr<const float>(0) + m_begin * p.k;
  for (std::uint64_t n = b.n_begin; n < b.n_end; ++n) {
    const std::uint8_t* stream = a.ptr<const std::uint8_t>(1) + n * row_bytes;
    const S* scales = a.ptr<const S>(2) + n * groups;
    const S* biases = a.ptr<const S>(3) + n * groups;
    const auto load = [&](std::size_t begin, std::size_t count, float* buffer) {
      unpack(p.bits, stream, begin, count, buffer);
      for (std::size_t i = 0; i < count; i += p.group_size) {
        const float scale = to_float(scales[(begin + i) / p.group_size]);
        const float bias = to_float(biases[(begin + i) / p.group_size]);
        for (std::size_t j = 0; j < p.group_size; ++j) {
          buffer[i + j] = buffer[i + j] * scale + bias;
        }
      }
      return static_cast<const float*>(buffer);
    };
    dot_rows(x, m, p.k, load, a.ptr<float>(4) + m_begin * p.n + n, p.n);
  }
}

using quant::BlockQ4_0;
using quant::BlockQ8_0;

constexpr KernelRow kernels[] = {
    cpu_row(Op::matmul, DType::f32, "matmul_f32_f32", launch_matmul, matmul<float>),
    cpu_row(Op::matmul, DType::f16, "matmul_f16_f32", launch_matmul, matmul<F16>),
    cpu_row(Op::matmul, DType::bf16, "matmul_bf16_f32", launch_matmul, matmul<BF16>),
    cpu_row(Op::matmul, DType::q4_0, "matmul_q4_0_f32", launch_matmul, matmul<BlockQ4_0>),
    cpu_row(Op::matmul, DType::q8_0, "matmul_q8_0_f32", launch_matmul, matmul<BlockQ8_0>),
    cpu_row(Op::matmul_affine, DType::f32, "matmul_affine_f32_f32", launch_matmul_affine,
            matmul_affine<float>),
    cpu_row(Op::matmul_affine, DType::f16, "matmul_affine_f16_f32", launch_matmul_affine,
            matmul_affine<F16>),
    cpu_row(Op::matmul_affine, DType::bf16, "matmul_affine_bf16_f32", launch_matmul_affine,
            matmul_affine<BF16>),
    cpu_row(Op::matmul_id, DType::f32, "matmul_id_f32_f32", launch_matmul_id, matmul_id<float>),
    cpu_row(Op::matmul_id, DType::f16, "matmul_id_f16_f32", launch_matmul_id, matmul_id<F16>),
    cpu_row(Op::matmul_id, DType::bf16, "matmul_id_bf16_f32", launch_matmul_id, matmul_id<BF16>),
    cpu_row(Op::matmul_id, DType::q4_0, "matmul_id_q4_0_f32", launch_matmul_id,
            matmul_id<BlockQ4_0>),
    cpu_row(Op::matmul_id, DType::q8_0, "matmul_id_q8_0_f32", launch_matmul_id,
            matmul_id<BlockQ8_0>),
};

}  // namespace

std::span<const KernelRow> matmul_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
