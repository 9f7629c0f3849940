// Choice of experts, a warp per token, and the weighted sum of their results.
#include "backends/cuda/args.h"
#include "ops/moe/params.h"
#include "ops/shared/cuda_elements.cuh"

namespace onepass::ops {
namespace {

constexpr std::uint32_t gate_warps = 4, gate_experts = 1024;
constexpr float smallest_sum = 6.103515625e-5f;  // as in cpu.cpp

// Larger for larger ranks, then for lower experts; what is not a number comes last.
__device__ inline unsigned long long rank_key(float rank, std::uint32_t expert) {
  const std::uint32_t bits = __float_as_uint(rank + 0.0f);
  const std::uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(rank == rank ? order : 0u) << 32 | ~expert;
}

// The sum of f(e) over the experts in the order of cpu.cpp: 16 lanes.
template <class F>
__device__ inline float sum_experts(std::uint32_t n, const F& f) {
  const std::uint32_t lane = threadIdx.x % 32;
  float sum = 0.0f;
  if (lane < 16) {
    for (std::uint32_t e = lane; e < n; e += 16) sum += f(e);
  }
#pragma unroll
  for (int o = 8; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  return __shfl_sync(0xffffffffu, sum, 0);
}

// By one warp: scores of all experts, ranks (scores plus bias), and `used` rounds, each of which
// takes the expert of the largest rank that is left. Expert e belongs to lane e % 32. score and
// rank are the warp's own shared memory.
__device__ void gate_token(const CudaArgs& args, const MoeGateParams& p, std::uint64_t token,
                           float* score, float* rank) {
  const std::uint32_t lane = threadIdx.x % 32;
  const float* x = args.ptr<const float>(0) + token * p.experts;
  float largest = -INFINITY;
  for (std::uint32_t e = lane; e < p.experts; e += 32) largest = fmaxf(largest, x[e]);
#pragma unroll
  for (int o = 16; o > 0; o /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, o));
  __syncwarp();
  for (std::uint32_t e = lane; e < p.experts; e += 32) {
    score[e] = p.sigmoid != 0 ? op_sigmoid(x[e]) : x[e] == largest ? 1.0f : op_exp(x[e] - largest);
  }
  __syncwarp();
  if (p.sigmoid == 0) {
    const float total = sum_experts(p.experts, [score](std::uint32_t e) { return score[e]; });
    __syncwarp();
    for (std::uint32_t e = lane; e < p.experts; e += 32) score[e] /= total;
    __syncwarp();
  }
  for (std::uint32_t e = lane; e < p.experts; e += 32) {
    rank[e] = p.has_bias != 0 ? score[e] + args.ptr<const float>(1)[e] : score[e];
  }
  __syncwarp();
  std::uint32_t* ids = args.ptr<std::uint32_t>(3) + token * p.used;
  float* weights = args.ptr<float>(4) + token * p.used;
  std::uint32_t taken = 0;  // bit j: expert lane + 32 j
  float total = 0.0f;
  for (std::uint32_t k = 0; k < p.used; ++k) {
    unsigned long long best = 0;
    for (std::uint32_t e = lane, j = 0; e < p.experts; e += 32, ++j) {
      if ((taken >> j & 1) == 0) best = max(best, rank_key(rank[e], e));
    }
#pragma unroll
    for (int o = 16; o > 0; o /= 2) best = max(best, __shfl_xor_sync(0xffffffffu, best, o));
    const std::uint32_t expert = ~static_cast<std::uint32_t>(best);
    if (expert % 32 == lane) taken |= 1u << (expert / 32);
    total += score[expert];
    if (lane == k % 32) ids[k] = expert;
  }
  const float divisor = total > smallest_sum ? total : smallest_sum;
  for (std::uint32_t k = lane; k < p.used; k += 32) {
    const std::uint32_t expert = ids[k];
    float w = p.renormalise != 0 ? score[expert] / divisor : score[expert];
    w *= p.scale;
    weights[k] = p.has_expert_scale != 0 ? w * args.ptr<const float>(2)[expert] : w;
  }
}

}  // namespace
}  // namespace onepass::ops

extern "C" __global__ void __launch_bounds__(128)
    moe_gate_f32(const __grid_constant__ onepass::CudaArgs args) {
  using namespace onepass::ops;
  __shared__ float scores[gate_warps][gate_experts], ranks[gate_warps][gate_experts];
  pdl_launch();
  pdl_wait();
  const MoeGateParams p = args.params_as<MoeGateParams>();
  const std::uint32_t warp = threadIdx.x / 32;
  for (std::uint64_t token = std::uint64_t{blockIdx.x} * (blockDim.x / 32) + warp; token < p.tokens;
       token += std::uint64_t{gridDim.x} * (blockDim.x / 32)) {
    gate_token(args, p, token, scores[warp], ranks[warp]);
    __syncwarp();
  }
}

