// A group turns the heads of one row; its threads have a pair, or an element that stays, each.
// group.y: some of the heads.
#version 450
#define OP_GLSL
#include "ops/rope/params.h"
#define OP_PARAMS RopeParams
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, type)

OP_READS(0, x)
OP_READS(1, step)
OP_READS(2, factors)
OP_WRITES(3, result)
#include "ops/shared/vulkan_step.glsl"
#include "ops/shared/vulkan_turn.glsl"

void main() {
  uint units = params.head_dim - params.angles.pairs;
  bool plain = params.positions_are_u32 != 0u;
  Step s = Step(params.rows, 0u, 0u);
  if (!plain) s = read_step();
  uint rows = min(params.rows, s.n_rows);
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    uint position = plain ? step_word(row) : step_position(row);
    for (uint i = gl_LocalInvocationID.x; i < units; i += gl_WorkGroupSize.x) {
      bool turns = i < params.angles.pairs;
      uint e0 = turns ? i * params.angles.step
                      : rest_element(params.angles, i - params.angles.pairs);
      uint e1 = e0 + params.angles.distance;
      OpPair turn = op_pair(1.0, 0.0);
      if (turns) turn = rotation(params.angles, i, position, is_bound(2u));
      for (uint head = gl_WorkGroupID.y; head < params.heads; head += gl_NumWorkGroups.y) {
        uint at = (row * params.heads + head) * params.head_dim;
        float x0 = x_load(type, at + e0);
        if (!turns) {
          result_store(type, at + e0, x0);
          continue;
        }
        float x1 = x_load(type, at + e1);
        result_store(type, at + e0, x0 * turn.hi - x1 * turn.lo);
        result_store(type, at + e1, x0 * turn.lo + x1 * turn.hi);
      }
    }
  }
}
