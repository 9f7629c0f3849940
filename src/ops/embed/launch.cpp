#include "ops/launch.h"

#include <algorithm>

#include "onepass/step_state.h"
#include "ops/embed/kernels.h"
#include "ops/embed/params.h"
#include "ops/launch_split.h"
#include "quant/affine.h"

namespace onepass::ops {
namespace {

std::uint64_t token_bytes(std::uint32_t index, std::uint32_t rows) noexcept {
  return index == embed_by_u32 ? product({rows, 4}) : StepState::size_bytes(1, 1);
}

void grid_of_rows(std::uint32_t rows, std::uint32_t dim, Launch& launch) noexcept {
  constexpr std::uint32_t threads = 128, groups_wanted = 256;
  const std::uint32_t parts = dim / (4 * threads) + (dim % (4 * threads) != 0 ? 1 : 0);
  const std::uint32_t most = groups_wanted / std::min(std::max(rows, 1u), groups_wanted);
  launch.grid = {std::min(rows, max_cuda_grid_x), std::clamp(parts, 1u, most), 1};
  launch.group = {threads, 1, 1};
}

// Of the table that is bound.
template <class Params>
std::uint32_t table_rows(const Params& p) noexcept {
  return p.bound_rows != 0 ? p.bound_rows : p.vocab;
}

}  // namespace

Status lower_embed(const DeviceInfo& device, const Dispatch& d, LaunchList& launches) {
  const EmbedParams p = d.params_as<EmbedParams>();
  const std::uint32_t unit = is_packed(d.format) ? 16 : 1;
  split_table<EmbedParams>(device, d, p.vocab, unit, {matrix_bytes(d.format, unit, p.dim)},
                           launches);
  return {};
}

Status lower_embed_affine(const DeviceInfo& device, const Dispatch& d, LaunchList& launches) {
  const EmbedAffineParams p = d.params_as<EmbedAffineParams>();
  const std::uint64_t groups = matrix_bytes(d.format, 1, p.dim / std::max(p.group_size, 1u));
  split_table<EmbedAffineParams>(device, d, p.vocab, 1,
                                 {std::uint64_t{p.dim} * p.bits / 8, groups, groups}, launches);
  return {};
}

Status launch_embed(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const EmbedParams p = d.params_as<EmbedParams>();
  const std::uint64_t out = matrix_bytes(DType::f32, p.rows, p.dim);
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(d.format, table_rows(p), p.dim), token_bytes(p.index, p.rows), out}));
  launch.tiles = tiles_for(p.rows, p.dim);
  launch.bytes_moved = out + matrix_bytes(d.format, p.rows, p.dim);
  return {};
}

Status launch_embed_affine(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const EmbedAffineParams p = d.params_as<EmbedAffineParams>();
  if (!quant::is_affine_bits(p.bits) || !quant::is_affine_group(p.group_size) ||
      p.dim % p.group_size != 0) {
    return fail(ErrorCode::invalid_argument, "embed_affine: params do not fit together", d.file,
                d.line);
  }
  const std::uint64_t out = matrix_bytes(DType::f32, p.rows, p.dim);
  const std::uint64_t row = std::uint64_t{p.dim} * p.bits / 8;
  const std::uint64_t groups = matrix_bytes(d.format, table_rows(p), p.dim / p.group_size);
  ONEPASS_TRY(expect_views(
      d, {product({table_rows(p), row}), groups, groups, token_bytes(p.index, p.rows), out}));
  launch.tiles = tiles_for(p.rows, p.dim);
  launch.bytes_moved =
      out + product({p.rows, row}) + 2 * matrix_bytes(d.format, p.rows, p.dim / p.group_size);
  return {};
}

Status launch_embed_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_embed(device, d, launch));
  const EmbedParams p = d.params_as<EmbedParams>();
  grid_of_rows(p.rows, p.dim, launch);
  return {};
}

Status launch_embed_affine_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_embed_affine(device, d, launch));
  const EmbedAffineParams p = d.params_as<EmbedAffineParams>();
  grid_of_rows(p.rows, p.dim, launch);
  return {};
}

}  // namespace onepass::ops
