// Which weights an op of this family multiplies, and where the products go.
#ifndef ONEPASS_OPS_MATMUL_CUDA_JOB_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_JOB_CUH_

#include "backends/cuda/args.h"
#include "ops/matmul/launch_cuda.h"
#include "ops/matmul/params.h"
#include "ops/shared/cuda_elements.cuh"
#include "ops/shared/cuda_ptx.cuh"
#include "ops/shared/scalar.h"

namespace onepass::ops {

// Reads of the kernel's argument, which is constant memory: nothing of it has to stay in registers.
struct Job {
  const CudaArgs& args;

  __device__ __forceinline__ const MatmulParams& params() const {
    return args.params_as<MatmulParams>();
  }
  __device__ __forceinline__ bool has(std::uint32_t forms) const {
    return (params().form & forms) != 0;
  }
  __device__ __forceinline__ std::uint32_t m() const { return params().m; }
  __device__ __forceinline__ std::uint32_t k() const { return params().k; }
  __device__ __forceinline__ bool is_gate() const { return has(form_product); }
  // Products beside each other, an output of each.
  __device__ __forceinline__ bool has_parts() const {
    return (params().form & (form_parts | form_product)) == form_parts;
  }
  __device__ __forceinline__ bool by_pair() const { return args.values[matmul_by_pair] != 0; }
  __device__ __forceinline__ std::uint32_t activation() const { return params().activation; }

  __device__ __forceinline__ std::uint32_t n(std::uint32_t part = 0) const {
    return part == 0 ? params().n0 : part == 1 ? params().n1 : params().n2;
  }
  __device__ __forceinline__ const unsigned char* x() const {
    return static_cast<const unsigned char*>(args.views[matmul_x]);
  }
  __device__ __forceinline__ const unsigned char* weights(std::uint32_t part) const {
    return static_cast<const unsigned char*>(args.views[matmul_weight(part)]);
  }
  __device__ __forceinline__ const float* bias(std::uint32_t part) const {
    return has(form_bias) ? static_cast<const float*>(args.views[matmul_bias(part)]) : nullptr;
  }
  __device__ __forceinline__ const float* residual() const {
    return has(form_residual) ? static_cast<const float*>(args.views[matmul_residual]) : nullptr;
  }
  __device__ __forceinline__ const float* norm_weight() const {
    return static_cast<const float*>(args.views[matmul_norm]);
  }
  __device__ __forceinline__ float eps() const { return params().eps; }
  __device__ __forceinline__ float* out(std::uint32_t part) const {
    return static_cast<float*>(args.views[matmul_out(part)]);
  }
  __device__ __forceinline__ unsigned char* quantized_out() const {
    return static_cast<unsigned char*>(args.views[matmul_out(0)]);
  }
};

// by_pair: which expert a pair of token and choice uses, and which row of x.
struct Pair {
  std::uint32_t expert;  // ~0u: none, the product is zero
  std::uint32_t x_row;
};
__device__ __forceinline__ Pair pair_of(const CudaArgs& args, std::uint32_t pair) {
  const auto& p = args.params_as<MatmulIdParams>();
  const std::uint32_t expert =
      __ldcg(static_cast<const std::uint32_t*>(args.views[matmul_ids]) + pair);
  return {expert < p.experts ? expert : ~0u, p.pair_rows != 0 ? pair : pair / p.used};
}

__device__ __forceinline__ float activate(std::uint32_t activation, float x) {
  return activation == 0 ? op_silu(x) : activation == 1 ? op_gelu(x) : op_gelu_erf(x);
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_MATMUL_CUDA_JOB_CUH_
