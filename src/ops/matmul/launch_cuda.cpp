#include "ops/matmul/launch_cuda.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <utility>

#include "core/features.h"
#include "ops/launch.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"

namespace onepass::ops {
namespace {

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// An op of this family as its kernels see it.
struct Shape {
  MatmulParams p;
  bool by_pair = false, affine = false;

  explicit Shape(const Dispatch& d)
      : p(d.params_as<MatmulParams>()),
        by_pair(d.op == Op::matmul_id),
        affine(d.op == Op::matmul_affine) {}
  bool is_gate() const { return (p.form & form_product) != 0; }
  bool is_quantized() const { return (p.form & form_quantized) != 0; }
  bool is_normed() const { return (p.form & form_normed) != 0; }
  // Groups of `size` outputs: of every part, of a gate once.
  std::uint64_t groups(std::uint32_t size) const {
    const std::uint64_t first = divide_up(p.n0, size);
    return is_gate() ? first : first + divide_up(p.n1, size) + divide_up(p.n2, size);
  }
  std::uint64_t sets() const { return is_gate() ? p.n0 : groups(2); }
};

// The kernels of a format. piece: values that a lane of the mat-vec takes at a time; 0: the format
// has none but the general kernel. The others as in matmul_tile_bytes.
struct Kernels {
  std::uint32_t piece = 0;
  std::uint32_t bits = 0, high = 0, factors = 0;
};
Kernels kernels_of(Format format) {
  const bool split = format.layout == Layout::s16;
  switch (format.type) {
    case DType::f32:
      return {4, 32};
    case DType::f16:
    case DType::bf16:
      return {8, 16};
    default:
      break;
  }
  if (!split) return {};
  switch (format.type) {
    case DType::q4_0:
      return {32, 4, 0, 1};
    case DType::q8_0:
      return {16, 8, 0, 1};
    case DType::q4_k:
    case DType::a4_f16:
    case DType::a4_bf16:
      return {32, 4, 0, 2};
    case DType::q5_k:
      return {32, 4, 8, 2};
    case DType::q6_k:
      return {32, 4, 16, 2};
    case DType::a8_f16:
    case DType::a8_bf16:
      return {16, 8, 0, 2};
    default:
      return {};
  }
}

// Buffers and scratch start at a multiple of 256.
bool is_aligned(const Dispatch& d, op_u32 slot) {
  return slot >= d.n_views || d.views[slot].bytes == 0 || d.views[slot].offset % 16 == 0;
}
bool weights_are_aligned(const Dispatch& d) {
  return is_aligned(d, matmul_weight(0)) && is_aligned(d, matmul_weight(1)) &&
         is_aligned(d, matmul_weight(2));
}

void set_values(const Shape& s, std::initializer_list<std::pair<MatmulValue, std::uint32_t>> more,
                Launch& launch) {
  launch.n_spec = 0;
  const auto put = [&](MatmulValue index, std::uint32_t value) {
    launch.spec[launch.n_spec++] = {index, static_cast<std::int32_t>(value)};
  };
  if (s.by_pair) put(matmul_by_pair, 1);
  for (const auto& [index, value] : more) put(index, value);
}

void launch_any(const Shape& s, std::uint32_t variant, Launch& launch) {
  const std::uint64_t rows = s.by_pair ? s.p.m : divide_up(s.p.m, any_rows);
  launch.variant = static_cast<std::uint16_t>(variant);
  launch.grid = {static_cast<std::uint32_t>(s.groups(any_columns)),
                 static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, max_cuda_grid_y)), 1};
  launch.group = {any_threads, 1, 1};
  launch.shared_bytes = 0;
  set_values(s, {}, launch);
}

// Threads of the mat-vec kernels that a multiprocessor holds, by their registers. Two thirds of
// them keep the memory busy, and leave room for the first blocks of the next kernel.
constexpr std::uint32_t resident_threads = 768, busy_threads = 512;

