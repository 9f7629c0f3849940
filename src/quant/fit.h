// Fits of a scale to a few numbers, for the reference quantizers. Deterministic: plain f32 in a
// fixed order.
#ifndef ONEPASS_QUANT_FIT_H_
#define ONEPASS_QUANT_FIT_H_

#include "ops/shared/scalar.h"

namespace onepass::quant {

// A half with the sign of x. Without a choice, so that loops around it become vector code.
OP_FN float half_of_sign(float x) {
  return ops::op_from_bits((ops::op_to_bits(x) & 0x80000000u) | 0x3f000000u);
}
// To the nearest integer, halves away from zero, within [lo, hi]; lo for what is not a number.
OP_FN int round_to(float x, int lo, int hi) {
  const float low = static_cast<float>(lo), high = static_cast<float>(hi);
  float t = x > low ? x : low;
  t = t < high ? t : high;
  return static_cast<int>(t + half_of_sign(t));
}

// The same of x * factors[c] for N factors, as floats: one step after the other, of which compilers
// make vector code.
template <int N>
OP_FN void round_all(float x, const float* factors, float lo, float hi, float* q) {
  for (int c = 0; c < N; ++c) {
    const float t = x * factors[c];
    q[c] = t > lo ? t : lo;
  }
  for (int c = 0; c < N; ++c) q[c] = q[c] < hi ? q[c] : hi;
  for (int c = 0; c < N; ++c) {
    q[c] = static_cast<float>(static_cast<int>(q[c] + half_of_sign(q[c])));
  }
}

OP_FN float magnitude(float x) { return x < 0.0f ? -x : x; }
OP_FN float inverse_or_zero(float x) { return x != 0.0f ? 1.0f / x : 0.0f; }

// The number of largest magnitude, with its sign; 0 for zeros and for what is not a number.
OP_FN float extreme_of(const float* x, int n) {
  float extreme = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (magnitude(x[i]) > magnitude(extreme)) extreme = x[i];
  }
  return extreme;
}

struct Range {
  float lo, hi;
};
OP_FN Range range_of(const float* x, int n) {
  Range r{x[0], x[0]};
  for (int i = 1; i < n; ++i) {
    if (x[i] < r.lo) r.lo = x[i];
    if (x[i] > r.hi) r.hi = x[i];
  }
  return r;
}

OP_FN float root_mean_square(const float* x, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += x[i] * x[i];
  return ops::op_sqrt(sum / static_cast<float>(n));
}
// How much an error of each number counts: by its magnitude above a floor that all share; where
// the mean square of what the number is multiplied with is known, its importance, by that first and
// by the number itself a little.
OP_FN void weigh(const float* x, const float* importance, int n, float floor, float* weights) {
  for (int i = 0; i < n; ++i) {
    weights[i] = importance != nullptr
                     ? importance[i] * ops::op_sqrt(3.0f * floor * floor + x[i] * x[i])
                     : floor + magnitude(x[i]);
  }
}
// Part `at` of the importance of a block; null stays null.
OP_FN const float* part_of(const float* importance, int at) {
  return importance != nullptr ? importance + at : nullptr;
}
OP_FN float sum_of(const float* x, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += x[i];
  return sum;
}

// x ~ scale * q with q in [lo, hi], lo <= 0: of the scales that put the extreme near lo, unless
// that is 0, or hi, the least squares fit with the smallest weighted error.
OP_FN float fit_scale(const float* x, const float* weights, int n, int lo, int hi) {
  const float extreme = extreme_of(x, n);
  if (extreme == 0.0f) return 0.0f;
  // Candidates beside each other, so that they can be computed at once.
  constexpr int steps = 19, candidates = 2 * steps + 2;
  float inverse[candidates], q[candidates], xq[candidates], qq[candidates];
  for (int c = 0; c < candidates; ++c) {
    const int step = c / 2 - 9;
    const bool low = c % 2 == 0 && lo < 0;
    const float target =
        static_cast<float>(low ? lo : hi) + (low ? 0.1f : -0.1f) * static_cast<float>(step);
    inverse[c] = target / extreme;
    xq[c] = qq[c] = 0.0f;
  }
  const float least = static_cast<float>(lo), most = static_cast<float>(hi);
  for (int i = 0; i < n; ++i) {
    round_all<candidates>(x[i], inverse, least, most, q);
    const float w = weights[i], wx = w * x[i];
    for (int c = 0; c < candidates; ++c) {
      xq[c] += wx * q[c];
      qq[c] += w * q[c] * q[c];
    }
  }
  float best_scale = extreme / static_cast<float>(lo < 0 ? lo : hi), best_gain = -1.0f;
  for (int c = 0; c < 2 * steps; ++c) {
    // The squared error falls by xq^2 / qq.
    if (qq[c] > 0.0f && xq[c] * xq[c] > best_gain * qq[c]) {
      best_gain = xq[c] * xq[c] / qq[c];
      best_scale = xq[c] / qq[c];
    }
  }
  return best_scale;
}

// The same for numbers of known importance.
OP_FN float fit_important(const float* x, const float* importance, int n, int lo, int hi) {
  float weights[32];
  weigh(x, importance, n, root_mean_square(x, n), weights);
  return fit_scale(x, weights, n, lo, hi);
}

