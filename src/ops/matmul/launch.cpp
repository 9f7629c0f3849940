#include "ops/launch.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "ops/quantize/params.h"
#include "quant/affine.h"

namespace onepass::ops {
namespace {

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

Status set_grid(const Dispatch& d, std::uint64_t blocks_n, std::uint64_t blocks_m, Launch& launch,
                std::uint64_t turns = 1) {
  const std::uint64_t tiles = product({blocks_n, blocks_m, turns});
  if (tiles > std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::unsupported, std::string(info(d.op).name) + ": too many rows", d.file,
                d.line);
  }
  launch.grid = {static_cast<std::uint32_t>(blocks_n), static_cast<std::uint32_t>(blocks_m),
                 static_cast<std::uint32_t>(turns)};
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
  return set_grid(d, width, std::max<std::uint64_t>(divide_up(m, rows), 1), launch, halvings + 1);
}

std::uint64_t groups_of(std::uint64_t n) { return divide_up(n, 16); }
std::uint64_t group_bytes(const Dispatch& d, std::uint64_t k) {
  return matrix_bytes(d.format, 16, k);
}

Status refuse(const Dispatch& d, const std::string& why) {
  return fail(ErrorCode::unsupported, std::string(info(d.op).name) + ": " + why, d.file, d.line);
}

std::uint64_t bytes_of(const Dispatch& d, op_u32 slot) {
  return slot < d.n_views ? d.views[slot].bytes : 0;
}
std::uint64_t if_bound(const Dispatch& d, op_u32 slot, std::uint64_t bytes) {
  return bytes_of(d, slot) == 0 ? 0 : bytes;
}

// Checks what every op of the family has: forms, and views of m rows with weights of `weights`
// bytes (of parts behind the first as many as their rows need, of experts as many as the first
// has). More views follow in `further`.
Status check_product(const Dispatch& d, const MatmulParams& p, std::uint64_t x,
                     std::uint64_t weights, std::initializer_list<std::uint64_t> further) {
  const std::uint32_t n[] = {p.n0, p.n1, p.n2};
  const bool gated = (p.form & form_product) != 0, parts = (p.form & form_parts) != 0;
  if ((p.form & ~info(d.op).forms) != 0 || (gated && !parts) || parts != (p.n1 != 0) ||
      (p.n2 != 0 && (p.n1 == 0 || gated)) || (gated && p.n0 != p.n1) ||
      ((p.form & (form_residual | form_quantized)) != 0 && parts && !gated)) {
    return refuse(d, "forms " + std::to_string(p.form) + " do not fit together");
  }
  if (gated && p.activation > 2) {
    return refuse(d, "activation " + std::to_string(p.activation) + ", expected 0 to 2");
  }
  const bool normed = (p.form & form_normed) != 0, quantized = (p.form & form_quantized) != 0;
  std::array<std::uint64_t, max_views> need{};
  need[matmul_x] = normed ? matrix_bytes(DType::f32, p.m, p.k) : x;
  for (op_u32 i = 0; i < matmul_max_parts; ++i) {
    if (i > 0 && n[i] == 0) break;
    const std::uint64_t out = matrix_bytes(DType::f32, p.m, n[i]);
    const bool whole = i == 0 || d.op == Op::matmul_id;
    need[matmul_weight(i)] = whole ? weights : matrix_bytes(d.format, n[i], p.k);
    need[matmul_out(i)] = gated && i > 0 ? 0
                          : quantized    ? matrix_bytes(DType::q8a, p.m, n[i])
                                         : out;
    if ((p.form & form_bias) != 0) {
      need[matmul_bias(i)] = if_bound(d, matmul_bias(i), matrix_bytes(DType::f32, 1, n[i]));
    }
  }
  if ((p.form & form_residual) != 0) need[matmul_residual] = matrix_bytes(DType::f32, p.m, p.n0);
  if (normed) {
    need[matmul_norm] = if_bound(d, matmul_norm, matrix_bytes(DType::f32, 1, p.k));
  }
  std::copy(further.begin(), further.end(), need.begin() + matmul_norm + 1);
  return expect_views(d, std::span(need).first(info(d.op).n_slots));
}

void set_cost(const Dispatch& d, const MatmulParams& p, Launch& launch) {
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.m, std::uint64_t{p.n0} + p.n1 + p.n2, p.k, 2});
}

}  // namespace

DType matmul_input(Format weights) noexcept {
  return is_packed(weights) && weights.type != DType::f32 && weights.type != DType::f16 &&
                 weights.type != DType::bf16
             ? DType::q8a
             : DType::f32;
}

