#include "ops/shared/cpu.h"

#include <algorithm>

#include "core/kernel_row.h"
#include "ops/moe/kernels.h"
#include "ops/moe/params.h"

namespace onepass::ops {
namespace {

// The chosen scores are divided by their sum, but by no less than this.
constexpr float smallest_sum = 6.103515625e-5f;

void softmax(const float* x, std::uint32_t n, float* out) noexcept {
  float largest = x[0];
  for (std::uint32_t i = 1; i < n; ++i) {
    if (x[i] > largest || largest != largest) largest = x[i];
  }
  Lanes lanes{};
  for (std::uint32_t i = 0; i < n; ++i) {
    out[i] = x[i] == largest ? 1.0f : op_exp(x[i] - largest);
    lanes[i % n_lanes] += out[i];
  }
  const float total = sum(lanes);
  for (std::uint32_t i = 0; i < n; ++i) out[i] /= total;
}

void moe_gate(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<MoeGateParams>();
  const float* bias = p.has_bias != 0 ? a.ptr<const float>(1) : nullptr;
  const float* expert_scale = p.has_expert_scale != 0 ? a.ptr<const float>(2) : nullptr;
  const auto [begin, end] = a.part(p.tokens);
  float score[max_experts], rank[max_experts];
  for (std::uint64_t t = begin; t < end; ++t) {
    const float* x = a.ptr<const float>(0) + t * p.experts;
    std::uint32_t* ids = a.ptr<std::uint32_t>(3) + t * p.used;
    float* weights = a.ptr<float>(4) + t * p.used;
    if (p.sigmoid != 0) {
      for (std::uint32_t e = 0; e < p.experts; ++e) score[e] = op_sigmoid(x[e]);
    } else {
      softmax(x, p.experts, score);
    }
    for (std::uint32_t e = 0; e < p.experts; ++e) {
      rank[e] = bias != nullptr ? score[e] + bias[e] : score[e];
    }
    bool taken[max_experts] = {};
    float total = 0.0f;
    for (std::uint32_t k = 0; k < p.used; ++k) {
      std::uint32_t best = p.experts;  // what is not a number comes last
      for (std::uint32_t e = 0; e < p.experts; ++e) {
        if (taken[e]) continue;
        if (best == p.experts || rank[e] > rank[best] ||
            (rank[best] != rank[best] && rank[e] == rank[e])) {
          best = e;
        }
      }
      taken[best] = true;
      ids[k] = best;
      weights[k] = score[best];
      total += score[best];
    }
    const float divisor = total > smallest_sum ? total : smallest_sum;
    for (std::uint32_t k = 0; k < p.used; ++k) {
      float w = p.renormalise != 0 ? weights[k] / divisor : weights[k];
      w *= p.scale;
      weights[k] = expert_scale != nullptr ? w * expert_scale[ids[k]] : w;
    }
  }
}

// That of choice k of a token; null: none.
const float* expert_bias(const KernelArgs& a, const MoeReduceParams& p, std::uint64_t token,
                         std::uint32_t k) noexcept {
  if (p.experts == 0) return nullptr;
  const std::uint32_t expert = a.ptr<const std::uint32_t>(6)[token * p.used + k];
  return expert < p.experts ? a.ptr<const float>(7) + std::uint64_t{expert} * p.dim : nullptr;
}

void moe_reduce(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<MoeReduceParams>();
  const auto [begin, end] = a.part(std::uint64_t{p.tokens} * p.dim);
  const std::uint64_t dim = p.dim;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t t = at / dim, first = at % dim, last = std::min(dim, first + (end - at));
    const float* y = a.ptr<const float>(0) + t * p.used * dim;
    const float* weights = a.ptr<const float>(1) + t * p.used;
    const float* residual = p.has_residual != 0 ? a.ptr<const float>(2) + t * dim : nullptr;
    const float* shared = p.has_shared != 0 ? a.ptr<const float>(3) + t * dim : nullptr;
    const float gate = p.has_shared_gate != 0 ? op_sigmoid(a.ptr<const float>(4)[t]) : 1.0f;
    float* out = a.ptr<float>(5) + t * dim;
    // Sums of a few columns at a time, since out may be residual or shared.
    constexpr std::uint64_t width = 64;
    for (std::uint64_t c = first; c < last; c += width) {
      const std::uint64_t n = std::min(width, last - c);
      float sums[width] = {};
      for (std::uint32_t k = 0; k < p.used; ++k) {
        const float* bias = expert_bias(a, p, t, k);
        for (std::uint64_t i = 0; i < n; ++i) {
          const float v = y[k * dim + c + i];
          sums[i] += weights[k] * (bias != nullptr ? v + bias[c + i] : v);
        }
      }
      if (shared != nullptr) {
        for (std::uint64_t i = 0; i < n; ++i) sums[i] += gate * shared[c + i];
      }
      if (residual != nullptr) {
        for (std::uint64_t i = 0; i < n; ++i) sums[i] += residual[c + i];
      }
      std::copy_n(sums, n, out + c);
    }
    at += last - first;
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::moe_gate, DType::f32, "moe_gate_f32", launch_moe_gate, moe_gate),
    cpu_row(Op::moe_reduce, DType::f32, "moe_reduce_f32", launch_moe_reduce, moe_reduce),
};

}  // namespace

std::span<const KernelRow> moe_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
