// Rotations. Angles are computed in double: frequencies before the wait, the position after it.
#include "backends/cuda/args.h"
#include "ops/shared/cuda_cache.cuh"
#include "ops/shared/cuda_turn.cuh"

namespace onepass::ops {
namespace {

// The rest-th element of a head that no pair has.
__device__ inline std::uint32_t rest_element(const RopeAngles& a, std::uint32_t rest) {
  if (a.step != 1) return 2 * a.pairs + rest;
  const std::uint32_t between = a.distance - a.pairs;
  return rest < between ? a.pairs + rest : 2 * a.pairs + rest;
}

// A thread turns one pair of all heads [blockIdx.y * heads_per_block, ...) of a row; threads beyond
// the pairs copy the elements that stay.
template <class T>
__device__ void rope(const CudaArgs& args) {
  pdl_launch();
  const RopeParams p = args.params_as<RopeParams>();
  const RopeAngles& a = p.angles;
  const std::uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
  double frequency = 0.0;
  if (i < a.pairs) frequency = turns_per_position(a, i, args.ptr<const float>(2));
  pdl_wait();
  const bool plain = p.positions_are_u32 != 0;
  const DeviceStep step(args.views[1], plain ? 0 : args.bytes[1]);
  const T* x = args.ptr<const T>(0);
  T* out = args.ptr<T>(3);
  const std::uint32_t rest = p.head_dim - 2 * a.pairs;
  if (i >= a.pairs + rest || (i >= a.pairs && x == out)) return;
  const std::uint32_t e0 = i < a.pairs ? i * a.step : rest_element(a, i - a.pairs);
  const std::uint32_t e1 = e0 + a.distance;
  for (std::uint64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
    if (!plain && r >= step.n_rows) return;
    const std::uint32_t position =
        plain ? args.ptr<const std::uint32_t>(1)[r] : step.position(static_cast<std::uint32_t>(r));
    const CosSin turn = rotation(a, frequency, position);
    for (std::uint64_t h = blockIdx.z; h < p.heads; h += gridDim.z) {
      const std::uint64_t at = (r * p.heads + h) * p.head_dim;
      if (i >= a.pairs) {
        out[at + e0] = x[at + e0];
        continue;
      }
      const float x0 = as_float(x[at + e0]), x1 = as_float(x[at + e1]);
      out[at + e0] = round_to<T>(turned_0(turn, x0, x1));
      out[at + e1] = round_to<T>(turned_1(turn, x0, x1));
    }
  }
}

enum Slot { q, q_norm, k, k_norm, v, steps, factors, pages, q_out, k_cache, v_cache };

constexpr std::uint32_t max_dim = 512;

// One head of one row, by a warp. Lane l has the pairs l, l + 32, ..., at most Pairs of them, and
// every 32nd of the other elements.
template <int Pairs>
struct Head {
  const float* x;
  float x0[Pairs], x1[Pairs];

  __device__ Head(const RopeAngles& a, const float* from) : x(from) {
#pragma unroll
    for (int j = 0; j < Pairs; ++j) {
      const std::uint32_t i = threadIdx.x % 32 + 32 * j;
      x0[j] = i < a.pairs ? x[i * a.step] : 0.0f;
      x1[j] = i < a.pairs ? x[i * a.step + a.distance] : 0.0f;
    }
  }

