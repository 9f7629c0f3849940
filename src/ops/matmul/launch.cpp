#include "ops/launch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "ops/quantize/params.h"
#include "quant/affine.h"

namespace onepass::ops {
namespace {

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

Status set_grid(const Dispatch& d, std::uint64_t blocks_n, std::uint64_t blocks_m, Launch& launch) {
  const std::uint64_t tiles = product({blocks_n, blocks_m});
  if (tiles > std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::unsupported, std::string(info(d.op).name) + ": too many rows", d.file,
                d.line);
  }
  launch.grid = {static_cast<std::uint32_t>(blocks_n), static_cast<std::uint32_t>(blocks_m), 1};
  launch.tiles = static_cast<std::uint32_t>(tiles);
  return {};
}

// About 32,768 weights per block: long enough to hide the cost of a tile, short enough to spread.
Status set_blocks(const Dispatch& d, std::uint64_t n, std::uint64_t k, std::uint64_t blocks_m,
                  Launch& launch) {
  const std::uint64_t rows =
      std::clamp<std::uint64_t>(32768 / std::max<std::uint64_t>(k, 1), 4, 64);
  const std::uint64_t blocks_n = std::max<std::uint64_t>(divide_up(n, rows), 1);
  return set_grid(d, blocks_n, std::max<std::uint64_t>(blocks_m, 1), launch);
}

constexpr std::uint64_t small_block = 16 << 10;  // bytes of weights

// Blocks of about 64 KiB of weights; smaller ones to have 16 of them.
std::uint64_t blocks_of(std::uint64_t units, std::uint64_t unit_bytes) {
  const std::uint64_t bytes = product({units, unit_bytes});
  const std::uint64_t blocks =
      std::max(bytes / (64 << 10), std::min<std::uint64_t>(bytes / small_block, 16));
  return std::clamp<std::uint64_t>(blocks, 1, std::max<std::uint64_t>(units, 1));
}

// Units are the pieces of the weights that are not cut further. Rows of x in a block fit the
// second-level cache together with some weights.
Status set_packed(const DeviceInfo& device, const Dispatch& d, std::uint64_t units,
                  std::uint64_t unit_bytes, std::uint64_t m, std::uint64_t k, Launch& launch) {
  const std::uint64_t row_bytes =
      std::max<std::uint64_t>(matrix_bytes(matmul_input(d.format), 1, k), 1);
  const std::uint64_t fit =
      std::clamp<std::uint64_t>((512 << 10) / row_bytes, 16, matmul_packed_block_m) / 8 * 8;
  const std::uint64_t blocks = std::max<std::uint64_t>(divide_up(m, fit), 1);
  const std::uint64_t rows = divide_up(divide_up(m, blocks), 8) * 8;
  std::uint64_t width = blocks_of(units, unit_bytes), halvings = 0;
  if (m <= 8) {  // bound by memory
    const std::uint64_t most =
        std::min(units, std::max<std::uint64_t>(product({units, unit_bytes}) / small_block, 1));
    width = std::clamp<std::uint64_t>(device.compute_units, 1, std::max<std::uint64_t>(most, 1));
    while (width << (halvings + 1) <= most) ++halvings;
  }
  launch.group = {static_cast<std::uint32_t>(rows), 1, 1};
  launch.n_spec = 2;
  launch.spec[0] = {0, static_cast<std::int32_t>(width)};
  launch.spec[1] = {1, static_cast<std::int32_t>(halvings)};
  return set_grid(d, width * (halvings + 1), std::max<std::uint64_t>(divide_up(m, rows), 1),
                  launch);
}

std::uint64_t groups_of(std::uint64_t n) { return divide_up(n, 16); }
std::uint64_t group_bytes(const Dispatch& d, std::uint64_t k) {
  return matrix_bytes(d.format, 16, k);
}

Status set_tiles(const DeviceInfo& device, const Dispatch& d, std::uint64_t n, std::uint64_t m,
                 std::uint64_t k, Launch& launch) {
  if (is_packed(d.format)) {
    return set_packed(device, d, groups_of(n), group_bytes(d, k), m, k, launch);
  }
  return set_blocks(d, n, k, divide_up(m, matmul_block_m), launch);
}

Status expect_activation(const Dispatch& d, std::uint32_t activation) {
  if (activation <= 2) return {};
  return fail(ErrorCode::unsupported,
              std::string(info(d.op).name) + ": activation " + std::to_string(activation) +
                  ", expected 0 to 2",
              d.file, d.line);
}

struct Sizes {
  std::uint64_t x, weights, out, bias;
};
Sizes sizes_of(const Dispatch& d, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  return {matrix_bytes(matmul_input(d.format), m, k), matrix_bytes(d.format, n, k),
          matrix_bytes(DType::f32, m, n), matrix_bytes(DType::f32, 1, n)};
}
// Of a bias, which may be left out.
std::uint64_t if_bound(const Dispatch& d, std::size_t view, std::uint64_t bytes) {
  return d.n_views > view && d.views[view].bytes == 0 ? 0 : bytes;
}
// What the kernels of normed rows need; weights: views 1 ..
Status expect_normed(const Dispatch& d, std::uint32_t m, std::uint32_t k, std::size_t weights) {
  if (m != 1 || k % 32 != 0 || k > norm_matmul_max_k || matmul_input(d.format) != DType::q8a) {
    return fail(ErrorCode::unsupported,
                std::string(info(d.op).name) + ": " + std::to_string(m) + " rows of " +
                    std::to_string(k) + " with weights of " + name(d.format) +
                    ", expected one row of a multiple of 32 up to " +
                    std::to_string(norm_matmul_max_k) + " and packed weights",
                d.file, d.line);
  }
  bool aligned = d.views[d.n_views - 1].offset % 16 == 0;
  for (std::size_t i = 0; i <= weights; ++i) {
    aligned &= d.views[i].bytes == 0 || d.views[i].offset % 16 == 0;
  }
  if (aligned) return {};
  return fail(ErrorCode::unsupported,
              std::string(info(d.op).name) +
                  ": a view does not start at a multiple of 16 bytes, which x, weights and the "
                  "norm's weight have to",
              d.file, d.line);
}
void set_cost(const Dispatch& d, std::uint64_t m, std::uint64_t n, std::uint64_t k,
              Launch& launch) {
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({m, n, k, 2});
}

}  // namespace

