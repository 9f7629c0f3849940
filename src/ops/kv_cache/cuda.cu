// A warp stores one head of one row.
#include "backends/cuda/args.h"
#include "ops/kv_cache/params.h"
#include "ops/shared/cuda_cache.cuh"

namespace onepass::ops {
namespace {

template <DType Type>
__device__ void kv_store(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const KvStoreParams p = args.params_as<KvStoreParams>();
  const DeviceStep step(args.views[1], args.bytes[1]);
  const std::uint64_t n_pages = args.bytes[2] / 4;
  const DevicePlaces places{p.slots,
                            p.kv_heads,
                            p.capacity,
                            p.ring != 0,
                            n_pages != 0 ? args.ptr<const std::uint32_t>(2) : nullptr,
                            n_pages};
  const std::uint64_t heads = std::uint64_t{min(p.rows, step.n_rows)} * p.kv_heads;
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (blockDim.x / 32);
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
       i < heads; i += warps) {
    const std::uint32_t r = static_cast<std::uint32_t>(i / p.kv_heads);
    const std::uint32_t head = static_cast<std::uint32_t>(i % p.kv_heads), slot = step.slot(r);
    std::uint32_t page_offset = 0;
    if (places.pages != nullptr) {
      if (slot >= step.n_slots) continue;
      page_offset = step.page_offset(slot);
    }
    std::uint64_t row;
    if (!places.find(slot, page_offset, head, step.position(r), row)) continue;
    const float* x = args.ptr<const float>(0) + i * p.head_dim;
    store_cache_row(Type,
                    args.ptr<std::uint8_t>(3) + row * device_cache_row_bytes(Type, p.head_dim),
                    p.head_dim, [x](std::uint32_t e) { return x[e]; });
  }
}

// Bytes of each head up to the position; units are as wide as the addresses allow.
template <DType Type>
__device__ void kv_copy(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const KvCopyParams p = args.params_as<KvCopyParams>();
  const std::uint64_t row = device_cache_row_bytes(Type, p.head_dim);
  const std::uint64_t n = p.positions * row, stride = p.capacity * row;
  const std::uint8_t* from = args.ptr<const std::uint8_t>(0) + blockIdx.y * stride;
  std::uint8_t* to = args.ptr<std::uint8_t>(1) + blockIdx.y * stride;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t lowest =
      reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
  if (lowest % 16 == 0) {
    const std::uint64_t whole = n / 16;
    for (std::uint64_t i = first; i < whole; i += step) {
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    }
    for (std::uint64_t i = 16 * whole + first; i < n; i += step) to[i] = from[i];
  } else {
    for (std::uint64_t i = first; i < n / 2; i += step) {
      reinterpret_cast<std::uint16_t*>(to)[i] = reinterpret_cast<const std::uint16_t*>(from)[i];
    }
  }
}

}  // namespace
}  // namespace onepass::ops

#define CACHE_KERNEL(name, body)                             \
  extern "C" __global__ void __launch_bounds__(256)          \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    onepass::ops::body(args);                                \
  }

CACHE_KERNEL(kv_store_f32, kv_store<onepass::DType::f32>)
CACHE_KERNEL(kv_store_f16, kv_store<onepass::DType::f16>)
CACHE_KERNEL(kv_store_q8_0, kv_store<onepass::DType::q8_0>)
CACHE_KERNEL(kv_copy_f32, kv_copy<onepass::DType::f32>)
CACHE_KERNEL(kv_copy_f16, kv_copy<onepass::DType::f16>)
CACHE_KERNEL(kv_copy_q8_0, kv_copy<onepass::DType::q8_0>)