// Scales of the 16 parts of 256 numbers, and the step of these scales, which are numbers in
// [-range, range) themselves.
OP_FN float fit_scales(const float* x, const float* importance, int lo, int hi, int range,
                       float* scales) {
  float sums[16];
  const float all = importance != nullptr ? root_mean_square(x, 256) : 0.0f;
  for (int j = 0; j < 16; ++j) {
    const float* part = x + 16 * j;
    float weights[16];
    weigh(part, part_of(importance, 16 * j), 16,
          importance != nullptr ? all : root_mean_square(part, 16), weights);
    sums[j] = sum_of(weights, 16);
    scales[j] = fit_scale(part, weights, 16, lo, hi);
  }
  return importance != nullptr ? fit_scale(scales, sums, 16, -range, range - 1)
                               : extreme_of(scales, 16) / static_cast<float>(-range);
}

// x ~ scale * q - offset with q in [0, top], scale and offset >= 0.
struct Affine {
  float scale, offset;
};

// The line through numbers and q with the smallest weighted error; a scale of 0 where there is
// none. Sums over weights w: of w, w x, w q, w q^2, w x q.
OP_FN Affine fit_line(float sum, float sum_x, float sum_q, float sum_qq, float sum_xq) {
  const float det = sum * sum_qq - sum_q * sum_q;
  if (!(det > 0.0f)) return {0.0f, 0.0f};
  const float scale = (sum * sum_xq - sum_x * sum_q) / det;
  const float offset = (sum_q * sum_xq - sum_x * sum_qq) / det;
  if (offset >= 0.0f) return {scale, offset};
  return {sum_qq > 0.0f ? sum_xq / sum_qq : 0.0f, 0.0f};  // through the origin
}

// Of the steps around the one that covers the range exactly, the line with the smallest weighted
// error.
OP_FN Affine fit_affine(const float* x, const float* weights, int n, int top) {
  Range r = range_of(x, n);
  if (!(r.lo < 0.0f)) r.lo = 0.0f;
  if (!(r.hi > r.lo)) return {0.0f, -r.lo};
  constexpr int steps = 24;  // computed at once
  float inverse[steps], sum_q[steps], sum_qq[steps], sum_xq[steps], scale[steps], offset[steps];
  float error[steps], q[steps];
  for (int s = 0; s < steps; ++s) {
    inverse[s] = (static_cast<float>(top) + 0.1f * static_cast<float>(s - 11)) / (r.hi - r.lo);
    sum_q[s] = sum_qq[s] = sum_xq[s] = error[s] = 0.0f;
  }
  const float most = static_cast<float>(top);
  float sum = 0.0f, sum_x = 0.0f;
  for (int i = 0; i < n; ++i) {
    sum += weights[i];
    sum_x += weights[i] * x[i];
    round_all<steps>(x[i] - r.lo, inverse, 0.0f, most, q);
    const float w = weights[i], y = x[i];
    for (int s = 0; s < steps; ++s) {
      const float wq = w * q[s];
      sum_q[s] += wq;
      sum_qq[s] += wq * q[s];
      sum_xq[s] += wq * y;
    }
  }
  for (int s = 0; s < steps; ++s) {
    const Affine line = fit_line(sum, sum_x, sum_q[s], sum_qq[s], sum_xq[s]);
    scale[s] = line.scale;
    offset[s] = line.offset;
  }
  for (int i = 0; i < n; ++i) {
    round_all<steps>(x[i] - r.lo, inverse, 0.0f, most, q);
    const float w = weights[i], y = x[i];
    for (int s = 0; s < steps; ++s) {
      const float difference = scale[s] * q[s] - offset[s] - y;
      error[s] += w * difference * difference;
    }
  }
  Affine best{(r.hi - r.lo) / most, -r.lo};
  float best_error = -1.0f;
  for (int s = 0; s < steps; ++s) {
    if (scale[s] > 0.0f && (best_error < 0.0f || error[s] < best_error)) {
      best_error = error[s];
      best = {scale[s], offset[s]};
    }
  }
  return best;
}

// The fits of `n` parts of `size` numbers each, and the steps of their scales and offsets, which
// are numbers in [0, steps]. floor: as of weigh(), where there is no importance; below 0: the root
// mean square of the part.
struct Steps {
  float scale, offset;
};
template <int N>
OP_FN Steps fit_parts(const float* x, const float* importance, float floor, int top, int steps,
                      Affine* fits) {
  constexpr int size = 256 / N;
  float sums[N], scales[N], offsets[N];
  const float all = importance != nullptr ? root_mean_square(x, 256) : 0.0f;
  for (int j = 0; j < N; ++j) {
    const float* part = x + size * j;
    const float own = floor < 0.0f ? root_mean_square(part, size) : floor;
    float weights[size];
    weigh(part, part_of(importance, size * j), size, importance != nullptr ? all : own, weights);
    sums[j] = sum_of(weights, size);
    fits[j] = fit_affine(part, weights, size, top);
    scales[j] = fits[j].scale;
    offsets[j] = fits[j].offset;
  }
  if (importance != nullptr) {
    return {fit_scale(scales, sums, N, 0, steps), fit_scale(offsets, sums, N, 0, steps)};
  }
  const auto most = static_cast<float>(steps);
  return {extreme_of(scales, N) / most, extreme_of(offsets, N) / most};
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_FIT_H_
