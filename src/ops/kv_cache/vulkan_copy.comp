// The first positions of every head. group.y: head.
#version 450
#define OP_GLSL
#include "ops/kv_cache/params.h"
#define OP_PARAMS KvCopyParams
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, row_bytes)
OP_VALUE(1, uint, unit)  // 4: words; 2: halves

OP_READS(0, x)
OP_WRITES(1, result)

void main() {
  uint n = params.positions * row_bytes / unit, stride = params.capacity * row_bytes / unit;
  for (uint head = gl_WorkGroupID.y; head < params.kv_heads; head += gl_NumWorkGroups.y) {
    for (uint i = flat_thread(); i < n; i += flat_threads()) {
      uint at = head * stride + i;
      if (unit == 4u) {
        result_set_word(at, x_word(at));
      } else {
        result_set_half(at, x_half(at));
      }
    }
  }
}
