// Bytes from one place to another, in units as wide as addresses and lengths allow.
#include "backends/cuda/args.h"
#include "ops/move/params.h"
#include "ops/shared/cuda_elements.cuh"

namespace onepass::ops {
namespace {

__device__ inline std::uint64_t first_unit() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::uint64_t unit_step() { return std::uint64_t{gridDim.x} * blockDim.x; }

// A number with the low bits of everything that has to be a multiple of a unit.
template <class... Numbers>
__device__ inline std::uint64_t low_bits(Numbers... numbers) {
  return (... | static_cast<std::uint64_t>(numbers));
}
__device__ inline std::uint64_t address(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

// Calls f(unit) with a value of the widest type that divides `bits`.
template <class F>
__device__ inline void with_unit(std::uint64_t bits, const F& f) {
  if (bits % 16 == 0) {
    f(uint4{});
  } else if (bits % 4 == 0) {
    f(std::uint32_t{});
  } else if (bits % 2 == 0) {
    f(std::uint16_t{});
  } else {
    f(std::uint8_t{});
  }
}

__device__ void copy(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const CopyParams p = args.params_as<CopyParams>();
  const std::uint64_t bytes = std::uint64_t{p.bytes_hi} << 32 | p.bytes_lo;
  with_unit(low_bits(address(args.views[0]), address(args.views[1]), bytes), [&](auto unit) {
    using Unit = decltype(unit);
    for (std::uint64_t i = first_unit(); i < bytes / sizeof(Unit); i += unit_step()) {
      args.ptr<Unit>(1)[i] = args.ptr<const Unit>(0)[i];
    }
  });
}

__device__ void gather(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const GatherParams p = args.params_as<GatherParams>();
  with_unit(low_bits(address(args.views[0]), address(args.views[2]), p.row_bytes), [&](auto unit) {
    using Unit = decltype(unit);
    const std::uint64_t width = p.row_bytes / sizeof(Unit), n = p.rows * width;
    for (std::uint64_t i = first_unit(); i < n; i += unit_step()) {
      const std::uint64_t from =
          min(args.ptr<const std::uint32_t>(1)[i / width], p.source_rows - 1);
      args.ptr<Unit>(2)[i] = args.ptr<const Unit>(0)[from * width + i % width];
    }
  });
}

// Squares of 32 x 32 elements through shared memory. blockIdx: columns / 32, rows / 32, batch.
template <class T>
__device__ inline void transpose_squares(const CudaArgs& args, const TransposeParams& p) {
  __shared__ T square[32][33];
  const std::uint64_t matrix = std::uint64_t{p.rows} * p.cols;
  const std::uint32_t squares_y = (p.rows + 31) / 32;
  for (std::uint64_t b = blockIdx.z; b < p.batch; b += gridDim.z) {
    const T* x = args.ptr<const T>(0) + b * matrix;
    T* out = args.ptr<T>(1) + b * matrix;
    for (std::uint32_t y = blockIdx.y; y < squares_y; y += gridDim.y) {
      const std::uint64_t r0 = std::uint64_t{32} * y, c0 = std::uint64_t{32} * blockIdx.x;
      const std::uint32_t tx = threadIdx.x % 32, ty = threadIdx.x / 32;
      __syncthreads();
      for (std::uint32_t i = ty; i < 32; i += blockDim.x / 32) {
        if (r0 + i < p.rows && c0 + tx < p.cols) square[i][tx] = x[(r0 + i) * p.cols + c0 + tx];
      }
      __syncthreads();
      for (std::uint32_t i = ty; i < 32; i += blockDim.x / 32) {
        if (c0 + i < p.cols && r0 + tx < p.rows) out[(c0 + i) * p.rows + r0 + tx] = square[tx][i];
      }
    }
  }
}

// Units of any size: whole units are moved, their bytes one after the other.
__device__ inline void transpose_units(const CudaArgs& args, const TransposeParams& p) {
  const std::uint64_t bits = low_bits(address(args.views[0]), address(args.views[1]), p.unit);
  with_unit(bits, [&](auto unit) {
    using Unit = decltype(unit);
    const std::uint64_t width = p.unit / sizeof(Unit), matrix = std::uint64_t{p.rows} * p.cols;
    const std::uint64_t n = p.batch * matrix * width;
    const std::uint64_t blocks = std::uint64_t{gridDim.x} * gridDim.y * gridDim.z;
    const std::uint64_t block =
        (std::uint64_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    for (std::uint64_t i = block * blockDim.x + threadIdx.x; i < n; i += blocks * blockDim.x) {
      // i counts outputs: [batch, cols, rows, unit].
      const std::uint64_t part = i % width, at = i / width, b = at / matrix, place = at % matrix;
      const std::uint64_t c = place / p.rows, r = place % p.rows;
      args.ptr<Unit>(1)[i] = args.ptr<const Unit>(0)[(b * matrix + r * p.cols + c) * width + part];
    }
  });
}

__device__ void transpose(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const TransposeParams p = args.params_as<TransposeParams>();
  const std::uint64_t bits = low_bits(address(args.views[0]), address(args.views[1]));
  if (p.unit == 4 && bits % 4 == 0) {
    transpose_squares<std::uint32_t>(args, p);
  } else if (p.unit == 2 && bits % 2 == 0) {
    transpose_squares<std::uint16_t>(args, p);
  } else {
    transpose_units(args, p);
  }
}

__device__ void columns(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const ColumnsParams p = args.params_as<ColumnsParams>();
  const std::uint64_t bits = low_bits(address(args.views[0]), address(args.views[1]), p.from,
                                      p.from_stride, p.to, p.to_stride, p.bytes);
  with_unit(bits, [&](auto unit) {
    using Unit = decltype(unit);
    constexpr std::uint64_t size = sizeof(Unit);
    const std::uint64_t width = p.bytes / size, n = p.rows * width;
    for (std::uint64_t i = first_unit(); i < n; i += unit_step()) {
      const std::uint64_t r = i / width, c = i % width;
      args.ptr<Unit>(1)[(r * p.to_stride + p.to) / size + c] =
          args.ptr<const Unit>(0)[(r * p.from_stride + p.from) / size + c];
    }
  });
}

__device__ void concat(const CudaArgs& args) {
  pdl_launch();
  pdl_wait();
  const ConcatParams p = args.params_as<ConcatParams>();
  const std::uint64_t bits = low_bits(address(args.views[0]), address(args.views[1]),
                                      address(args.views[2]), p.a_bytes, p.b_bytes);
  with_unit(bits, [&](auto unit) {
    using Unit = decltype(unit);
    const std::uint64_t a = p.a_bytes / sizeof(Unit), b = p.b_bytes / sizeof(Unit);
    const std::uint64_t n = p.rows * (a + b);
    for (std::uint64_t i = first_unit(); i < n; i += unit_step()) {
      const std::uint64_t r = i / (a + b), c = i % (a + b);
      args.ptr<Unit>(2)[i] =
          c < a ? args.ptr<const Unit>(0)[r * a + c] : args.ptr<const Unit>(1)[r * b + c - a];
    }
  });
}

}  // namespace
}  // namespace onepass::ops

#define MOVE_KERNEL(name, body)                              \
  extern "C" __global__ void __launch_bounds__(256)          \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    onepass::ops::body(args);                                \
  }
MOVE_KERNEL(copy_bytes, copy)
MOVE_KERNEL(gather_rows, gather)
MOVE_KERNEL(transpose_matrices, transpose)
MOVE_KERNEL(copy_columns, columns)
MOVE_KERNEL(concat_rows, concat)