std::uint32_t team_of(const DeviceInfo& device, std::uint64_t sets, std::uint32_t pieces) {
  const auto half = std::bit_floor(std::max(pieces / 2, 1u));
  const std::uint64_t fill = std::uint64_t{device.compute_units} * busy_threads * 3 / 2;
  const std::uint64_t wanted =
      std::bit_floor(std::max<std::uint64_t>(fill / std::max<std::uint64_t>(sets, 1), 1));
  const std::uint64_t most = std::clamp(std::bit_floor(std::max(pieces, 1u)), 4u, 256u);
  return static_cast<std::uint32_t>(
      std::min(std::max<std::uint64_t>(std::clamp(half, 4u, 32u), wanted), most));
}

std::uint32_t threads_of(const DeviceInfo& device, const Shape& s, std::uint32_t team,
                         std::uint32_t most) {
  const std::uint64_t units = device.compute_units;
  if (s.is_quantized()) {
    // A block has all of 32 columns, so there may be few blocks.
    const std::uint32_t threads = s.p.n0 / 32 < units ? most : 256;
    return std::max(std::min(threads, 32 * team), 32u);
  }
  std::uint32_t threads = 256;
  while (threads > 64 && s.sets() * team < units * threads) threads /= 2;
  return std::max(threads, team);
}

// Blocks for `units` pieces of work of equal size.
std::uint64_t blocks_of(const DeviceInfo& device, std::uint64_t units, std::uint32_t threads,
                        std::uint64_t shared) {
  const std::uint64_t processors = std::max(device.compute_units, 1u);
  const std::uint64_t fit = std::max<std::uint64_t>((220u << 10) / shared, 1);
  const auto slots = [&](std::uint32_t resident) {
    return processors * std::min<std::uint64_t>(std::max(resident / threads, 1u), fit);
  };
  const std::uint64_t few = slots(busy_threads), many = slots(resident_threads);
  if (units <= many) return units;
  // How long the longest share takes, in units of work and by how many blocks share the memory.
  const std::uint64_t few_time = divide_up(units, few) * few;
  const std::uint64_t many_time = divide_up(units, many) * many;
  return many_time * 8 < few_time * 7 ? many : few;
}

// False where rows of x do not fit.
bool launch_matvec(const DeviceInfo& device, const Dispatch& d, const Shape& s, Launch& launch) {
  const std::uint32_t pieces = s.p.k / kernels_of(d.format).piece;
  const std::uint64_t x_bytes = matmul_x_bytes(matmul_input(d.format) == DType::q8a, s.p.k);
  std::uint32_t rows = s.by_pair ? 1 : std::min(std::bit_ceil(s.p.m), 8u);
  const std::uint32_t team = team_of(device, s.sets(), pieces);
  std::uint32_t threads = 0;
  std::uint64_t shared = 0;
  for (;; rows /= 2) {
    if (rows == 0) return false;
    threads = threads_of(device, s, team, rows == 1 ? 512 : 256);
    shared = rows * x_bytes + matmul_sum_bytes(threads, rows);
    if (shared <= std::min(device.max_shared_bytes, 200u << 10)) break;
  }
  const std::uint64_t blocks_y = s.by_pair ? s.p.m : divide_up(s.p.m, rows);
  if (blocks_y > max_cuda_grid_y) return false;

  const std::uint32_t teams = threads / team;
  const std::uint32_t rounds = s.is_quantized() ? 32 / teams : 1;
  const std::uint64_t units = divide_up(s.sets(), std::uint64_t{teams} * rounds);
  const std::uint64_t blocks = blocks_of(device, units, threads, shared);
  launch.variant = rows == 1 ? variant_vector : variant_rows;
  launch.grid = {static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(blocks_y), 1};
  launch.group = {threads, 1, 1};
  launch.shared_bytes = static_cast<std::uint32_t>(shared);
  set_values(s,
             {{matmul_team, static_cast<std::uint32_t>(std::countr_zero(team))},
              {matmul_rounds, rounds},
              {matmul_rows, rows}},
             launch);
  return true;
}

