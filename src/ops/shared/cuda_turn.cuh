// Angles of rotations, in double: frequencies before the wait, the position after it.
#ifndef ONEPASS_OPS_SHARED_CUDA_TURN_CUH_
#define ONEPASS_OPS_SHARED_CUDA_TURN_CUH_

#include <cstdint>

#include "ops/rope/params.h"
#include "ops/shared/scalar.h"

namespace onepass::ops {

// Turns per position of pair i (scalar.h: op_rope_frequency and op_yarn_scale).
__device__ __noinline__ inline double turns_per_position(const RopeAngles& a, std::uint32_t i,
                                                         const float* factors) {
  double power = 1.0, base = static_cast<double>(a.ratio_hi) + static_cast<double>(a.ratio_lo);
  for (std::uint32_t n = i; n != 0; n >>= 1) {
    if ((n & 1) != 0) power *= base;
    base *= base;
  }
  if (factors != nullptr) power /= static_cast<double>(factors[i]);
  double scale = a.freq_scale;
  if (a.ext_factor != 0.0f) {
    double ramp = (static_cast<double>(i) - a.yarn_low) / a.yarn_range;
    ramp = ramp > 0.0 ? (ramp < 1.0 ? ramp : 1.0) : 0.0;
    const double r = a.ext_factor * (1.0 - ramp);
    scale = scale * (1.0 - r) + r;
  }
  return power * 0.15915494309189535 * scale;  // 1 / (2 pi)
}

struct CosSin {
  float cosine, sine;
};
__device__ inline CosSin rotation(const RopeAngles& a, double per_position,
                                  std::uint32_t position) {
  const double turns = per_position * static_cast<double>(position);
  const OpPair cs = op_cos_sin_turns(static_cast<float>(turns - rint(turns)));
  return {cs.hi * a.magnitude, cs.lo * a.magnitude};
}
__device__ inline float turned_0(CosSin r, float x0, float x1) {
  return x0 * r.cosine - x1 * r.sine;
}
__device__ inline float turned_1(CosSin r, float x0, float x1) {
  return x0 * r.sine + x1 * r.cosine;
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_SHARED_CUDA_TURN_CUH_