DType matmul_input(DType weights) noexcept {
  switch (weights) {
    case DType::f32_r16:
    case DType::f16_r16:
    case DType::bf16_r16:
      return DType::f32;
    default:
      return is_packed(weights) ? DType::q8a : DType::f32;
  }
}

bool quantize_x(const Dispatch& product, Dispatch& conversion, std::uint64_t& bytes) {
  if (product.input != DType::f32) return false;
  QuantizeParams q{};
  if (product.op == Op::matmul) {
    const auto p = product.params_as<MatmulParams>();
    q = {p.m, p.k};
  } else if (product.op == Op::matmul_id) {
    const auto p = product.params_as<MatmulIdParams>();
    q = {p.pair_rows != 0 ? p.tokens * p.used : p.tokens, p.k};
  } else {
    return false;
  }
  conversion = make_dispatch(Op::quantize, DType::q8a);
  conversion.set_params(q);
  conversion.bind(product.views[0]);
  bytes = matrix_bytes(DType::q8a, q.rows, q.cols);
  return true;
}

Status launch_matmul(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const MatmulParams p = d.params_as<MatmulParams>();
  const Sizes s = sizes_of(d, p.m, p.n, p.k);
  ONEPASS_TRY(expect_views(d, {s.x, s.weights, s.out}));
  set_cost(d, p.m, p.n, p.k, launch);
  return set_tiles(device, d, p.n, p.m, p.k, launch);
}