// Which kernel streams `rows` weight rows of `pieces` pieces best, as measured on an H200: two rows
// per warp share what is read of x; one row, or several warps per row, where there are few rows.
MatmulVariant line_of(const DeviceInfo& device, std::uint64_t rows, std::uint32_t pieces) {
  const std::uint64_t per_processor = rows / std::max(device.compute_units, 1u);
  if (per_processor >= 100 && pieces <= 48) return variant_line_4;  // a short row fills no warp
  if (per_processor >= 40) {
    return per_processor < 60 && pieces >= 256 ? variant_line_2_deep : variant_line_2;
  }
  if (pieces >= 512) return variant_line_2_by_4;
  if (per_processor >= 20) {
    return pieces <= 64 || (pieces <= 128 && per_processor >= 28) ? variant_line_2 : variant_line_1;
  }
  if (pieces >= 256) return variant_line_2_by_4;
  return pieces > 128 ? variant_line_1_by_2 : variant_line_1;
}

// False where there is more than one row of x, or it is not aligned.
bool launch_line(const DeviceInfo& device, const Dispatch& d, const Shape& s, Launch& launch) {
  if (s.by_pair || s.p.m != 1 || matmul_input(d.format) != DType::q8a ||
      d.views[0].offset % 16 != 0) {
    return false;
  }
  const std::uint64_t units = std::max(device.compute_units, 1u);
  const MatmulVariant variant =
      s.is_gate() ? (s.p.n0 / 32 <= units ? variant_gate_1 : variant_gate_2)
                  : line_of(device, s.groups(1), s.p.k / kernels_of(d.format).piece);
  const std::uint32_t rows = matmul_line_rows(variant), warps = matmul_line_warps(variant);
  const std::uint64_t sets = s.groups(rows);
  std::uint32_t threads = 256;
  if (s.is_quantized()) {
    threads = 32 * warps * (32 / rows);
  } else {
    while (threads > std::max(64u, 32 * warps) && sets * 32 * warps < units * threads) threads /= 2;
  }
  launch.variant = static_cast<std::uint16_t>(variant);
  launch.grid = {static_cast<std::uint32_t>(divide_up(sets * 32 * warps, threads)), 1, 1};
  launch.group = {threads, 1, 1};
  launch.shared_bytes = 0;
  set_values(s, {}, launch);
  return true;
}

// At most 1024 threads on a multiprocessor, in two blocks unless one will do. Each norms all of x,
// so there are no more of them than needed, and no fewer threads than have 8 values each.
void launch_norm_line(const DeviceInfo& device, const Dispatch& d, const Shape& s, Launch& launch) {
  const std::uint64_t units = std::max(device.compute_units, 1u);
  // Pieces of weights with further bits leave no registers for four rows of them.
  const bool two_rows = kernels_of(d.format).high != 0;
  std::uint64_t blocks = 0, warps = 0;
  if (s.is_gate()) {
    const std::uint64_t work = divide_up(s.p.n0, 32);
    launch.variant = work <= units || two_rows ? variant_norm_gate_1 : variant_norm_gate_2;
    warps = 32 / matmul_line_rows(launch.variant);
    blocks = std::min(work, units * 32 / warps);
  } else {
    switch (line_of(device, s.groups(1), s.p.k / kernels_of(d.format).piece)) {
      case variant_line_4:
        launch.variant = two_rows ? variant_norm_2 : variant_norm_4;
        break;
      case variant_line_2:
      case variant_line_2_deep:
        launch.variant = variant_norm_2;
        break;
      default:
        launch.variant = variant_norm_1;
    }
    constexpr std::uint64_t most = 16;
    const std::uint64_t sets = s.groups(matmul_line_rows(launch.variant));
    blocks = std::min(sets, sets <= units * most ? units : 2 * units);
    const std::uint64_t rounds = divide_up(sets, blocks * most);
    warps = std::max(divide_up(sets, blocks * rounds),
                     std::min<std::uint64_t>(divide_up(s.p.k, 256), most));
  }
  launch.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
  launch.group = {static_cast<std::uint32_t>(32 * warps), 1, 1};
  launch.shared_bytes = matmul_x_bytes(true, s.p.k);
  set_values(s, {}, launch);
}

