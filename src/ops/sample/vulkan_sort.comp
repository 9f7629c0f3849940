// What needs a row's numbers in order, the largest first and of equal ones the first: they are
// sorted in scratch by a bitonic network, a group per row. SORT: 0 argsort, 1 top_k, 2 sample.
#version 450
#define OP_GLSL
#include "ops/sample/params.h"
#if SORT == 0
#define OP_PARAMS ArgmaxParams
#elif SORT == 1
#define OP_PARAMS TopKParams
#else
#define OP_PARAMS SampleParams
#endif
#include "ops/shared/vulkan.glsl"
#include "ops/sample/vulkan_keys.glsl"
#if SORT == 2
#include "ops/shared/philox.h"
#endif

OP_VALUE(0, uint, padded)  // the columns, rounded up to a power of two
OP_VALUE(1, uint, keep)    // how many of them are asked for

OP_READS(0, x)
#if SORT == 0
OP_WRITES(1, result)
#elif SORT == 1
OP_WRITES(1, values)
OP_WRITES(2, result)
#else
OP_READS(1, step)
OP_WRITES(2, result)
#include "ops/shared/vulkan_step.glsl"
#endif

// Per row of a group: keys, then their columns.
layout(set = 0, binding = 17, std430) coherent buffer Scratch { uint scratch[]; };

void group_sync() {
  memoryBarrierBuffer();
  barrier();
}
uint key_at(uint i) { return gl_WorkGroupID.x * 2u * padded + i; }
uint id_at(uint i) { return key_at(i) + padded; }

bool comes_first(uint key_a, uint id_a, uint key_b, uint id_b) {
  return key_a > key_b || (key_a == key_b && id_a < id_b);
}

void sort_row(uint row, float divisor) {
  uint me = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
  group_sync();
  for (uint i = me; i < padded; i += threads) {
    bool real = i < params.cols;
    scratch[key_at(i)] = real ? key_order(x_float(row * params.cols + i) / divisor) : 0u;
    scratch[id_at(i)] = i;
  }
  for (uint width = 2u; width <= padded; width *= 2u) {
    for (uint stride = width / 2u; stride > 0u; stride /= 2u) {
      group_sync();
      for (uint j = me; j < padded / 2u; j += threads) {
        uint a = j / stride * 2u * stride + j % stride, b = a + stride;
        uint ka = scratch[key_at(a)], kb = scratch[key_at(b)];
        uint ia = scratch[id_at(a)], ib = scratch[id_at(b)];
        bool falling = (a & width) == 0u;
        if (falling != comes_first(ka, ia, kb, ib)) {
          scratch[key_at(a)] = kb;
          scratch[key_at(b)] = ka;
          scratch[id_at(a)] = ib;
          scratch[id_at(b)] = ia;
        }
      }
    }
  }
  group_sync();
}

#if SORT == 2
float weight_of(uint i) { return uintBitsToFloat(scratch[key_at(i)]); }

// As draw() of sample/cpu.cpp.
uint draw(float u) {
  float largest = key_value(scratch[key_at(0u)]);
  uint first = scratch[id_at(0u)];
  if (scratch[key_at(0u)] == 0u || !(largest > uintBitsToFloat(0xff800000u))) return first;
  float sum = 0.0;
  for (uint i = 0u; i < keep; ++i) {
    uint key = scratch[key_at(i)];
    float logit = key_value(key);
    float weight = key == 0u ? 0.0 : logit == largest ? 1.0 : op_exp(logit - largest);
    sum += weight;
    scratch[key_at(i)] = floatBitsToUint(weight);
  }
  uint kept_count = keep;
  if (params.top_p < 1.0) {
    float reached = 0.0;
    for (kept_count = 0u; kept_count < keep && !(kept_count > 0u && reached >= params.top_p);) {
      reached += weight_of(kept_count++) / sum;
    }
  }
  if (params.min_p > 0.0) {
    float lowest = params.min_p * (1.0 / sum);
    uint n = 1u;
    while (n < kept_count && weight_of(n) / sum >= lowest) ++n;
    kept_count = n;
  }
  float total = 0.0;
  for (uint i = 0u; i < kept_count; ++i) total += weight_of(i);
  float target = u * total, passed = 0.0;
  for (uint i = 0u; i < kept_count; ++i) {
    passed += weight_of(i);
    if (passed > target) return scratch[id_at(i)];
  }
  return scratch[id_at(kept_count - 1u)];
}
#endif

void main() {
  uint rows = params.rows;
#if SORT == 2
  Step s = read_step();
  rows = min(rows, s.n_rows);
#endif
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
#if SORT == 2
    sort_row(row, params.temperature);
    if (gl_LocalInvocationID.x == 0u) {
      OpPhilox bits = op_philox(OpPhilox(step_position(row), step_slot_of(row), 0u, 0u),
                                step_word(4u), step_word(5u));
      result_set_word(row, draw(op_unit(bits.x)));
    }
#else
    sort_row(row, 1.0);
    for (uint i = gl_LocalInvocationID.x; i < keep; i += gl_WorkGroupSize.x) {
      uint id = scratch[id_at(i)];
      result_set_word(row * keep + i, id);
#if SORT == 1
      values_set_word(row * keep + i, x_word(row * params.cols + id));
#endif
    }
#endif
  }
}
