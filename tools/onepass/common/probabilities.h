// Probabilities that softmax makes of logits, before any sampling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace onepass::tool {

// The logarithm of the sum of e^x: a logit less this is the token's log-probability.
double log_sum_exp(std::span<const float> logits) noexcept;

using TokenLogprob = std::pair<std::uint32_t, double>;
// The n most likely tokens, largest first, on ties the lower id.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t n);

}  // namespace onepass::tool
