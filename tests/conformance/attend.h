// Attention of one head of one row in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "conformance/reference.h"

namespace onepass::conformance {

struct Attend {
  std::size_t dim = 8;
  double scale = 0.0;  // 0: of the head
  double softcap = 0.0;
  const double* sink = nullptr;
  // Errors of q and, per row of the cache, of k and v, where they have some.
  const double* q_error = nullptr;
  const Doubles* k_error = nullptr;
  const Doubles* v_error = nullptr;
};

// Scores are off by `error`; weights by twice the largest of those and the errors of exp and of
// their sum; the result is their mean of v. A sink adds to the sum only. rows: of the keys in k, v.
inline void attend(const Attend& a, const double* q, const Doubles& k, const Doubles& v,
                   const std::vector<std::size_t>& rows, double* out, double* bound) {
  constexpr double u = f32_unit;
  const std::size_t dim = a.dim, n = rows.size();
  const double scale = a.scale != 0.0 ? a.scale : 1.0 / std::sqrt(static_cast<double>(dim));
  Doubles scores(n);
  double worst = 0.0, top = a.sink != nullptr ? *a.sink : -infinity;
  for (std::size_t j = 0; j < n; ++j) {
    const double* key = k.data() + rows[j] * dim;
    double dot = 0.0, magnitude = 0.0, given = 0.0;
    for (std::size_t i = 0; i < dim; ++i) {
      dot += q[i] * key[i];
      magnitude += std::abs(q[i] * key[i]);
      const double q_error = a.q_error != nullptr ? a.q_error[i] : 0.0;
      const double k_error = a.k_error != nullptr ? (*a.k_error)[rows[j] * dim + i] : 0.0;
      given += q_error * std::abs(key[i]) + (std::abs(q[i]) + q_error) * k_error;
    }
    double s = dot * scale;
    double error = (magnitude * sum_error(dim) + given) * std::abs(scale);
    if (a.softcap != 0.0) {
      s = a.softcap * std::tanh(s / a.softcap);
      error += 8 * u * std::abs(s);
    }
    scores[j] = s;
    worst = std::max(worst, error);
    top = std::max(top, s);
  }
  double total = a.sink != nullptr ? std::exp(*a.sink - top) : 0.0, lowest = 0.0;
  for (double& s : scores) {
    if (top - s < 20.0) lowest = std::max(lowest, top - s);  // others hardly count
    s = std::exp(s - top);
    total += s;
  }
  const double relative = 2 * (worst + u * (lowest + 2.0)) + sum_error(n) * 2;
  for (std::size_t i = 0; i < dim; ++i) {
    double y = 0.0, magnitude = 0.0, given = 0.0;
    for (std::size_t j = 0; j < n; ++j) {
      const double weight = scores[j] / total, term = weight * v[rows[j] * dim + i];
      y += term;
      magnitude += std::abs(term);
      if (a.v_error != nullptr) given += weight * (*a.v_error)[rows[j] * dim + i];
    }
    out[i] = y;
    bound[i] = magnitude * relative + given + 0x1p-126;
  }
}

}  // namespace onepass::conformance