// Large tiles unless they leave processors idle. False where x cannot be copied in wide pieces.
bool launch_tile(const DeviceInfo& device, const Dispatch& d, const Shape& s, Launch& launch) {
  const Kernels kernels = kernels_of(d.format);
  const bool quantized = matmul_input(d.format) == DType::q8a;
  if (s.by_pair || s.p.m <= 8 || d.views[0].offset % (quantized ? 8 : 16) != 0 ||
      !has(device, Feature::tensor_cores)) {
    return false;
  }
  for (const auto& [warps_m, warps_n] : {std::pair{4u, 2u}, std::pair{2u, 1u}}) {
    const std::uint64_t x = s.groups((s.is_gate() ? 32 : 64) * warps_n);
    const std::uint64_t y = divide_up(s.p.m, 32 * warps_m);
    if (warps_m == 4 && x * y * 4 < std::uint64_t{device.compute_units} * 3) continue;
    if (y > max_cuda_grid_y) return false;
    launch.variant = variant_tile;
    launch.grid = {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 1};
    launch.group = {32 * warps_m * warps_n, 1, 1};
    launch.shared_bytes =
        quantized ? matmul_tile_bytes(warps_m, warps_n, kernels.bits, kernels.high, kernels.factors)
                  : matmul_float_tile_bytes(warps_m, warps_n, kernels.bits / 8);
    if (launch.shared_bytes > device.max_shared_bytes) continue;
    set_values(s, {}, launch);
    return true;
  }
  return false;
}

}  // namespace

bool accepts_cuda_matmul(const DeviceInfo&, const Dispatch& d) {
  const auto p = d.params_as<MatmulParams>();
  const bool quantized = (p.form & form_quantized) != 0;
  if ((p.form & form_product) == 0) return !quantized;
  return (p.form & (form_bias | form_residual)) == 0 && (!quantized || p.n0 % 32 == 0);
}

bool accepts_normed_matmul(const DeviceInfo&, const Dispatch& d) {
  const auto p = d.params_as<MatmulParams>();
  const std::uint32_t rest = p.form & ~form_normed;
  const bool form_fits = rest == 0 || rest == form_parts || rest == (form_parts | form_bias) ||
                         (rest == (form_parts | form_product | form_quantized) && p.n0 % 32 == 0);
  return form_fits && p.m == 1 && p.k % 32 == 0 && p.k <= norm_matmul_max_k &&
         d.n_views > matmul_norm && d.views[matmul_norm].bytes != 0 && is_aligned(d, matmul_norm) &&
         is_aligned(d, matmul_x) && weights_are_aligned(d);
}

Status launch_matmul_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const Shape s(d);
  ONEPASS_TRY(s.by_pair  ? launch_matmul_id(device, d, launch)
              : s.affine ? launch_matmul_affine(device, d, launch)
                         : launch_matmul(device, d, launch));
  launch.tiles = 1;
  if (s.p.m == 0 || s.groups(1) == 0) {
    launch.grid = {0, 1, 1};
    launch.group = {32, 1, 1};
    return {};
  }
  if (s.is_normed()) {
    launch_norm_line(device, d, s, launch);
    return {};
  }
  const std::uint32_t piece = kernels_of(d.format).piece;
  if (s.affine || piece == 0) {
    launch_any(s, 0, launch);
  } else if (s.p.k % piece != 0 || !weights_are_aligned(d) ||
             !(launch_tile(device, d, s, launch) || launch_line(device, d, s, launch) ||
               launch_matvec(device, d, s, launch))) {
    launch_any(s, variant_any, launch);
  }
  return {};
}

}  // namespace onepass::ops
