#include "probabilities.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace onepass::tool {

double log_sum_exp(std::span<const float> logits) noexcept {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float x : logits) largest = std::max(largest, static_cast<double>(x));
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t n) {
  std::vector<std::uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  n = std::min(n, ids.size());
  // What is not a number comes last, so that this is an order.
  const auto key = [&](std::uint32_t id) {
    return std::isnan(logits[id]) ? -INFINITY : logits[id];
  };
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n), ids.end(),
      [&](std::uint32_t a, std::uint32_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  const double all = log_sum_exp(logits);
  std::vector<TokenLogprob> top;
  for (std::size_t i = 0; i < n; ++i) {
    top.emplace_back(ids[i], static_cast<double>(logits[ids[i]]) - all);
  }
  return top;
}

}  // namespace onepass::tool