// A thread takes four columns of a token.
extern "C" __global__ void __launch_bounds__(256)
    moe_reduce_f32(const __grid_constant__ onepass::CudaArgs args) {
  using namespace onepass::ops;
  pdl_launch();
  pdl_wait();
  const MoeReduceParams p = args.params_as<MoeReduceParams>();
  const std::uint64_t dim = p.dim, parts = (dim + 3) / 4, n = p.tokens * parts;
  const bool wide = dim % 4 == 0 && is_aligned_4(args.ptr<const float>(0)) &&
                    is_aligned_4(args.ptr<const float>(2)) &&
                    is_aligned_4(args.ptr<const float>(3)) &&
                    is_aligned_4(args.ptr<const float>(5));
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const std::uint64_t t = i / parts, c = i % parts * 4;
    const float* y = args.ptr<const float>(0) + t * p.used * dim;
    const float* weights = args.ptr<const float>(1) + t * p.used;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const auto add = [&](float w, float4 v) {
      sum = make_float4(sum.x + w * v.x, sum.y + w * v.y, sum.z + w * v.z, sum.w + w * v.w);
    };
    for (std::uint32_t k = 0; k < p.used; ++k) {
      float4 v = load_row_4(y + k * dim, c, dim, wide);
      const std::uint32_t expert =
          p.experts != 0 ? args.ptr<const std::uint32_t>(6)[t * p.used + k] : ~0u;
      if (expert < p.experts) {
        const float4 b = load_row_4(args.ptr<const float>(7) + expert * dim, c, dim,
                                    wide && is_aligned_4(args.ptr<const float>(7)));
        v = make_float4(v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w);
      }
      add(weights[k], v);
    }
    if (p.has_shared != 0) {
      const float gate = p.has_shared_gate != 0 ? op_sigmoid(args.ptr<const float>(4)[t]) : 1.0f;
      add(gate, load_row_4(args.ptr<const float>(3) + t * dim, c, dim, wide));
    }
    if (p.has_residual != 0) {
      add(1.0f, load_row_4(args.ptr<const float>(2) + t * dim, c, dim, wide));
    }
    store_row_4(args.ptr<float>(5) + t * dim, c, dim, wide, sum);
  }
}

namespace onepass::ops {
namespace {

__device__ inline float gated_value(std::uint32_t activation, float gate, float up) {
  if (activation == 0) return op_silu(gate) * up;
  if (activation == 1) return op_gelu(gate) * up;
  if (activation == 2) return op_gelu_erf(gate) * up;
  if (activation == 3) return op_relu2(gate) * up;
  const float g = gate < 7.0f ? gate : 7.0f, u = up < -7.0f ? -7.0f : up < 7.0f ? up : 7.0f;
  return g * op_sigmoid(1.702f * g) * (u + 1.0f);
}

// A warp takes 32 columns of a row.
template <bool Quantize>
__device__ void gated(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const GatedParams p = args.params_as<GatedParams>();
  const std::uint64_t dim = p.dim, units = (dim + 31) / 32;
  const std::uint32_t lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * warps + threadIdx.x / 32; i < p.rows * units;
       i += std::uint64_t{gridDim.x} * warps) {
    const std::uint64_t row = i / units, unit = i % units, c = 32 * unit + lane;
    float y = 0.0f;
    if (c < dim) {
      float gate = args.ptr<const float>(0)[row * dim + c];
      float up = args.ptr<const float>(1)[row * dim + c];
      const std::uint32_t expert = p.experts != 0 ? args.ptr<const std::uint32_t>(2)[row] : ~0u;
      if (expert < p.experts) {
        gate += args.ptr<const float>(3)[expert * dim + c];
        up += args.ptr<const float>(4)[expert * dim + c];
      }
      y = gated_value(p.activation, gate, up);
    }
    if constexpr (Quantize) {
      store_q8a_1(args.ptr<std::uint8_t>(5) + row * (dim / 32 * 40), dim, unit, y);
    } else {
      if (c < dim) args.ptr<float>(5)[row * dim + c] = y;
    }
  }
}

}  // namespace
}  // namespace onepass::ops

extern "C" __global__ void __launch_bounds__(256)
    gated_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::gated<false>(args);
}
extern "C" __global__ void __launch_bounds__(256)
    gated_q_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::gated<true>(args);
}
