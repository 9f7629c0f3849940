// Norms. A row of up to 512 elements belongs to a warp, element e to lane e % 32; a longer one to
// a block, elements [4 c, 4 c + 4) to thread c % threads. Sums are in this order whatever the
// alignment, so that fused forms have the bits of the separate ones.
#include "backends/cuda/args.h"
#include "ops/norm/params.h"
#include "ops/shared/cuda_elements.cuh"

namespace onepass::ops {
namespace {

constexpr int warp_parts = 16;  // elements of a lane
constexpr int kept_parts = 4;   // groups of four that a thread keeps in registers

// Slots of the views; -1: the op has no such view.
struct Slots {
  int out;
  int weight = -1, bias = -1;
  int residual = -1, sum = -1;  // the norm is of x + residual, which is kept in sum
  int factor = -1, term = -1;   // the norm is rounded, then multiplied or added
  int rounded = -1;             // where it is stored as well
  int plain = -1;               // where what is quantized is stored
};
enum class Kind { rms, l2, layer };

// The parameters of every op of the family.
struct NormParams {
  std::uint32_t rows, dim;
  float eps;
  op_u32 weight_is_f32;
};
template <Kind F>
__device__ inline NormParams norm_params(const CudaArgs& args) {
  if constexpr (F == Kind::l2) {
    const auto& p = args.params_as<L2NormParams>();
    return {p.rows, p.dim, p.eps, 1};
  } else if constexpr (F == Kind::layer) {
    const auto& p = args.params_as<LayerNormParams>();
    return {p.rows, p.dim, p.eps, p.weight_is_f32};
  } else {
    const auto& p = args.params_as<RmsNormParams>();
    return {p.rows, p.dim, p.eps, p.weight_is_f32};
  }
}
// The slots of rms_norm for its forms.
__device__ inline Slots rms_slots(const CudaArgs& args) {
  const op_u32 form = args.params_as<RmsNormParams>().form;
  Slots slots{.out = norm_out, .weight = norm_weight_slot};
  if ((form & form_sum) != 0) {
    slots.residual = norm_other;
    slots.sum = norm_also;
  }
  if ((form & form_product) != 0) {
    slots.factor = norm_other;
    if (args.views[norm_also] != nullptr) slots.rounded = norm_also;
  }
  if ((form & form_residual) != 0) slots.term = norm_other;
  if ((form & form_quantized) != 0 && args.views[norm_plain] != nullptr) slots.plain = norm_plain;
  return slots;
}

// Weights of a row, null for none.
template <class T>
struct NormWeights {
  const void* data = nullptr;
  bool is_f32 = true;

