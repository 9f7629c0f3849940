// Elementwise ops; a thread takes four elements.
#include "backends/cuda/args.h"
#include "onepass/dtype.h"
#include "ops/elementwise/params.h"
#include "ops/shared/cuda_elements.cuh"

namespace onepass::ops {
namespace {

struct Add {
  __device__ static float apply(float a, float b) { return a + b; }
};
struct Mul {
  __device__ static float apply(float a, float b) { return a * b; }
};
struct SiluMul {
  __device__ static float apply(float a, float b) { return op_silu(a) * b; }
};
struct GeluMul {
  __device__ static float apply(float a, float b) { return op_gelu(a) * b; }
};
struct GeluErfMul {
  __device__ static float apply(float a, float b) { return op_gelu_erf(a) * b; }
};
struct SigmoidMul {
  __device__ static float apply(float a, float b) { return op_sigmoid(a) * b; }
};
// The second argument is the scalar of the params.
struct Silu {
  __device__ static float apply(float x, float) { return op_silu(x); }
};
struct Gelu {
  __device__ static float apply(float x, float) { return op_gelu(x); }
};
struct GeluErf {
  __device__ static float apply(float x, float) { return op_gelu_erf(x); }
};
struct Relu2 {
  __device__ static float apply(float x, float) { return op_relu2(x); }
};
struct Sigmoid {
  __device__ static float apply(float x, float) { return op_sigmoid(x); }
};
struct Softcap {
  __device__ static float apply(float x, float cap) { return op_softcap(x, cap); }
};
struct Scale {
  __device__ static float apply(float x, float factor) { return factor * x; }
};

template <class F>
__device__ inline float4 apply_4(float4 x, float4 y) {
  return make_float4(F::apply(x.x, y.x), F::apply(x.y, y.y), F::apply(x.z, y.z),
                     F::apply(x.w, y.w));
}

__device__ inline std::uint64_t first_element() {
  return std::uint64_t{4} * (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x);
}
__device__ inline std::uint64_t element_step() { return std::uint64_t{4} * gridDim.x * blockDim.x; }

// Elements i .. i + 3 of a row of n that repeats.
template <class T>
__device__ inline float4 load_repeated_4(const T* row, std::uint64_t i, std::uint32_t n,
                                         bool wide) {
  const auto at = static_cast<std::uint32_t>(i % n);
  if (wide) return load_row_4(row, at, n, true);
  const auto next = [n](std::uint32_t e) { return e + 1 < n ? e + 1 : 0; };
  const std::uint32_t b = next(at), c = next(b), d = next(c);
  return make_float4(as_float(row[at]), as_float(row[b]), as_float(row[c]), as_float(row[d]));
}

template <class F, class T>
__device__ void binary(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const ElementwiseParams p = args.params_as<ElementwiseParams>();
  const std::uint64_t n = std::uint64_t{p.n_hi} << 32 | p.n_lo;
  const T* a = args.ptr<const T>(0);
  const T* b = args.ptr<const T>(1);
  T* out = args.ptr<T>(2);
  const bool wide = n % 4 == 0 && is_aligned_4(a) && is_aligned_4(out);
  const bool b_wide = is_aligned_4(b) && (p.b_elements != 0 ? p.b_elements % 4 == 0 : n % 4 == 0);
  for (std::uint64_t i = first_element(); i < n; i += element_step()) {
    const float4 y = p.b_elements != 0 ? load_repeated_4(b, i, p.b_elements, b_wide)
                                       : load_row_4(b, i, n, b_wide);
    store_row_4(out, i, n, wide, apply_4<F>(load_row_4(a, i, n, wide), y));
  }
}

template <class F, class T>
__device__ void unary(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const ElementwiseParams p = args.params_as<ElementwiseParams>();
  const std::uint64_t n = std::uint64_t{p.n_hi} << 32 | p.n_lo;
  const T* x = args.ptr<const T>(0);
  T* out = args.ptr<T>(1);
  const bool wide = n % 4 == 0 && is_aligned_4(x) && is_aligned_4(out);
  const float4 scalar = make_float4(p.scalar, p.scalar, p.scalar, p.scalar);
  for (std::uint64_t i = first_element(); i < n; i += element_step()) {
    store_row_4(out, i, n, wide, apply_4<F>(load_row_4(x, i, n, wide), scalar));
  }
}

template <class From, class To>
__device__ inline void convert(const CudaArgs& args, std::uint64_t n) {
  const From* x = args.ptr<const From>(0);
  To* out = args.ptr<To>(1);
  const bool x_wide = n % 4 == 0 && is_aligned_4(x), out_wide = n % 4 == 0 && is_aligned_4(out);
  for (std::uint64_t i = first_element(); i < n; i += element_step()) {
    store_row_4(out, i, n, out_wide, load_row_4(x, i, n, x_wide));
  }
}

template <class From>
__device__ void cast(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const CastParams p = args.params_as<CastParams>();
  const std::uint64_t n = std::uint64_t{p.n_hi} << 32 | p.n_lo;
  switch (static_cast<DType>(p.to)) {
    case DType::f16:
      return convert<From, Half>(args, n);
    case DType::bf16:
      return convert<From, Bfloat>(args, n);
    default:
      return convert<From, float>(args, n);
  }
}

}  // namespace
}  // namespace onepass::ops

#define ELEMENTWISE_KERNEL(name, ...)                        \
  extern "C" __global__ void __launch_bounds__(256)          \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    using namespace onepass::ops;                            \
    __VA_ARGS__(args);                                       \
  }
#define ELEMENTWISE_KERNELS(op, F, kernel)       \
  ELEMENTWISE_KERNEL(op##_f32, kernel<F, float>) \
  ELEMENTWISE_KERNEL(op##_f16, kernel<F, Half>)  \
  ELEMENTWISE_KERNEL(op##_bf16, kernel<F, Bfloat>)

ELEMENTWISE_KERNELS(add, Add, binary)
ELEMENTWISE_KERNELS(mul, Mul, binary)
ELEMENTWISE_KERNELS(silu_mul, SiluMul, binary)
ELEMENTWISE_KERNELS(gelu_mul, GeluMul, binary)
ELEMENTWISE_KERNELS(gelu_erf_mul, GeluErfMul, binary)
ELEMENTWISE_KERNELS(sigmoid_mul, SigmoidMul, binary)
ELEMENTWISE_KERNELS(silu, Silu, unary)
ELEMENTWISE_KERNELS(gelu, Gelu, unary)
ELEMENTWISE_KERNELS(gelu_erf, GeluErf, unary)
ELEMENTWISE_KERNELS(relu2, Relu2, unary)
ELEMENTWISE_KERNELS(sigmoid, Sigmoid, unary)
ELEMENTWISE_KERNELS(softcap, Softcap, unary)
ELEMENTWISE_KERNELS(scale, Scale, unary)
ELEMENTWISE_KERNEL(cast_f32, cast<float>)
ELEMENTWISE_KERNEL(cast_f16, cast<Half>)
ELEMENTWISE_KERNEL(cast_bf16, cast<Bfloat>)
