// Rows of a table as f32. blockIdx.x: row; a thread writes four elements at a time.
#include "backends/cuda/args.h"
#include "ops/embed/params.h"
#include "ops/shared/cuda_step.cuh"
#include "ops/shared/cuda_values.cuh"
#include "quant/split.h"

namespace onepass::ops {
namespace {

// Calls load(token, i) for elements [i, i + 4) of every active row.
template <class Params, class Load>
__device__ void embed_rows(const CudaArgs& args, const Params& p, int tokens_slot, float* out,
                           const Load& load) {
  pdl_launch();
  pdl_wait();
  const bool plain = p.index == embed_by_u32;
  const DeviceStep step(args.views[tokens_slot], plain ? 0 : args.bytes[tokens_slot]);
  const bool wide = p.dim % 4 == 0 && is_aligned_4(out);
  for (std::uint32_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
    if (!plain && r >= step.n_rows) return;
    const std::uint32_t token = plain ? args.ptr<const std::uint32_t>(tokens_slot)[r]
                                : p.index == embed_by_position ? step.position(r)
                                                               : step.token(r);
    for (std::uint32_t i = 4 * (blockIdx.y * blockDim.x + threadIdx.x); i < p.dim;
         i += 4 * gridDim.y * blockDim.x) {
      float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (token < p.vocab) {
        v = load(token, i);
        if (p.scale != 1.0f) {
          v = make_float4(v.x * p.scale, v.y * p.scale, v.z * p.scale, v.w * p.scale);
        }
      }
      store_row_4(out + std::uint64_t{r} * p.dim, i, p.dim, wide, v);
    }
  }
}

template <class W>
__device__ void embed(const CudaArgs& args) {
  const EmbedParams p = args.params_as<EmbedParams>();
  const W* table = args.ptr<const W>(0);
  bool wide = false;
  if constexpr (!requires { W::elements; }) wide = p.dim % 4 == 0 && is_aligned_4(table);
  embed_rows(args, p, 1, args.ptr<float>(2), [&](std::uint32_t token, std::uint32_t i) {
    return values_4(row_at(table, token, p.dim), i, p.dim, wide);
  });
}

// Split weights: a thread takes blocks of 32.
template <class Form>
__device__ void embed_split(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const EmbedParams p = args.params_as<EmbedParams>();
  const bool plain = p.index == embed_by_u32;
  const DeviceStep step(args.views[1], plain ? 0 : args.bytes[1]);
  float* out = args.ptr<float>(2);
  const bool wide = is_aligned_4(out);
  for (std::uint32_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
    if (!plain && r >= step.n_rows) return;
    const std::uint32_t token = plain                          ? args.ptr<const std::uint32_t>(1)[r]
                                : p.index == embed_by_position ? step.position(r)
                                                               : step.token(r);
    for (std::uint32_t b = blockIdx.y * blockDim.x + threadIdx.x; b < p.dim / 32;
         b += gridDim.y * blockDim.x) {
      float v[32] = {};
      if (token < p.vocab) quant::split_block<Form>(args.views[0], p.dim, token, b, v);
      float* to = out + std::uint64_t{r} * p.dim + 32 * b;
#pragma unroll
      for (int i = 0; i < 32; i += 4) {
        float4 x = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
        if (p.scale != 1.0f) {
          x = make_float4(x.x * p.scale, x.y * p.scale, x.z * p.scale, x.w * p.scale);
        }
        store_row_4(to, i, 32, wide, x);
      }
    }
  }
}

// Number i of a stream of `bits` bits each.
__device__ inline float affine_number(const std::uint8_t* stream, std::uint64_t i,
                                      std::uint32_t bits) {
  const std::uint64_t at = i * bits;
  const std::uint32_t shift = at % 8;
  std::uint32_t word = stream[at / 8];
  if (shift + bits > 8) word |= std::uint32_t{stream[at / 8 + 1]} << 8;
  return static_cast<float>(word >> shift & ((1u << bits) - 1u));
}

template <class S>
__device__ void embed_affine(const CudaArgs& args) {
  const EmbedAffineParams p = args.params_as<EmbedAffineParams>();
  const std::uint64_t row_bytes = std::uint64_t{p.dim} * p.bits / 8, groups = p.dim / p.group_size;
  embed_rows(args, p, 3, args.ptr<float>(4), [&](std::uint32_t token, std::uint32_t i) {
    const std::uint8_t* stream = args.ptr<const std::uint8_t>(0) + token * row_bytes;
    const std::uint64_t group = token * groups + i / p.group_size;
    const float scale = as_float(args.ptr<const S>(1)[group]);
    const float bias = as_float(args.ptr<const S>(2)[group]);
    return make_float4(affine_number(stream, i, p.bits) * scale + bias,
                       affine_number(stream, i + 1, p.bits) * scale + bias,
                       affine_number(stream, i + 2, p.bits) * scale + bias,
                       affine_number(stream, i + 3, p.bits) * scale + bias);
  });
}

}  // namespace
}  // namespace onepass::ops

#define EMBED_KERNEL(name, body)                             \
  extern "C" __global__ void __launch_bounds__(256)          \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    onepass::ops::body(args);                                \
  }

EMBED_KERNEL(embed_f32_f32, embed<float>)
EMBED_KERNEL(embed_f16_f32, embed<onepass::ops::Half>)
EMBED_KERNEL(embed_bf16_f32, embed<onepass::ops::Bfloat>)
#define BLOCK(format, Block) EMBED_KERNEL(embed_##format##_f32, embed<onepass::quant::Block>)
ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
#define LAYOUT_r16(format, Form)
#define LAYOUT_s16(format, Form) \
  EMBED_KERNEL(embed_##format##_f32, embed_split<onepass::quant::Form>)
#define LAYOUT(type, layout, elements, bytes, Form) LAYOUT_##layout(type##_##layout, Form)
#include "onepass/tables/formats.def"
#undef LAYOUT_r16
#undef LAYOUT_s16
EMBED_KERNEL(embed_affine_f32, embed_affine<float>)
EMBED_KERNEL(embed_affine_f16, embed_affine<onepass::ops::Half>)
EMBED_KERNEL(embed_affine_bf16, embed_affine<onepass::ops::Bfloat>)