  __device__ NormWeights(const CudaArgs& args, int slot, op_u32 f32)
      : data(slot >= 0 ? args.views[slot] : nullptr), is_f32(f32 != 0) {}
  __device__ bool wide() const {
    return data == nullptr || (is_f32 ? is_aligned_4(static_cast<const float*>(data))
                                      : is_aligned_4(static_cast<const T*>(data)));
  }
  __device__ float load(std::uint32_t i) const {
    if (is_f32) return static_cast<const float*>(data)[i];
    return as_float(static_cast<const T*>(data)[i]);
  }
  __device__ float4 load_4(std::uint32_t i, std::uint32_t n, bool is_wide) const {
    if (is_f32) return load_row_4(static_cast<const float*>(data), i, n, is_wide);
    return load_row_4(static_cast<const T*>(data), i, n, is_wide);
  }
};

__device__ inline float4 add_4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ inline float4 mul_4(float4 a, float4 b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
__device__ inline float4 scale_4(float4 a, float r) {
  return make_float4(a.x * r, a.y * r, a.z * r, a.w * r);
}
__device__ inline float sum_4(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ inline float square_4(float4 v) {
  return (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
}

__device__ inline float factor_of(Kind kind, float squares, float count, float eps) {
  return 1.0f / op_sqrt((kind == Kind::l2 ? squares : squares / count) + eps);
}

template <class T, Kind F, bool Quantize>
__device__ void norm_warp_rows(const CudaArgs& args, const Slots slots) {
  const NormParams p = norm_params<F>(args);
  const std::uint32_t lane = threadIdx.x % 32, dim = p.dim;
  const NormWeights<T> weight(args, slots.weight, p.weight_is_f32);
  const NormWeights<T> bias(args, slots.bias, p.weight_is_f32);
  float w[warp_parts];
#pragma unroll
  for (int j = 0; j < warp_parts; ++j) {
    const std::uint32_t i = lane + 32 * j;
    w[j] = weight.data != nullptr && i < dim ? weight.load(i) : 1.0f;
  }
  pdl_wait();
  const std::uint64_t step = std::uint64_t{gridDim.x} * (blockDim.x / 32);
  for (std::uint64_t row = std::uint64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
       row < p.rows; row += step) {
    const std::uint64_t at = row * dim;
    float v[warp_parts], sum = 0.0f;
#pragma unroll
    for (int j = 0; j < warp_parts; ++j) {
      const std::uint32_t i = lane + 32 * j;
      v[j] = 0.0f;
      if (i >= dim) continue;
      v[j] = as_float(args.ptr<const T>(0)[at + i]);
      if (slots.residual >= 0) {
        const T kept_sum = round_to<T>(v[j] + as_float(args.ptr<const T>(slots.residual)[at + i]));
        args.ptr<T>(slots.sum)[at + i] = kept_sum;
        v[j] = as_float(kept_sum);
      }
      sum = F == Kind::layer ? sum + v[j] : fmaf(v[j], v[j], sum);
    }
    sum = warp_sum(sum);
    const float count = static_cast<float>(dim);
    if constexpr (F == Kind::layer) {
      const float mean = sum / count;
      sum = 0.0f;
#pragma unroll
      for (int j = 0; j < warp_parts; ++j) {
        if (lane + 32 * j >= dim) continue;
        v[j] -= mean;
        sum = fmaf(v[j], v[j], sum);
      }
      sum = warp_sum(sum);
    }
    const float r = factor_of(F, sum, count, p.eps);
#pragma unroll
    for (int j = 0; j < warp_parts; ++j) {
      const std::uint32_t i = lane + 32 * j;
      float y = v[j] * r;
      if (weight.data != nullptr) y *= w[j];
      if constexpr (Quantize) {
        // Rows are whole blocks of 32: the warp does the same.
        if (slots.plain >= 0 && i < dim) args.ptr<float>(slots.plain)[at + i] = y;
        if (32 * j < dim) store_q8a_1(args.ptr<std::uint8_t>(slots.out) + at / 32 * 40, dim, j, y);
        continue;
      }
      if (i >= dim) continue;
      if (bias.data != nullptr) y += bias.load(i);
      if (slots.rounded >= 0) args.ptr<T>(slots.rounded)[at + i] = round_to<T>(y);
      if (slots.factor >= 0) y = kept<T>(y) * as_float(args.ptr<const T>(slots.factor)[at + i]);
      if (slots.term >= 0) y = as_float(args.ptr<const T>(slots.term)[at + i]) + kept<T>(y);
      args.ptr<T>(slots.out)[at + i] = round_to<T>(y);
    }
  }
}

// The sum over a block of whole warps; partial is not used by another sum before the next barrier.
__device__ inline float block_sum_once(float v, float* partial) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  return warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
}

template <class T, Kind F, bool Quantize>
__device__ void norm_block_rows(const CudaArgs& args, const Slots slots) {
  __shared__ float partial[2][32];
  const NormParams p = norm_params<F>(args);
  const std::uint32_t dim = p.dim, threads = blockDim.x;
  const NormWeights<T> weight(args, slots.weight, p.weight_is_f32);
  const NormWeights<T> bias(args, slots.bias, p.weight_is_f32);
  bool wide = dim % 4 == 0 && is_aligned_4(args.ptr<const T>(0)) && weight.wide() && bias.wide();
  if (!Quantize) wide = wide && is_aligned_4(args.ptr<const T>(slots.out));
  if (slots.residual >= 0) {
    wide = wide && is_aligned_4(args.ptr<const T>(slots.residual)) &&
           is_aligned_4(args.ptr<const T>(slots.sum));
  }
  if (slots.factor >= 0) wide = wide && is_aligned_4(args.ptr<const T>(slots.factor));
  if (slots.rounded >= 0) wide = wide && is_aligned_4(args.ptr<const T>(slots.rounded));
  if (slots.term >= 0) wide = wide && is_aligned_4(args.ptr<const T>(slots.term));
  if (slots.plain >= 0) wide = wide && is_aligned_4(args.ptr<const float>(slots.plain));

  float4 w[kept_parts];
#pragma unroll
  for (int j = 0; j < kept_parts; ++j) {
    const std::uint32_t i = 4 * (threadIdx.x + j * threads);
    w[j] = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    if (weight.data != nullptr && i < dim) w[j] = weight.load_4(i, dim, wide);
  }
  pdl_wait();
  const std::uint32_t parts = (dim + 4 * threads - 1) / (4 * threads);
  for (std::uint64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const std::uint64_t at = row * dim;
    const T* x = args.ptr<const T>(0) + at;
    // What is normed; stored where the op keeps the sum.
    const auto first_load = [&](std::uint32_t i) {
      float4 v = load_row_4(x, i, dim, wide);
      if (slots.residual >= 0) {
        v = kept<T>(add_4(v, load_row_4(args.ptr<const T>(slots.residual) + at, i, dim, wide)));
        store_row_4(args.ptr<T>(slots.sum) + at, i, dim, wide, v);
      }
      return v;
    };
    const auto load_again = [&](std::uint32_t i) {
      return load_row_4(slots.residual >= 0 ? args.ptr<const T>(slots.sum) + at : x, i, dim, wide);
    };
    float4 v[kept_parts];
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kept_parts; ++j) {
      const std::uint32_t i = 4 * (threadIdx.x + j * threads);
      v[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (i >= dim) continue;
      v[j] = first_load(i);
      sum += F == Kind::layer ? sum_4(v[j]) : square_4(v[j]);
    }
    for (std::uint32_t j = kept_parts; j < parts; ++j) {
      const std::uint32_t i = 4 * (threadIdx.x + j * threads);
      if (i >= dim) break;
      const float4 more = first_load(i);
      sum += F == Kind::layer ? sum_4(more) : square_4(more);
    }
    sum = block_sum_once(sum, partial[0]);
    const float count = static_cast<float>(dim);
    float mean = 0.0f;
    if constexpr (F == Kind::layer) {
      mean = sum / count;
      sum = 0.0f;
      const auto add_square = [&](float4 t, std::uint32_t i) {
        sum += (t.x - mean) * (t.x - mean);
        if (i + 1 < dim) sum += (t.y - mean) * (t.y - mean);
        if (i + 2 < dim) sum += (t.z - mean) * (t.z - mean);
        if (i + 3 < dim) sum += (t.w - mean) * (t.w - mean);
      };
#pragma unroll
      for (int j = 0; j < kept_parts; ++j) {
        const std::uint32_t i = 4 * (threadIdx.x + j * threads);
        if (i < dim) add_square(v[j], i);
      }
      for (std::uint32_t j = kept_parts; j < parts; ++j) {
        const std::uint32_t i = 4 * (threadIdx.x + j * threads);
        if (i < dim) add_square(load_again(i), i);
      }
      sum = block_sum_once(sum, partial[1]);
    }
    const float r = factor_of(F, sum, count, p.eps);
    const auto finish = [&](float4 t, float4 scale, std::uint32_t i) {
      if constexpr (F == Kind::layer) {
        t = make_float4(t.x - mean, t.y - mean, t.z - mean, t.w - mean);
      }
      float4 y = scale_4(t, r);
      if (weight.data != nullptr) y = mul_4(y, scale);
      if constexpr (Quantize) {
        if (slots.plain >= 0 && i < dim) {
          store_row_4(args.ptr<float>(slots.plain) + at, i, dim, wide, y);
        }
        store_q8a_4(args.ptr<std::uint8_t>(slots.out) + at / 32 * 40, dim, i, y, i < dim);
        return;
      }
      if (i >= dim) return;
      if (bias.data != nullptr) y = add_4(y, bias.load_4(i, dim, wide));
      if (slots.rounded >= 0) store_row_4(args.ptr<T>(slots.rounded) + at, i, dim, wide, y);
      if (slots.factor >= 0) {
        y = mul_4(kept<T>(y), load_row_4(args.ptr<const T>(slots.factor) + at, i, dim, wide));
      }
      if (slots.term >= 0) {
        y = add_4(load_row_4(args.ptr<const T>(slots.term) + at, i, dim, wide), kept<T>(y));
      }
      store_row_4(args.ptr<T>(slots.out) + at, i, dim, wide, y);
    };
#pragma unroll
    for (int j = 0; j < kept_parts; ++j) {
      if (4 * j * threads >= dim) break;
      finish(v[j], w[j], 4 * (threadIdx.x + j * threads));
    }
    for (std::uint32_t j = kept_parts; j < parts; ++j) {
      const std::uint32_t i = 4 * (threadIdx.x + j * threads);
      const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      finish(i < dim ? load_again(i) : none,
             weight.data != nullptr && i < dim ? weight.load_4(i, dim, wide) : none, i);
    }
    if (row + gridDim.x < p.rows) __syncthreads();  // before the sums of the next row
  }
}

template <class T, Kind F, bool Quantize = false>
__device__ void norm(const CudaArgs& args, const Slots slots) {
  pdl_launch();
  if (norm_params<F>(args).dim <= 32 * warp_parts) {
    norm_warp_rows<T, F, Quantize>(args, slots);
  } else {
    norm_block_rows<T, F, Quantize>(args, slots);
  }
}

}  // namespace
}  // namespace onepass::ops

#define NORM_KERNEL(name, T, kind, quantize, ...)            \
  extern "C" __global__ void __launch_bounds__(1024)         \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    using namespace onepass::ops;                            \
    norm<T, Kind::kind, quantize>(args, __VA_ARGS__);        \
  }
#define NORM_KERNELS(op, kind, ...)                      \
  NORM_KERNEL(op##_f32, float, kind, false, __VA_ARGS__) \
  NORM_KERNEL(op##_f16, Half, kind, false, __VA_ARGS__)  \
  NORM_KERNEL(op##_bf16, Bfloat, kind, false, __VA_ARGS__)

NORM_KERNELS(rms_norm, rms, rms_slots(args))
NORM_KERNEL(rms_norm_q_f32, float, rms, true, rms_slots(args))
NORM_KERNELS(l2_norm, l2, Slots{.out = 1})
NORM_KERNELS(layer_norm, layer, Slots{.out = 3, .weight = 1, .bias = 2})