Status launch_matmul_bias(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const MatmulParams p = d.params_as<MatmulParams>();
  const Sizes s = sizes_of(d, p.m, p.n, p.k);
  ONEPASS_TRY(expect_views(d, {s.x, s.weights, s.bias, s.out}));
  set_cost(d, p.m, p.n, p.k, launch);
  return set_tiles(device, d, p.n, p.m, p.k, launch);
}

Status launch_matmul_add(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const MatmulParams p = d.params_as<MatmulParams>();
  const Sizes s = sizes_of(d, p.m, p.n, p.k);
  ONEPASS_TRY(expect_views(d, {s.x, s.weights, s.out, s.out}));
  set_cost(d, p.m, p.n, p.k, launch);
  return set_tiles(device, d, p.n, p.m, p.k, launch);
}

Status launch_matmul_bias_add(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const MatmulParams p = d.params_as<MatmulParams>();
  const Sizes s = sizes_of(d, p.m, p.n, p.k);
  ONEPASS_TRY(expect_views(d, {s.x, s.weights, s.bias, s.out, s.out}));
  set_cost(d, p.m, p.n, p.k, launch);
  return set_tiles(device, d, p.n, p.m, p.k, launch);
}

Status launch_matmul_3(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const Matmul3Params p = d.params_as<Matmul3Params>();
  const Sizes a = sizes_of(d, p.m, p.n0, p.k), b = sizes_of(d, p.m, p.n1, p.k);
  const Sizes c = sizes_of(d, p.m, p.n2, p.k);
  ONEPASS_TRY(
      expect_views(d, {a.x, a.weights, b.weights, c.weights, if_bound(d, 4, a.bias),
                       if_bound(d, 5, b.bias), if_bound(d, 6, c.bias), a.out, b.out, c.out}));
  const std::uint64_t n = std::uint64_t{p.n0} + p.n1 + p.n2;
  set_cost(d, p.m, n, p.k, launch);
  if (!is_packed(d.format)) return set_tiles(device, d, n, p.m, p.k, launch);
  const std::uint64_t groups = groups_of(p.n0) + groups_of(p.n1) + groups_of(p.n2);
  return set_packed(device, d, groups, group_bytes(d, p.k), p.m, p.k, launch);
}

Status launch_matmul_glu(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const MatmulGluParams p = d.params_as<MatmulGluParams>();
  ONEPASS_TRY(expect_activation(d, p.activation));
  const Sizes s = sizes_of(d, p.m, p.n, p.k);
  ONEPASS_TRY(expect_views(d, {s.x, s.weights, s.weights, s.out}));
  set_cost(d, p.m, 2 * std::uint64_t{p.n}, p.k, launch);
  if (!is_packed(d.format)) return set_tiles(device, d, p.n, p.m, p.k, launch);
  return set_packed(device, d, groups_of(p.n), 2 * group_bytes(d, p.k), p.m, p.k, launch);
}

Status launch_matmul_glu_q(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const MatmulGluParams p = d.params_as<MatmulGluParams>();
  ONEPASS_TRY(expect_activation(d, p.activation));
  const Sizes s = sizes_of(d, p.m, p.n, p.k);
  ONEPASS_TRY(expect_views(d, {s.x, s.weights, s.weights, matrix_bytes(DType::q8a, p.m, p.n)}));
  set_cost(d, p.m, 2 * std::uint64_t{p.n}, p.k, launch);
  return set_packed(device, d, divide_up(p.n, 32), 4 * group_bytes(d, p.k), p.m, p.k, launch);
}

Status launch_norm_matmul(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const auto p = d.params_as<NormMatmulParams>();
  const Sizes s = sizes_of(d, p.m, p.n, p.k);
  const std::uint64_t row = matrix_bytes(DType::f32, 1, p.k);
  ONEPASS_TRY(expect_views(d, {row, s.weights, s.out, row}));
  ONEPASS_TRY(expect_normed(d, p.m, p.k, 1));
  set_cost(d, p.m, p.n, p.k, launch);
  return {};
}