  // Normed where there is a weight, turned; element e goes to put(e, value).
  template <class Put>
  __device__ void turn(const RopeStoreParams& p, const double (&frequencies)[Pairs],
                       const float* weight, float eps, std::uint32_t position,
                       const Put& put) const {
    const RopeAngles& a = p.angles;
    const std::uint32_t lane = threadIdx.x % 32;
    float r = 1.0f;
    if (weight != nullptr) {
      // In the order of norm/cuda.cu.
      float sum = 0.0f;
      for (std::uint32_t e = lane; e < p.head_dim; e += 32) sum = fmaf(x[e], x[e], sum);
      r = 1.0f / op_sqrt(warp_sum(sum) / static_cast<float>(p.head_dim) + eps);
    }
    const auto normed = [&](float value, std::uint32_t e) {
      return weight != nullptr ? value * r * weight[e] : value;
    };
#pragma unroll
    for (int j = 0; j < Pairs; ++j) {
      const std::uint32_t i = lane + 32 * j;
      if (i >= a.pairs) break;
      const CosSin turn = rotation(a, frequencies[j], position);
      const std::uint32_t e0 = i * a.step, e1 = e0 + a.distance;
      const float y0 = normed(x0[j], e0), y1 = normed(x1[j], e1);
      put(e0, turned_0(turn, y0, y1));
      put(e1, turned_1(turn, y0, y1));
    }
    for (std::uint32_t rest = lane; rest < p.head_dim - 2 * a.pairs; rest += 32) {
      const std::uint32_t e = rest_element(a, rest);
      put(e, normed(x[e], e));
    }
  }
};

// Heads of all rows are numbered row by row, those of q before those of k and v, and dealt out to
// the warps of the grid. Queries go to q_out, keys and values to their place in the cache. A key
// for a q8_0 cache is put together in shared memory first: its blocks need all their elements.
template <int Pairs>
__device__ inline void store_heads(const CudaArgs& args, const RopeStoreParams& p,
                                   float (*buffers)[max_dim]) {
  const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  double frequencies[Pairs];
#pragma unroll
  for (int j = 0; j < Pairs; ++j) {
    const std::uint32_t i = lane + 32 * j;
    frequencies[j] =
        i < p.angles.pairs ? turns_per_position(p.angles, i, args.ptr<const float>(factors)) : 0.0;
  }
  pdl_wait();
  const std::uint64_t n_pages = args.bytes[pages] / 4;
  const DevicePlaces places{p.slots,
                            p.kv_heads,
                            p.capacity,
                            p.ring != 0,
                            n_pages != 0 ? args.ptr<const std::uint32_t>(pages) : nullptr,
                            n_pages};
  const std::uint32_t q_heads = args.views[q] != nullptr ? p.heads : 0;
  const std::uint32_t k_heads = args.views[k] != nullptr ? p.kv_heads : 0;
  const std::uint32_t v_heads = args.views[v] != nullptr ? p.kv_heads : 0;
  const std::uint32_t all = q_heads + k_heads + v_heads;
  const std::uint64_t n = std::uint64_t{p.rows} * all;
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (blockDim.x / 32);
  for (std::uint64_t at = std::uint64_t{blockIdx.x} * (blockDim.x / 32) + warp; at < n;
       at += warps) {
    const std::uint32_t r = static_cast<std::uint32_t>(at / all);
    std::uint32_t head = static_cast<std::uint32_t>(at % all);
    const StepEntry step = read_step(args.views[steps], args.bytes[steps], p.rows, r);
    const bool is_query = head < q_heads;
    if (!is_query) head -= q_heads;
    const bool is_key = !is_query && head < k_heads;
    if (!is_query && !is_key) head -= k_heads;
    const std::uint64_t first =
        (std::uint64_t{r} * (is_query ? p.heads : p.kv_heads) + head) * p.head_dim;
    const float* x = args.ptr<const float>(is_query ? q : is_key ? k : v) + first;
    const Head<Pairs> values(p.angles, x);
    if (!step.active) continue;
    if (is_query) {
      float* out = args.ptr<float>(q_out) + first;
      values.turn(p, frequencies, args.ptr<const float>(q_norm), p.q_eps, step.position,
                  [out](std::uint32_t e, float y) { out[e] = y; });
      continue;
    }
    std::uint64_t place;
    if (places.pages != nullptr && !step.has_slot) continue;
    if (!places.find(step.slot, step.page_offset, head, step.position, place)) continue;
    const DType type = static_cast<DType>(is_key ? p.k_type : p.v_type);
    std::uint8_t* row = args.ptr<std::uint8_t>(is_key ? k_cache : v_cache) +
                        place * device_cache_row_bytes(type, p.head_dim);
    if (!is_key) {
      store_cache_row(type, row, p.head_dim, [x](std::uint32_t e) { return x[e]; });
    } else if (type == DType::q8_0) {
      float* buffer = buffers[warp];
      __syncwarp();
      values.turn(p, frequencies, args.ptr<const float>(k_norm), p.k_eps, step.position,
                  [buffer](std::uint32_t e, float y) { buffer[e] = y; });
      __syncwarp();
      store_cache_row(type, row, p.head_dim, [buffer](std::uint32_t e) { return buffer[e]; });
    } else {
      values.turn(p, frequencies, args.ptr<const float>(k_norm), p.k_eps, step.position,
                  [=](std::uint32_t e, float y) { store_cache_element(type, row, e, y); });
    }
  }
}

}  // namespace
}  // namespace onepass::ops

#define ROPE_KERNEL(name, T)                                 \
  extern "C" __global__ void __launch_bounds__(256)          \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    onepass::ops::rope<T>(args);                             \
  }
ROPE_KERNEL(rope_f32, float)
ROPE_KERNEL(rope_f16, onepass::ops::Half)
ROPE_KERNEL(rope_bf16, onepass::ops::Bfloat)

extern "C" __global__ void __launch_bounds__(128)
    rope_store(const __grid_constant__ onepass::CudaArgs args) {
  using namespace onepass::ops;
  __shared__ float buffers[4][max_dim];
  pdl_launch();
  const RopeStoreParams p = args.params_as<RopeStoreParams>();
  if (p.angles.pairs <= 32) {
    store_heads<1>(args, p, buffers);
  } else if (p.angles.pairs <= 64) {
    store_heads<2>(args, p, buffers);
  } else {
    store_heads<8>(args, p, buffers);
  }
}
