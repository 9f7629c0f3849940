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

  __device__ __forceinline__ std::uint32_t form() const { return args.values[matmul_form]; }
  __device__ __forceinline__ std::uint32_t m() const { return args.values[matmul_m]; }
  __device__ __forceinline__ std::uint32_t k() const { return args.values[matmul_k]; }
  __device__ __forceinline__ bool is_glu() const {
    return form() == form_glu || form() == form_glu_q;
  }
  __device__ __forceinline__ std::uint32_t activation() const {
    return args.params_as<MatmulGluParams>().activation;
  }

  // Products beside each other: `part` is 0 but for form_three.
  __device__ __forceinline__ std::uint32_t n(std::uint32_t part = 0) const {
    if (part == 0) return args.values[matmul_n];
    const auto& p = args.params_as<Matmul3Params>();
    return part == 1 ? p.n1 : p.n2;
  }
  __device__ __forceinline__ const unsigned char* weights(std::uint32_t part) const {
    return args.ptr<const unsigned char>(static_cast<int>(1 + part));
  }
  __device__ __forceinline__ bool has_bias() const {
    return form() == form_bias || form() == form_bias_add;
  }
  __device__ __forceinline__ bool has_residual() const {
    return form() == form_add || form() == form_bias_add;
  }
  __device__ __forceinline__ const float* bias(std::uint32_t part) const {
    if (form() == form_three) return args.ptr<const float>(static_cast<int>(4 + part));
    return has_bias() ? args.ptr<const float>(2) : nullptr;
  }
  __device__ __forceinline__ const float* residual() const {
    if (!has_residual()) return nullptr;
    return args.ptr<const float>(has_bias() ? 3 : 2);
  }
  // Of the ops that norm x.
  __device__ __forceinline__ const float* norm_weight() const {
    return args.ptr<const float>(form() == form_three ? 10 : form() == form_glu_q ? 4 : 3);
  }
  __device__ __forceinline__ float eps() const { return __uint_as_float(args.values[matmul_eps]); }
  __device__ __forceinline__ void* out(std::uint32_t part) const {
    if (form() == form_three) return args.views[7 + part];
    if (form() == form_affine) return args.views[4];
    if (form() >= form_glu) return args.views[3];
    return args.views[2 + (has_bias() ? 1 : 0) + (has_residual() ? 1 : 0)];
  }
};

// form_id: which expert a pair of token and choice uses, and which row of x.
struct Pair {
  std::uint32_t expert;  // ~0u: none, the product is zero
  std::uint32_t x_row;
};
__device__ __forceinline__ Pair pair_of(const CudaArgs& args, std::uint32_t pair) {
  const auto& p = args.params_as<MatmulIdParams>();
  const std::uint32_t expert = __ldcg(args.ptr<const std::uint32_t>(2) + pair);
  return {expert < p.experts ? expert : ~0u, p.pair_rows != 0 ? pair : pair / p.used};
}

__device__ __forceinline__ float activate(std::uint32_t activation, float x) {
  return activation == 0 ? op_silu(x) : activation == 1 ? op_gelu(x) : op_gelu_erf(x);
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_MATMUL_CUDA_JOB_CUH_
