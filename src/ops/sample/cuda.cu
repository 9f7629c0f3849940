// The largest numbers of rows, sorted, and what is drawn from them. Keys are those of cpu_select.h:
// all different, so that no order of work shows in a result.
#include "backends/cuda/args.h"
#include "ops/sample/launch_cuda.h"
#include "ops/sample/params.h"
#include "ops/shared/cuda_elements.cuh"
#include "ops/shared/cuda_step.cuh"
#include "ops/shared/philox.h"

namespace onepass::ops {
namespace {

using Key = unsigned long long;

// An unsigned number that is larger for larger x: a float's bits, with the sign bit flipped where
// it is positive and all bits flipped where it is negative. 0 for what is not a number.
__device__ inline std::uint32_t order_of(float x) {
  const std::uint32_t bits = __float_as_uint(x + 0.0f);
  const std::uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return x == x ? order : 0u;
}
// The order above, the id below, inverted: of equal numbers the lowest id has the largest key.
__device__ inline Key key_of(float x, std::uint32_t id) { return Key{order_of(x)} << 32 | ~id; }
__device__ inline std::uint32_t id_of(Key key) { return ~static_cast<std::uint32_t>(key); }
__device__ inline float value_of(Key key) {
  const auto order = static_cast<std::uint32_t>(key >> 32);
  return __uint_as_float((order & 0x80000000u) != 0 ? order ^ 0x80000000u : ~order);
}

// The largest key of the block, in thread 0.
__device__ inline Key block_max(Key key) {
  __shared__ Key tops[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int m = 16; m > 0; m /= 2) {
    const Key other = __shfl_xor_sync(0xffffffffu, key, m);
    key = other > key ? other : key;
  }
  __syncthreads();
  if (lane == 0) tops[warp] = key;
  __syncthreads();
  if (warp != 0) return 0;
  key = lane < blockDim.x / 32 ? tops[lane] : 0;
#pragma unroll
  for (int m = 16; m > 0; m /= 2) {
    const Key other = __shfl_xor_sync(0xffffffffu, key, m);
    key = other > key ? other : key;
  }
  return key;
}

// The largest number of each row: blockIdx.x part of it, the last block to finish combines.
__device__ void largest_of_rows(const CudaArgs& args, std::uint32_t rows, std::uint32_t cols,
                                std::uint32_t* out) {
  __shared__ bool is_last;
  const float* x = args.ptr<const float>(0);
  const bool wide = cols % 4 == 0 && is_aligned_4(x);
  const std::uint32_t parts = gridDim.x;
  for (std::uint32_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const float* from = x + std::uint64_t{row} * cols;
    std::uint32_t best = 0, best_id = 0xffffffffu;
    const auto look = [&](float value, std::uint32_t id) {
      const std::uint32_t order = order_of(value);
      if (order > best || best_id == 0xffffffffu) {
        best = order;
        best_id = id;
      }
    };
    const std::uint64_t step = std::uint64_t{4} * parts * blockDim.x;
    for (std::uint64_t i = std::uint64_t{4} * (blockIdx.x * blockDim.x + threadIdx.x); i < cols;
         i += step) {
      const float4 v = load_row_4(from, i, cols, wide);
      const auto id = static_cast<std::uint32_t>(i);
      look(v.x, id);
      if (i + 1 < cols) look(v.y, id + 1);
      if (i + 2 < cols) look(v.z, id + 2);
      if (i + 3 < cols) look(v.w, id + 3);
    }
    Key key = block_max(Key{best} << 32 | ~best_id);
    if (parts > 1) {
      Key* keys = static_cast<Key*>(args.scratch) + std::uint64_t{row} * parts;
      auto* counter = static_cast<std::uint32_t*>(args.persistent) + row;
      if (threadIdx.x == 0) {
        keys[blockIdx.x] = key;
        __threadfence();
        is_last = atomicAdd(counter, 1u) + 1 == parts;
        __threadfence();
      }
      __syncthreads();
      if (!is_last) continue;
      key = 0;
      for (std::uint32_t i = threadIdx.x; i < parts; i += blockDim.x) {
        const Key other = __ldcg(keys + i);
        key = other > key ? other : key;
      }
      key = block_max(key);
      if (threadIdx.x == 0) *counter = 0;
    }
    if (threadIdx.x == 0) out[row] = id_of(key);
  }
}

// Sorts n keys, a power of two, in shared memory, largest first: a bitonic sort. Runs of `size`
// keys become sorted, falling and rising in turn; each step compares keys that are `stride` apart.
__device__ inline void sort_shared(Key* keys, std::uint32_t n) {
  for (std::uint32_t size = 2; size <= n; size *= 2) {
    for (std::uint32_t stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (std::uint32_t i = threadIdx.x; i < n / 2; i += blockDim.x) {
        const std::uint32_t low = 2 * i - i % stride, high = low + stride;
        const bool falls = (low & size) == 0;
        const Key a = keys[low], b = keys[high];
        if ((a < b) == falls) {
          keys[low] = b;
          keys[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

struct SelectMemory {
  Key keys[select_shared];
  std::uint32_t counts[256];
  std::uint32_t warp_counts[32][256];
  float weights[1024];
  std::uint32_t count, digit, need;
};

// The bin that holds the need-th largest of the counted ones, and how many are needed of it.
__device__ inline void find_bin(SelectMemory& m) {
  __syncthreads();
  if (threadIdx.x == 0) {
    std::uint32_t need = m.need, bin = 255;
    while (bin > 0 && m.counts[bin] < need) need -= m.counts[bin--];
    m.digit = bin;
    m.need = need;
  }
  __syncthreads();
}

// Sorted keys of the k <= select_shared largest of a row, in m.keys. Finds the k-th largest key
// byte by byte from the top: a histogram of the next byte of all keys that share the bytes found so
// far tells which value the k-th largest has there. Then the keys from it on are collected and
// sorted.
__device__ void select_few(SelectMemory& m, const float* x, std::uint32_t cols, std::uint32_t k,
                           float divisor) {
  Key floor = 0;  // the k-th largest key, or less where that selects the same
  if (cols > select_shared) {
    if (threadIdx.x == 0) m.need = k;
    for (int shift = 56; shift >= 0; shift -= 8) {
      for (std::uint32_t i = threadIdx.x; i < 256; i += blockDim.x) m.counts[i] = 0;
      __syncthreads();
      for (std::uint32_t i = threadIdx.x; i < cols; i += blockDim.x) {
        const Key key = key_of(x[i] / divisor, i);
        // Digits above are those of the floor.
        if (shift == 56 || (key >> shift >> 8) == (floor >> shift >> 8)) {
          atomicAdd(&m.counts[key >> shift & 255], 1u);
        }
      }
      find_bin(m);
      floor |= Key{m.digit} << shift;
      if (m.counts[m.digit] == m.need) break;
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) m.count = 0;
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const Key key = key_of(x[i] / divisor, i);
    if (key >= floor) m.keys[atomicAdd(&m.count, 1u)] = key;
  }
  __syncthreads();
  std::uint32_t room = 1;
  while (room < m.count) room *= 2;
  for (std::uint32_t i = m.count + threadIdx.x; i < room; i += blockDim.x) m.keys[i] = 0;
  sort_shared(m.keys, room);
}

// Sorts a row by four passes over the digits of its values, largest first, equal ones by id: a
// radix sort that keeps the order of equal digits. Per pass, counts[d] is where the next key with
// digit d goes; tile by tile of the block's size, a key's place is that, plus the keys with its
// digit in the warps before (warp_counts) and in the lanes before (rank). keys and other have room
// for cols each; after four swaps the result is in keys.
__device__ void sort_row(SelectMemory& m, const float* x, std::uint32_t cols, float divisor,
                         Key* keys, Key* other) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (std::uint32_t i = threadIdx.x; i < cols; i += blockDim.x) {
    keys[i] = key_of(x[i] / divisor, i);
  }
  for (int shift = 32; shift < 64; shift += 8) {
    for (std::uint32_t i = threadIdx.x; i < 256; i += blockDim.x) m.counts[i] = 0;
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < cols; i += blockDim.x) {
      atomicAdd(&m.counts[keys[i] >> shift & 255], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      std::uint32_t before = 0;
      for (int d = 255; d >= 0; --d) {
        const std::uint32_t n = m.counts[d];
        m.counts[d] = before;  // where the next key with this digit goes
        before += n;
      }
    }
    for (std::uint32_t first = 0; first < cols; first += blockDim.x) {
      for (std::uint32_t i = lane; i < 256; i += 32) m.warp_counts[warp][i] = 0;
      __syncwarp();
      const std::uint32_t i = first + threadIdx.x;
      const bool there = i < cols;
      const Key key = there ? keys[i] : 0;
      // Lanes without a key have a digit of their own.
      const std::uint32_t digit = there ? static_cast<std::uint32_t>(key >> shift & 255) : 256;
      const std::uint32_t peers = __match_any_sync(0xffffffffu, digit);
      const std::uint32_t rank = __popc(peers & ((1u << lane) - 1u));
      if (there && rank == 0) m.warp_counts[warp][digit] = __popc(peers);
      __syncthreads();
      for (std::uint32_t d = threadIdx.x; d < 256; d += blockDim.x) {
        std::uint32_t at = m.counts[d];
        for (unsigned w = 0; w < warps; ++w) {
          const std::uint32_t n = m.warp_counts[w][d];
          m.warp_counts[w][d] = at;
          at += n;
        }
        m.counts[d] = at;
      }
      __syncthreads();
      if (there) other[m.warp_counts[warp][digit] + rank] = key;
      __syncthreads();
    }
    Key* swap = keys;
    keys = other;
    other = swap;
  }
}

// What sort_row and select_few leave.
struct Sorted {
  const Key* keys;
  std::uint32_t count;
};

__device__ Sorted select_row(const CudaArgs& args, SelectMemory& m, std::uint32_t row,
                             std::uint32_t cols, std::uint32_t k, float divisor) {
  const float* x = args.ptr<const float>(0) + std::uint64_t{row} * cols;
  if (k <= select_shared) {
    select_few(m, x, cols, k, divisor);
    return {m.keys, k};
  }
  Key* keys = static_cast<Key*>(args.scratch) + std::uint64_t{2} * blockIdx.x * cols;
  sort_row(m, x, cols, divisor, keys, keys + cols);
  __syncthreads();
  return {keys, k};
}

// Calls add(weight) in thread 0 for keys [0, count) in order, until it returns false: tiles of
// weights are computed by all threads.
template <class Add>
__device__ void each_weight(SelectMemory& m, const Sorted& s, std::uint32_t count, float largest,
                            const Add& add) {
  __shared__ bool go_on;
  for (std::uint32_t first = 0; first < count; first += 1024) {
    const std::uint32_t n = min(count - first, 1024u);
    for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
      const float logit = value_of(s.keys[first + i]);
      const float weight = logit == largest ? 1.0f : op_exp(logit - largest);
      m.weights[i] = weight == weight ? weight : 0.0f;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      bool more = true;
      for (std::uint32_t i = 0; i < n && more; ++i) more = add(m.weights[i]);
      go_on = more;
    }
    __syncthreads();
    if (!go_on) break;
  }
}

// As draw of cpu.cpp; the result is thread 0's. Weights are added in sorted order by one thread, so
// that the token is the CPU's: once for the sum, once each to find where top_p and min_p cut, once
// for the sum of what is left, and once to walk to the drawn token.
__device__ std::uint32_t draw(SelectMemory& m, const Sorted& s, float top_p, float min_p, float u) {
  __shared__ std::uint32_t shared_kept;
  const float largest = value_of(s.keys[0]);
  if (!(largest > -INFINITY)) return id_of(s.keys[0]);
  float sum = 0.0f;
  each_weight(m, s, s.count, largest, [&](float w) {
    sum += w;
    return true;
  });
  std::uint32_t kept = s.count;
  if (top_p < 1.0f) {
    float reached = 0.0f;
    std::uint32_t n = 0;
    each_weight(m, s, s.count, largest, [&](float w) {
      if (n > 0 && reached >= top_p) return false;
      reached += w / sum;
      ++n;
      return true;
    });
    kept = n;
  }
  if (threadIdx.x == 0) shared_kept = kept;
  __syncthreads();
  kept = shared_kept;
  __syncthreads();
  if (min_p > 0.0f) {
    const float floor = min_p * (1.0f / sum);
    std::uint32_t n = 0;
    each_weight(m, s, kept, largest, [&](float w) {
      if (n > 0 && !(w / sum >= floor)) return false;
      ++n;
      return true;
    });
    if (threadIdx.x == 0) shared_kept = n;
    __syncthreads();
    kept = shared_kept;
    __syncthreads();
  }
  float total = 0.0f;
  each_weight(m, s, kept, largest, [&](float w) {
    total += w;
    return true;
  });
  const float target = u * total;
  float passed = 0.0f;
  std::uint32_t at = 0, chosen = kept - 1;
  each_weight(m, s, kept, largest, [&](float w) {
    passed += w;
    if (passed > target) {
      chosen = at;
      return false;
    }
    ++at;
    return true;
  });
  return id_of(s.keys[chosen]);
}

__device__ inline SelectMemory& select_memory() {
  return *reinterpret_cast<SelectMemory*>(dynamic_shared());
}

}  // namespace
static_assert(sizeof(SelectMemory) <= select_shared_bytes);
}  // namespace onepass::ops

extern "C" __global__ void __launch_bounds__(1024)
    argmax_f32(const __grid_constant__ onepass::CudaArgs args) {
  using namespace onepass::ops;
  pdl_launch();
  pdl_wait();
  const ArgmaxParams p = args.params_as<ArgmaxParams>();
  largest_of_rows(args, p.rows, p.cols, args.ptr<std::uint32_t>(1));
}

extern "C" __global__ void __launch_bounds__(1024)
    argsort_f32(const __grid_constant__ onepass::CudaArgs args) {
  using namespace onepass::ops;
  pdl_launch();
  pdl_wait();
  const ArgmaxParams p = args.params_as<ArgmaxParams>();
  SelectMemory& m = select_memory();
  for (std::uint32_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const Sorted s = select_row(args, m, row, p.cols, p.cols, 1.0f);
    std::uint32_t* out = args.ptr<std::uint32_t>(1) + std::uint64_t{row} * p.cols;
    for (std::uint32_t i = threadIdx.x; i < s.count; i += blockDim.x) out[i] = id_of(s.keys[i]);
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(1024)
    top_k_f32(const __grid_constant__ onepass::CudaArgs args) {
  using namespace onepass::ops;
  pdl_launch();
  pdl_wait();
  const TopKParams p = args.params_as<TopKParams>();
  SelectMemory& m = select_memory();
  for (std::uint32_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const Sorted s = select_row(args, m, row, p.cols, p.k, 1.0f);
    const std::uint64_t at = std::uint64_t{row} * p.k;
    for (std::uint32_t i = threadIdx.x; i < s.count; i += blockDim.x) {
      const std::uint32_t id = id_of(s.keys[i]);
      args.ptr<std::uint32_t>(2)[at + i] = id;
      args.ptr<float>(1)[at + i] = args.ptr<const float>(0)[std::uint64_t{row} * p.cols + id];
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(1024)
    sample_f32(const __grid_constant__ onepass::CudaArgs args) {
  using namespace onepass::ops;
  pdl_launch();
  pdl_wait();
  const SampleParams p = args.params_as<SampleParams>();
  const DeviceStep step(args.views[1], args.bytes[1]);
  const std::uint32_t rows = min(p.rows, step.n_rows);
  std::uint32_t* out = args.ptr<std::uint32_t>(2);
  if (p.temperature == 0.0f) {
    largest_of_rows(args, rows, p.cols, out);
    return;
  }
  const std::uint32_t k = p.top_k == 0 || p.top_k > p.cols ? p.cols : p.top_k;
  SelectMemory& m = select_memory();
  for (std::uint32_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Sorted s = select_row(args, m, row, p.cols, k, p.temperature);
    const OpPhilox bits = op_philox(OpPhilox{step.position(row), step.slot(row), 0, 0},
                                    step.seed_lo(), step.seed_hi());
    const std::uint32_t id = draw(m, s, p.top_p, p.min_p, op_unit(bits.x));
    if (threadIdx.x == 0) out[row] = id;
    __syncthreads();
  }
}

// Rows may share a slot.
extern "C" __global__ void __launch_bounds__(128)
    step_advance(const __grid_constant__ onepass::CudaArgs args) {
  using namespace onepass::ops;
  pdl_launch();
  pdl_wait();
  const StepAdvanceParams p = args.params_as<StepAdvanceParams>();
  const DeviceStep step(args.views[1], args.bytes[1]);
  auto* words = args.ptr<std::uint32_t>(1);
  for (std::uint32_t r = blockIdx.x * blockDim.x + threadIdx.x; r < min(p.rows, step.n_rows);
       r += gridDim.x * blockDim.x) {
    const std::uint32_t token = args.ptr<const std::uint32_t>(0)[r];
    const std::uint32_t position = step.position(r) + 1;
    words[step.row_at(r)] = token;
    words[step.row_at(r) + 1] = position;
    if (p.history != 0) {
      args.ptr<std::uint32_t>(2)[std::size_t{r} * p.history + position % p.history] = token;
    }
    const std::uint32_t slot = step.slot(r);
    if (slot < step.n_slots) atomicAdd(&words[step.slot_at(slot)], 1u);
  }
}
