// What tests expect of a norm, in float64.
#pragma once

#include <cmath>
#include <span>

namespace onepass::test {

// What a row is multiplied by: 1 / sqrt(mean of the squares + eps).
template <class Row>
double rms_factor(const Row& row, double eps) {
  double squares = 0;
  for (const auto v : row) squares += static_cast<double>(v) * static_cast<double>(v);
  return 1.0 / std::sqrt(squares / static_cast<double>(std::size(row)) + eps);
}

// Rows as long as the weight, each multiplied by its factor and the weight.
template <class Values, class Weight>
void rms_norm(Values& values, const Weight& weight, double eps) {
  for (std::size_t begin = 0; begin < values.size(); begin += weight.size()) {
    const double factor = rms_factor(std::span(values).subspan(begin, weight.size()), eps);
    for (std::size_t i = 0; i < weight.size(); ++i) values[begin + i] *= factor * weight[i];
  }
}

}  // namespace onepass::test
