// The next step's values, one row after the other: rows may share a slot.
#version 450
#define OP_GLSL
#include "ops/sample/params.h"
#define OP_PARAMS StepAdvanceParams
#include "ops/shared/vulkan.glsl"

OP_READS(0, tokens)
OP_WRITES(1, step)
OP_WRITES(2, history)
#include "ops/shared/vulkan_step.glsl"

void main() {
  if (gl_LocalInvocationID.x != 0u) return;
  Step s = read_step();
  uint rows = min(params.rows, s.n_rows);
  for (uint row = 0u; row < rows; ++row) {
    uint token = tokens_word(row), position = step_position(row) + 1u;
    uint at = step_header + step_row * row;
    step_set_word(at, token);
    step_set_word(at + 1u, position);
    if (params.history != 0u) {
      history_set_word(row * params.history + position % params.history, token);
    }
    uint slot = step_slot_of(row);
    if (slot >= s.n_slots) continue;
    step_set_word(s.slots_at + step_slot * slot, step_kv_length(s, slot) + 1u);
  }
}
