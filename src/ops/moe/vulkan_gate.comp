// The experts of a token and their weights, by a group. Ranks are compared by one thread after the
// other: of equal ones the first counts.
#version 450
#define OP_GLSL
#include "ops/moe/params.h"
#define OP_PARAMS MoeGateParams
#include "ops/shared/vulkan.glsl"

OP_READS(0, x)
OP_READS(1, bias)
OP_READS(2, expert_scale)
OP_WRITES(3, ids)
OP_WRITES(4, weights)

const uint most_experts = 1024u, lanes = 16u, nobody = 0xffffffffu;
shared float scores[most_experts];
shared float ranks[most_experts];
shared float lane_sums[lanes];
shared uint bests[64];

bool is_nan(float v) { return (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u; }
// Whether expert a is chosen before b; what is not a number comes last.
bool precedes(uint a, uint b) {
  if (b == nobody) return a != nobody;
  if (a == nobody) return false;
  bool nan_a = is_nan(ranks[a]), nan_b = is_nan(ranks[b]);
  if (nan_a != nan_b) return nan_b;
  if (!nan_a && ranks[a] != ranks[b]) return ranks[a] > ranks[b];
  return a < b;
}

void score_all(uint token) {
  uint me = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x, first = token * params.experts;
  if (params.sigmoid != 0u) {
    for (uint e = me; e < params.experts; e += threads) scores[e] = op_sigmoid(x_float(first + e));
    return;
  }
  float largest = uintBitsToFloat(0xff800000u);
  for (uint e = me; e < params.experts; e += threads) {
    float v = x_float(first + e);
    largest = v > largest ? v : largest;
  }
  largest = group_max(largest);
  for (uint e = me; e < params.experts; e += threads) {
    float v = x_float(first + e);
    scores[e] = v == largest ? 1.0 : op_exp(v - largest);
  }
  barrier();
  for (uint l = me; l < lanes; l += threads) {
    float sum = 0.0;
    for (uint e = l; e < params.experts; e += lanes) sum += scores[e];
    lane_sums[l] = sum;
  }
  barrier();
  float total = 0.0;
  for (uint l = 0u; l < lanes; ++l) total += lane_sums[l];
  for (uint e = me; e < params.experts; e += threads) scores[e] /= total;
}

void main() {
  uint me = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
  for (uint token = gl_WorkGroupID.x; token < params.tokens; token += gl_NumWorkGroups.x) {
    barrier();
    score_all(token);
    barrier();
    for (uint e = me; e < params.experts; e += threads) {
      ranks[e] = params.has_bias != 0u ? scores[e] + bias_float(e) : scores[e];
    }
    barrier();
    float total = 0.0;
    uint last = nobody;
    for (uint n = 0u; n < params.used; ++n) {
      // The first of those behind the last one.
      uint best = nobody;
      for (uint e = me; e < params.experts; e += threads) {
        if ((n == 0u || precedes(last, e)) && e != last && precedes(e, best)) best = e;
      }
      barrier();
      bests[me] = best;
      barrier();
      for (uint t = 0u; t < threads; ++t) {
        if (precedes(bests[t], best)) best = bests[t];
      }
      last = best;
      total += scores[best];
      if (me == 0u) {
        ids_set_word(token * params.used + n, best);
        weights_set_float(token * params.used + n, scores[best]);
      }
    }
    if (me != 0u) continue;
    float divisor = total > 6.103515625e-5 ? total : 6.103515625e-5;
    for (uint n = 0u; n < params.used; ++n) {
      uint at = token * params.used + n;
      float w = weights_float(at);
      if (params.renormalise != 0u) w /= divisor;
      w *= params.scale;
      if (params.has_expert_scale != 0u) w *= expert_scale_float(ids_word(at));
      weights_set_float(at, w);
    }
  }
}