bool quantize_x(const Dispatch& product, Dispatch& conversion, std::uint64_t& bytes) {
  if (product.input != DType::f32 || (form_of(product) & form_normed) != 0) return false;
  const auto p = product.params_as<MatmulParams>();
  QuantizeParams q{p.m, p.k};
  if (product.op == Op::matmul_id) {
    const auto id = product.params_as<MatmulIdParams>();
    if (id.pair_rows == 0) q.rows /= id.used;
  }
  conversion = make_dispatch(Op::quantize, DType::q8a);
  conversion.set_params(q);
  conversion.bind(product.views[matmul_x]);
  bytes = matrix_bytes(DType::q8a, q.rows, q.cols);
  return true;
}

Status check_matmul(const Dispatch& d) {
  const auto p = d.params_as<MatmulParams>();
  return check_product(d, p, matrix_bytes(matmul_input(d.format), p.m, p.k),
                       matrix_bytes(d.format, p.n0, p.k), {});
}

Status launch_matmul(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(check_matmul(d));
  const auto p = d.params_as<MatmulParams>();
  set_cost(d, p, launch);
  const bool gated = (p.form & form_product) != 0;
  if (!is_packed(d.format)) {
    const std::uint64_t n = gated ? p.n0 : std::uint64_t{p.n0} + p.n1 + p.n2;
    return set_blocks(d, n, p.k, divide_up(p.m, matmul_block_m), launch);
  }
  const std::uint64_t bytes = group_bytes(d, p.k);
  if ((p.form & form_quantized) != 0) {
    return set_packed(device, d, divide_up(p.n0, 32), 4 * bytes, p.m, p.k, launch);
  }
  if (gated) return set_packed(device, d, groups_of(p.n0), 2 * bytes, p.m, p.k, launch);
  const std::uint64_t groups = groups_of(p.n0) + groups_of(p.n1) + groups_of(p.n2);
  return set_packed(device, d, groups, bytes, p.m, p.k, launch);
}

bool accepts_cpu_matmul(const DeviceInfo&, const Dispatch& d) {
  const auto p = d.params_as<MatmulParams>();
  const bool gated = (p.form & form_product) != 0;
  if ((p.form & form_quantized) != 0 && (!gated || p.n0 % 32 != 0)) return false;
  return !gated || (p.form & form_residual) == 0;
}

Status launch_matmul_affine(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const auto a = d.params_as<MatmulAffineParams>();
  const MatmulParams& p = a.product;
  if (!quant::is_affine_bits(a.bits) || !quant::is_affine_group(a.group_size) ||
      p.k % a.group_size != 0) {
    return refuse(d, "k " + std::to_string(p.k) + " with " + std::to_string(a.bits) +
                         " bits in groups of " + std::to_string(a.group_size));
  }
  const std::uint64_t groups = matrix_bytes(d.format, p.n0, p.k / a.group_size);
  ONEPASS_TRY(check_product(d, p, matrix_bytes(DType::f32, p.m, p.k),
                            product({p.n0, std::uint64_t{p.k} * a.bits / 8}), {groups, groups}));
  set_cost(d, p, launch);
  return set_blocks(d, p.n0, p.k, divide_up(p.m, matmul_block_m), launch);
}

Status launch_matmul_id(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const auto a = d.params_as<MatmulIdParams>();
  const MatmulParams& p = a.product;
  if (a.used == 0 || p.m % a.used != 0) {
    return refuse(
        d, std::to_string(p.m) + " pairs with " + std::to_string(a.used) + " experts per token");
  }
  const std::uint32_t parts = p.n1 != 0 ? 2 : 1;
  if ((p.n1 != 0 && p.n1 != p.n0) || p.n2 != 0) return refuse(d, "parts of different sizes");
  const std::uint64_t expert = matrix_bytes(d.format, p.n0, p.k);
  const std::uint32_t bound = a.bound_experts != 0 ? a.bound_experts : a.experts;
  const std::uint32_t x_rows = a.pair_rows != 0 ? p.m : p.m / a.used;
  ONEPASS_TRY(check_product(d, p, matrix_bytes(matmul_input(d.format), x_rows, p.k),
                            product({bound, expert}), {matrix_bytes(DType::u32, 1, p.m)}));
  // Every pair may name another expert, as long as there are that many.
  const std::uint64_t in_use = std::min<std::uint64_t>(p.m, bound);
  launch.bytes_moved = bytes_of(d, matmul_x) + bytes_of(d, matmul_ids) +
                       parts * (bytes_of(d, matmul_out(0)) + product({in_use, expert}));
  launch.flops = product({parts, p.m, p.n0, p.k, 2});
  if (!is_packed(d.format)) {
    return set_blocks(d, product({parts, p.n0}), p.k, p.m, launch);
  }
  return set_grid(d, blocks_of(parts * groups_of(p.n0), group_bytes(d, p.k)),
                  std::max<std::uint64_t>(in_use, 1), launch);
}

}  // namespace onepass::ops
