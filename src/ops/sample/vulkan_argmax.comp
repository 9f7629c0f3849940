// The largest of each row, of equal ones the first; what is not a number comes last. A group per
// row. With STEP rows that take no part are left alone.
#version 450
#define OP_GLSL
#include "ops/sample/params.h"
#ifdef STEP
#define OP_PARAMS SampleParams
#else
#define OP_PARAMS ArgmaxParams
#endif
#include "ops/shared/vulkan.glsl"
#include "ops/sample/vulkan_keys.glsl"

OP_READS(0, x)
#ifdef STEP
OP_READS(1, step)
OP_WRITES(2, result)
#include "ops/shared/vulkan_step.glsl"
#else
OP_WRITES(1, result)
#endif

shared uint orders[256];
shared uint ids[256];

void main() {
  uint me = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x, rows = params.rows;
#ifdef STEP
  Step s = read_step();
  rows = min(rows, s.n_rows);
#endif
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    uint best = 0u, id = 0xffffffffu;
    for (uint i = me; i < params.cols; i += threads) {
      uint order = key_order(x_float(row * params.cols + i));
      if (id == 0xffffffffu || order > best) {
        best = order;
        id = i;
      }
    }
    barrier();
    orders[me] = best;
    ids[me] = id;
    barrier();
    if (me != 0u) continue;
    for (uint t = 1u; t < threads; ++t) {
      if (orders[t] > best || (orders[t] == best && ids[t] < id)) {
        best = orders[t];
        id = ids[t];
      }
    }
    result_set_word(row, id);
  }
}
