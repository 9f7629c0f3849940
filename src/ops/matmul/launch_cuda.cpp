#include "ops/matmul/launch_cuda.h"

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>
#include <optional>
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
  MatmulForm form = form_plain;
  std::uint32_t m = 0, k = 0;
  std::array<std::uint32_t, 3> n{};
  std::uint32_t weights = 1;   // views 1 ..
  std::optional<float> eps{};  // of ops that norm x first

  bool is_glu() const { return form == form_glu || form == form_glu_q; }
  // Groups of `size` outputs of every product.
  std::uint64_t groups(std::uint32_t size) const {
    std::uint64_t sum = 0;
    for (const std::uint32_t rows : n) sum += divide_up(rows, size);
    return sum;
  }
  std::uint64_t sets() const { return is_glu() ? n[0] : groups(2); }
};

Status check(const DeviceInfo& device, const Dispatch& d, Launch& launch, Shape& s) {
  const auto plain = [&](MatmulForm form) {
    const auto p = d.params_as<MatmulParams>();
    s = {form, p.m, p.k, {p.n, 0, 0}, 1};
  };
  const auto glu = [&](MatmulForm form) {
    const auto p = d.params_as<MatmulGluParams>();
    s = {form, p.m, p.k, {p.n, 0, 0}, 2};
  };
  switch (d.op) {
    case Op::matmul_bias:
      plain(form_bias);
      return launch_matmul_bias(device, d, launch);
    case Op::matmul_add:
      plain(form_add);
      return launch_matmul_add(device, d, launch);
    case Op::matmul_bias_add:
      plain(form_bias_add);
      return launch_matmul_bias_add(device, d, launch);
    case Op::matmul_3: {
      const auto p = d.params_as<Matmul3Params>();
      s = {form_three, p.m, p.k, {p.n0, p.n1, p.n2}, 3};
      return launch_matmul_3(device, d, launch);
    }
    case Op::matmul_glu:
      glu(form_glu);
      return launch_matmul_glu(device, d, launch);
    case Op::matmul_glu_q:
      glu(form_glu_q);
      return launch_matmul_glu_q(device, d, launch);
    case Op::norm_matmul: {
      plain(form_plain);
      s.eps = d.params_as<NormMatmulParams>().eps;
      return launch_norm_matmul(device, d, launch);
    }
    case Op::norm_matmul_3: {
      const auto p = d.params_as<NormMatmul3Params>();
      s = {form_three, p.m, p.k, {p.n0, p.n1, p.n2}, 3, p.eps};
      return launch_norm_matmul_3(device, d, launch);
    }
    case Op::norm_matmul_glu_q: {
      glu(form_glu_q);
      s.eps = d.params_as<NormMatmulGluParams>().eps;
      return launch_norm_matmul_glu_q(device, d, launch);
    }
    case Op::matmul_id: {
      const auto p = d.params_as<MatmulIdParams>();
      ONEPASS_TRY(launch_matmul_id(device, d, launch));
      s = {form_id, p.tokens * p.used, p.k, {p.n, 0, 0}, 1};
      return {};
    }
    case Op::matmul_affine: {
      const auto p = d.params_as<MatmulAffineParams>();
      s = {form_affine, p.m, p.k, {p.n, 0, 0}, 1};
      return launch_matmul_affine(device, d, launch);
    }
    default:
      plain(form_plain);
      return launch_matmul(device, d, launch);
  }
}

// The kernels of a format. piece: values that a lane of the mat-vec takes at a time; 0: the format
// has none but the general kernel. The others as in matmul_tile_bytes.
struct Kernels {
  std::uint32_t piece = 0;
  std::uint32_t bits = 0, high = 0, factors = 0;
};
Kernels kernels_of(DType format) {
  switch (format) {
    case DType::f32:
      return {4, 32};
    case DType::f16:
    case DType::bf16:
      return {8, 16};
    case DType::q4_0_s16:
      return {32, 4, 0, 1};
    case DType::q8_0_s16:
      return {16, 8, 0, 1};
    case DType::q4_k_s16:
    case DType::a4_f16_s16:
    case DType::a4_bf16_s16:
      return {32, 4, 0, 2};
    case DType::q5_k_s16:
      return {32, 4, 8, 2};
    case DType::q6_k_s16:
      return {32, 4, 16, 2};
    case DType::a8_f16_s16:
    case DType::a8_bf16_s16:
      return {16, 8, 0, 2};
    default:
      return {};
  }
}

// Buffers and scratch start at a multiple of 256.
bool weights_are_aligned(const Dispatch& d, const Shape& s) {
  for (std::uint32_t i = 1; i <= s.weights; ++i) {
    if (d.views[i].bytes != 0 && d.views[i].offset % 16 != 0) return false;
  }
  return true;
}

