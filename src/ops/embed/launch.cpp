#include "ops/launch.h"

#include "onepass/step_state.h"
#include "ops/embed/kernels.h"
#include "ops/embed/params.h"

namespace onepass::ops {

Status launch_embed(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const EmbedParams p = d.params_as<EmbedParams>();
  const std::uint64_t out = matrix_bytes(DType::f32, p.rows, p.dim);
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(d.format, p.vocab, p.dim),
          p.tokens_are_u32 != 0 ? product({p.rows, 4}) : StepState::size_bytes(1, 1), out}));
  launch.tiles = tiles_for(p.rows, p.dim);
  launch.bytes_moved = out + matrix_bytes(d.format, p.rows, p.dim);
  return {};
}

}  // namespace onepass::ops
