// Rows of f32 to q8a and the block formats, and back.
#include "backends/cuda/args.h"
#include "ops/quantize/params.h"
#include "ops/shared/cuda_values.cuh"
#include "quant/split.h"

namespace onepass::ops {
namespace {

// A lane has four values, eight lanes a block.
__device__ void quantize_q8a(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const QuantizeParams p = args.params_as<QuantizeParams>();
  const std::uint64_t n = std::uint64_t{p.rows} * p.cols;
  const float* x = args.ptr<const float>(0);
  const bool wide = is_aligned_4(x);
  const std::uint64_t warp_elements = 128;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x * 4;
  for (std::uint64_t i = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
       i / warp_elements * warp_elements < n; i += step) {
    const bool active = i < n;
    const float4 v = active ? load_row_4(x, i, n, wide) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const std::uint64_t row = i / p.cols, at = i % p.cols;
    store_q8a_4(args.ptr<std::uint8_t>(1) + row * (p.cols / 32 * 40), p.cols, at, v, active);
  }
}

__device__ void dequantize_q8a(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const QuantizeParams p = args.params_as<QuantizeParams>();
  const std::uint64_t n = std::uint64_t{p.rows} * p.cols;
  float* out = args.ptr<float>(1);
  const bool wide = is_aligned_4(out);
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x * 4;
  for (std::uint64_t i = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4; i < n;
       i += step) {
    const std::uint64_t at = i % p.cols;
    const std::uint8_t* row = args.ptr<const std::uint8_t>(0) + i / p.cols * (p.cols / 32 * 40);
    const float d = *reinterpret_cast<const float*>(row + p.cols + at / 32 * 8);
    const std::uint32_t q = *reinterpret_cast<const std::uint32_t*>(row + at);
    const auto number = [&](int j) {
      return static_cast<float>(static_cast<signed char>(q >> (8 * j))) * d;
    };
    store_row_4(out, i, n, wide, make_float4(number(0), number(1), number(2), number(3)));
  }
}

// A thread quantizes a whole block.
template <class Block>
__device__ void quantize_blocks(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const QuantizeParams p = args.params_as<QuantizeParams>();
  const std::uint64_t blocks = std::uint64_t{p.rows} * (p.cols / Block::elements);
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < blocks;
       i += step) {
    quantize(args.ptr<const float>(0) + i * Block::elements, args.ptr<Block>(1)[i]);
  }
}

template <class Block>
__device__ void dequantize_blocks(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const QuantizeParams p = args.params_as<QuantizeParams>();
  const std::uint64_t n = std::uint64_t{p.rows} * p.cols;
  const Block* x = args.ptr<const Block>(0);
  float* out = args.ptr<float>(1);
  const bool wide = is_aligned_4(out);
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x * 4;
  for (std::uint64_t i = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4; i < n;
       i += step) {
    store_row_4(out, i, n, wide, values_4(x, i, n, false));
  }
}

// A thread takes a block of 32.
template <class Form>
__device__ void dequantize_split(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const QuantizeParams p = args.params_as<QuantizeParams>();
  const std::uint64_t row_blocks = p.cols / 32, blocks = p.rows * row_blocks;
  float* out = args.ptr<float>(1);
  const bool wide = is_aligned_4(out);
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < blocks;
       i += step) {
    float v[32];
    quant::split_block<Form>(args.views[0], p.cols, i / row_blocks, i % row_blocks, v);
#pragma unroll
    for (int j = 0; j < 32; j += 4) {
      store_row_4(out + 32 * i, j, 32, wide, make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]));
    }
  }
}

}  // namespace
}  // namespace onepass::ops

#define QUANTIZE_KERNEL(name, body)                          \
  extern "C" __global__ void __launch_bounds__(256)          \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    onepass::ops::body(args);                                \
  }

QUANTIZE_KERNEL(quantize_f32_q8a, quantize_q8a)
QUANTIZE_KERNEL(dequantize_q8a_f32, dequantize_q8a)
#define BLOCK(format, Block)                                                     \
  QUANTIZE_KERNEL(quantize_f32_##format, quantize_blocks<onepass::quant::Block>) \
  QUANTIZE_KERNEL(dequantize_##format##_f32, dequantize_blocks<onepass::quant::Block>)
ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
#define LAYOUT_r16(format, Form)
#define LAYOUT_s16(format, Form) \
  QUANTIZE_KERNEL(dequantize_##format##_f32, dequantize_split<onepass::quant::Form>)
#define LAYOUT(type, layout, elements, bytes, Form) LAYOUT_##layout(type##_##layout, Form)
#include "onepass/tables/formats.def"
#undef LAYOUT_r16
#undef LAYOUT_s16
