#include "ops/launch.h"

#include "onepass/step_state.h"
#include "ops/rope/kernels.h"
#include "ops/rope/params.h"

namespace onepass::ops {

Status launch_rope(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const RopeParams p = d.params_as<RopeParams>();
  const std::uint64_t bytes = matrix_bytes(d.format, product({p.rows, p.heads}), p.head_dim);
  const std::uint64_t positions =
      p.positions_are_u32 != 0 ? product({p.rows, 4}) : StepState::size_bytes(1, 1);
  const std::uint64_t factors = p.has_factors != 0 ? product({p.pairs, 4}) : 0;
  ONEPASS_TRY(expect_views(d, {bytes, positions, factors, bytes}));
  const std::uint64_t last_pair =
      p.pairs == 0 ? 0 : std::uint64_t{p.pairs - 1} * p.step + p.distance;
  if (p.pairs != 0 && (last_pair >= p.head_dim || p.distance == 0)) {
    return fail(ErrorCode::invalid_argument, "rope: a pair lies outside the head", d.file, d.line);
  }
  launch.tiles = tiles_for(p.rows, product({p.heads, p.head_dim}));
  launch.bytes_moved = d.views[0].bytes + d.views[2].bytes + d.views[3].bytes;
  launch.flops = product({p.rows, p.heads, p.pairs, 6});
  return {};
}

}  // namespace onepass::ops