void set_values(const Shape& s, std::initializer_list<std::pair<MatmulValue, std::uint32_t>> more,
                Launch& launch) {
  launch.n_spec = 0;
  const auto put = [&](MatmulValue index, std::uint32_t value) {
    launch.spec[launch.n_spec++] = {index, static_cast<std::int32_t>(value)};
  };
  put(matmul_form, s.form);
  put(matmul_m, s.m);
  put(matmul_n, s.n[0]);
  put(matmul_k, s.k);
  for (const auto& [index, value] : more) put(index, value);
}

void launch_any(const Shape& s, std::uint32_t variant, Launch& launch) {
  const std::uint64_t rows = s.form == form_id ? s.m : divide_up(s.m, any_rows);
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
  if (s.form == form_glu_q) {
    // A block has all of 32 columns, so there may be few blocks.
    const std::uint32_t threads = s.n[0] / 32 < units ? most : 256;
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
  const std::uint32_t pieces = s.k / kernels_of(d.format).piece;
  const std::uint64_t x_bytes = matmul_x_bytes(matmul_input(d.format) == DType::q8a, s.k);
  std::uint32_t rows = s.form == form_id ? 1 : std::min(std::bit_ceil(s.m), 8u);
  const std::uint32_t team = team_of(device, s.sets(), pieces);
  std::uint32_t threads = 0;
  std::uint64_t shared = 0;
  for (;; rows /= 2) {
    if (rows == 0) return false;
    threads = threads_of(device, s, team, rows == 1 ? 512 : 256);
    shared = rows * x_bytes + matmul_sum_bytes(threads, rows);
    if (shared <= std::min(device.max_shared_bytes, 200u << 10)) break;
  }
  const std::uint64_t blocks_y = s.form == form_id ? s.m : divide_up(s.m, rows);
  if (blocks_y > max_cuda_grid_y) return false;

  const std::uint32_t teams = threads / team;
  const std::uint32_t rounds = s.form == form_glu_q ? 32 / teams : 1;
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
  if (s.form == form_id || s.m != 1 || matmul_input(d.format) != DType::q8a ||
      d.views[0].offset % 16 != 0) {
    return false;
  }
  const std::uint64_t units = std::max(device.compute_units, 1u);
  const MatmulVariant variant =
      s.is_glu() ? (s.n[0] / 32 <= units ? variant_gate_1 : variant_gate_2)
                 : line_of(device, s.groups(1), s.k / kernels_of(d.format).piece);
  const std::uint32_t rows = matmul_line_rows(variant), warps = matmul_line_warps(variant);
  const std::uint64_t sets = s.groups(rows);
  std::uint32_t threads = 256;
  if (s.form == form_glu_q) {
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
  if (s.is_glu()) {
    const std::uint64_t work = divide_up(s.n[0], 32);
    launch.variant = work <= units || two_rows ? variant_norm_gate_1 : variant_norm_gate_2;
    warps = 32 / matmul_line_rows(launch.variant);
    blocks = std::min(work, units * 32 / warps);
  } else {
    switch (line_of(device, s.groups(1), s.k / kernels_of(d.format).piece)) {
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
                     std::min<std::uint64_t>(divide_up(s.k, 256), most));
  }
  launch.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
  launch.group = {static_cast<std::uint32_t>(32 * warps), 1, 1};
  launch.shared_bytes = matmul_x_bytes(true, s.k);
  set_values(s, {{matmul_eps, std::bit_cast<std::uint32_t>(*s.eps)}}, launch);
}

// Large tiles unless they leave processors idle. False where x cannot be copied in wide pieces.
bool launch_tile(const DeviceInfo& device, const Dispatch& d, const Shape& s, Launch& launch) {
  const Kernels kernels = kernels_of(d.format);
  const bool quantized = matmul_input(d.format) == DType::q8a;
  if (s.form == form_id || s.m <= 8 || d.views[0].offset % (quantized ? 8 : 16) != 0 ||
      !has(device, Feature::tensor_cores)) {
    return false;
  }
  for (const auto& [warps_m, warps_n] : {std::pair{4u, 2u}, std::pair{2u, 1u}}) {
    const std::uint64_t x = s.groups((s.is_glu() ? 32 : 64) * warps_n);
    const std::uint64_t y = divide_up(s.m, 32 * warps_m);
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

Status launch_matmul_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  Shape s;
  ONEPASS_TRY(check(device, d, launch, s));
  launch.tiles = 1;
  if (s.m == 0 || s.groups(1) == 0) {
    launch.grid = {0, 1, 1};
    launch.group = {32, 1, 1};
    return {};
  }
  if (s.eps) {
    launch_norm_line(device, d, s, launch);
    return {};
  }
  const std::uint32_t piece = kernels_of(d.format).piece;
  if (s.form == form_affine || piece == 0) {
    launch_any(s, 0, launch);
  } else if (s.k % piece != 0 || !weights_are_aligned(d, s) ||
             !(launch_tile(device, d, s, launch) || launch_line(device, d, s, launch) ||
               launch_matvec(device, d, s, launch))) {
    launch_any(s, variant_any, launch);
  }
  return {};
}

}  // namespace onepass::ops