Status launch_norm_matmul_3(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const auto p = d.params_as<NormMatmul3Params>();
  const Sizes a = sizes_of(d, p.m, p.n0, p.k), b = sizes_of(d, p.m, p.n1, p.k);
  const Sizes c = sizes_of(d, p.m, p.n2, p.k);
  const std::uint64_t row = matrix_bytes(DType::f32, 1, p.k);
  ONEPASS_TRY(
      expect_views(d, {row, a.weights, b.weights, c.weights, if_bound(d, 4, a.bias),
                       if_bound(d, 5, b.bias), if_bound(d, 6, c.bias), a.out, b.out, c.out, row}));
  ONEPASS_TRY(expect_normed(d, p.m, p.k, 3));
  set_cost(d, p.m, std::uint64_t{p.n0} + p.n1 + p.n2, p.k, launch);
  return {};
}

Status launch_norm_matmul_glu_q(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const auto p = d.params_as<NormMatmulGluParams>();
  ONEPASS_TRY(expect_activation(d, p.activation));
  const Sizes s = sizes_of(d, p.m, p.n, p.k);
  const std::uint64_t row = matrix_bytes(DType::f32, 1, p.k);
  const std::uint64_t out = matrix_bytes(DType::q8a, p.m, p.n);
  ONEPASS_TRY(expect_views(d, {row, s.weights, s.weights, out, row}));
  ONEPASS_TRY(expect_normed(d, p.m, p.k, 2));
  set_cost(d, p.m, 2 * std::uint64_t{p.n}, p.k, launch);
  return {};
}

Status launch_matmul_affine(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const MatmulAffineParams p = d.params_as<MatmulAffineParams>();
  if (!quant::is_affine_bits(p.bits) || !quant::is_affine_group(p.group_size) ||
      p.k % p.group_size != 0) {
    return fail(ErrorCode::unsupported,
                "matmul_affine: k " + std::to_string(p.k) + " with " + std::to_string(p.bits) +
                    " bits in groups of " + std::to_string(p.group_size),
                d.file, d.line);
  }
  const std::uint64_t groups = matrix_bytes(d.format, p.n, p.k / p.group_size);
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(DType::f32, p.m, p.k), product({p.n, std::uint64_t{p.k} * p.bits / 8}),
          groups, groups, matrix_bytes(DType::f32, p.m, p.n)}));
  set_cost(d, p.m, p.n, p.k, launch);
  return set_blocks(d, p.n, p.k, divide_up(p.m, matmul_block_m), launch);
}

Status launch_matmul_id(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const MatmulIdParams p = d.params_as<MatmulIdParams>();
  const std::uint64_t pairs = product({p.tokens, p.used});
  const std::uint64_t expert = matrix_bytes(d.format, p.n, p.k);
  const std::uint32_t bound = p.bound_experts != 0 ? p.bound_experts : p.experts;
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(matmul_input(d.format), p.pair_rows != 0 ? pairs : p.tokens, p.k),
          product({bound, expert}), matrix_bytes(DType::u32, p.tokens, p.used),
          matrix_bytes(DType::f32, pairs, p.n)}));
  // Every pair may name another expert, as long as there are that many.
  const std::uint64_t in_use = std::min<std::uint64_t>(pairs, bound);
  launch.bytes_moved =
      d.views[0].bytes + d.views[2].bytes + d.views[3].bytes + product({in_use, expert});
  launch.flops = product({pairs, p.n, p.k, 2});
  if (!is_packed(d.format)) return set_blocks(d, p.n, p.k, pairs, launch);
  return set_grid(d, blocks_of(groups_of(p.n), group_bytes(d, p.k)),
                  std::max<std::uint64_t>(in_use, 1), launch);
}

}  // namespace onepass::ops
