// From one type of numbers to another.
#version 450
#define OP_GLSL
#include "ops/elementwise/params.h"
#define OP_PARAMS CastParams
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, type)
OP_VALUE(1, uint, to)

OP_READS(0, x)
OP_WRITES(1, result)

void main() {
  for (uint i = flat_thread(); i < params.n_lo; i += flat_threads()) {
    result_store(to, i, x_load(type, i));
  }
}
