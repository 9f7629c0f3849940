// Question D: products of many rows on the tensor cores of compute capability 9.0. Both operands
// arrive quantized, become f16 in registers and lie in shared memory as wgmma reads them, while the
// product of the step before runs.
#include <cstring>

#include "common.cuh"

namespace bench {
namespace {

constexpr int tile_m = 128, tile_n = 128, tile_k = 64, stages = 3, threads = 256;
constexpr int tile_bytes = tile_m * tile_k * 2;  // of one operand; a row is 128 bytes
constexpr int stage_bytes = 2 * tile_bytes;
constexpr int shared_bytes = 1024 + stages * stage_bytes + tile_m * 4;  // aligned to 1024 inside

struct DenseArgs {
  const std::uint8_t* x;        // q8a: k numbers, then scale and sums per 32
  const std::uint8_t* numbers;  // [n][k * bits / 8]
  const __half* scales;         // [n][k / 32]
  float* out;                   // [m][n]
  int m, n, k;
};

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
// Rows of 128 bytes whose 16-byte pieces lie at piece ^ (row % 8), groups of 8 rows one after the
// other.
__device__ __forceinline__ std::uint64_t operand(std::uint32_t address) {
  return static_cast<std::uint64_t>(address >> 4 & 0x3fff) | std::uint64_t{1} << 16 |
         std::uint64_t{64} << 32 | std::uint64_t{1} << 62;
}
__device__ __forceinline__ void wgmma_m64n128k16(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b));
}

__device__ __forceinline__ __half2 as_half2(std::uint32_t bits) {
  __half2 h;
  memcpy(&h, &bits, 4);
  return h;
}
__device__ __forceinline__ std::uint32_t bits_of(__half2 h) {
  std::uint32_t bits;
  memcpy(&bits, &h, 4);
  return bits;
}
// Four unsigned bytes minus `zero`, times the scale.
__device__ __forceinline__ uint2 four_values(std::uint32_t bytes, __half2 zero, __half2 scale) {
  const __half2 low = __hsub2(as_half2(__byte_perm(bytes, 0x64646464u, 0x4140)), zero);
  const __half2 high = __hsub2(as_half2(__byte_perm(bytes, 0x64646464u, 0x4342)), zero);
  return make_uint2(bits_of(__hmul2(low, scale)), bits_of(__hmul2(high, scale)));
}
// 16-byte piece of a row in an operand's tile.
__device__ __forceinline__ void store_piece(unsigned char* tile, int row, int piece, uint2 a,
                                            uint2 b) {
  *reinterpret_cast<uint4*>(tile + row * 128 + ((piece ^ (row & 7)) << 4)) =
      make_uint4(a.x, a.y, b.x, b.y);
}

// What a thread brings per step: 32 values of a row of x and of a row of weights.
template <int Bits>
struct Raw {
  uint4 x[2], w[Bits / 4];
  float dx;
  __half dw;
};

template <int Bits>
__device__ __forceinline__ Raw<Bits> load(const DenseArgs& a, int m, int n, int block) {
  Raw<Bits> raw;
  const std::uint8_t* x = a.x + static_cast<std::size_t>(m) * (a.k / 32 * 40);
  const uint4* numbers = reinterpret_cast<const uint4*>(x + 32 * block);
  raw.x[0] = __ldg(numbers);
  raw.x[1] = __ldg(numbers + 1);
  raw.dx = __ldg(reinterpret_cast<const float*>(x + a.k + 8 * block));
  const uint4* w = reinterpret_cast<const uint4*>(
      a.numbers + static_cast<std::size_t>(n) * a.k * Bits / 8 + block * (4 * Bits));
  for (int i = 0; i < Bits / 4; ++i) raw.w[i] = __ldg(w + i);
  raw.dw = __ldg(a.scales + static_cast<std::size_t>(n) * (a.k / 32) + block);
  return raw;
}

// 32 signed bytes of a row.
__device__ __forceinline__ void store_bytes(const uint4 (&bytes)[2], __half2 scale,
                                            unsigned char* tile, int row, int half) {
  const __half2 zero = __float2half2_rn(1152.0f);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t words[4] = {bytes[i].x ^ 0x80808080u, bytes[i].y ^ 0x80808080u,
                                    bytes[i].z ^ 0x80808080u, bytes[i].w ^ 0x80808080u};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      store_piece(tile, row, 4 * half + 2 * i + j, four_values(words[2 * j], zero, scale),
                  four_values(words[2 * j + 1], zero, scale));
    }
  }
}

template <int Bits>
__device__ __forceinline__ void store(const Raw<Bits>& raw, float x_scale, unsigned char* stage,
                                      int row, int half) {
  store_bytes(raw.x, __float2half2_rn(raw.dx * x_scale), stage, row, half);
  unsigned char* tile = stage + tile_bytes;
  const __half2 dw = __half2half2(raw.dw);
  if constexpr (Bits == 8) {
    store_bytes(raw.w, dw, tile, row, half);
  } else {
    const __half2 zero = __float2half2_rn(1032.0f);
    const std::uint32_t words[4] = {raw.w[0].x, raw.w[0].y, raw.w[0].z, raw.w[0].w};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const std::uint32_t a = words[2 * j], b = words[2 * j + 1];
      store_piece(tile, row, 4 * half + j, four_values(a & 0x0f0f0f0fu, zero, dw),
                  four_values(b & 0x0f0f0f0fu, zero, dw));
      store_piece(tile, row, 4 * half + 2 + j, four_values(a >> 4 & 0x0f0f0f0fu, zero, dw),
                  four_values(b >> 4 & 0x0f0f0f0fu, zero, dw));
    }
  }
}

// m, n multiples of 128, k of 64. Parts: 1 loads, 2 conversion, 4 products; others leave steps out.
template <int Bits, int Parts>
__global__ void __launch_bounds__(threads) dense(const __grid_constant__ DenseArgs a) {
  extern __shared__ unsigned char unaligned[];
  unsigned char* shared =
      unaligned + ((1024 - (__cvta_generic_to_shared(unaligned) & 1023)) & 1023);
  float* row_scale = reinterpret_cast<float*>(shared + stages * stage_bytes);
  const int tiles_m = a.m / tile_m;
  const int first_m = static_cast<int>(blockIdx.x) % tiles_m * tile_m;
  const int first_n = static_cast<int>(blockIdx.x) / tiles_m * tile_n;
  const int row = static_cast<int>(threadIdx.x) / 2, half = static_cast<int>(threadIdx.x) % 2;
  const int steps = a.k / tile_k;

  Raw<Bits> raw = load<Bits>(a, first_m + row, first_n + row, half);
  // The largest scale of a row becomes 1, so that f16 holds what f32 held.
  float largest = 0.0f;
  const float* tails = reinterpret_cast<const float*>(
      a.x + static_cast<std::size_t>(first_m + row) * (a.k / 32 * 40) + a.k);
  for (int b = half; b < a.k / 32; b += 2) largest = fmaxf(largest, __ldg(tails + 2 * b));
  largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
  const float x_scale = largest > 0.0f ? 1.0f / largest : 0.0f;
  if (half == 0) row_scale[row] = largest;

  float acc[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) acc[i] = 0.0f;
  store<Bits>(raw, x_scale, shared, row, half);
  if (steps > 1) raw = load<Bits>(a, first_m + row, first_n + row, 2 + half);
  const int group = static_cast<int>(threadIdx.x) / 128;
  const std::uint32_t base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  for (int step = 0; step < steps; ++step) {
    // Stage step + 1 was read by the product of step - 2.
    if constexpr (Parts & 4) wgmma_wait<1>();
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if constexpr (Parts & 4) {
      const std::uint32_t at = base + static_cast<std::uint32_t>(step % stages * stage_bytes);
      wgmma_fence();
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        wgmma_m64n128k16(acc, operand(at + static_cast<std::uint32_t>(group) * 8192 + 32 * i),
                         operand(at + tile_bytes + 32 * i));
      }
      wgmma_commit();
    }
    if (step + 1 < steps) {
      if constexpr (Parts & 2) {
        store<Bits>(raw, x_scale, shared + (step + 1) % stages * stage_bytes, row, half);
      }
      if constexpr (Parts & 1) {
        if (step + 2 < steps) {
          raw = load<Bits>(a, first_m + row, first_n + row, 2 * (step + 2) + half);
        }
      }
    }
  }
  if constexpr (Parts & 4) wgmma_wait<0>();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = 16 * warp + lane / 4 + 8 * h;
    const float scale = row_scale[r];
    float* to = a.out + static_cast<std::size_t>(first_m + r) * a.n + first_n + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      *reinterpret_cast<float2*>(to + 8 * j) =
          make_float2(acc[4 * j + 2 * h] * scale, acc[4 * j + 2 * h + 1] * scale);
    }
  }
}

template <int Bits, int Parts>
double time_dense(cudaStream_t stream, const DenseArgs& args) {
  BENCH_CHECK(cudaFuncSetAttribute(dense<Bits, Parts>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   shared_bytes));
  Graph graph;
  graph.add(dense<Bits, Parts>, dim3(static_cast<unsigned>(args.m / tile_m * (args.n / tile_n))),
            dim3(threads), shared_bytes, args);
  if (!graph.instantiate(stream)) {
    std::printf("  graph: %s\n", graph.error());
    return 0.0;
  }
  return graph.median_us(stream, 11);
}

template <int Bits>
void run_shape(cudaStream_t stream, std::FILE* csv, int m, int n, int k) {
  const std::size_t blocks = static_cast<std::size_t>(k) / 32, x_row = blocks * 40;
  std::vector<std::uint8_t> x(static_cast<std::size_t>(m) * x_row);
  std::vector<std::uint8_t> w(static_cast<std::size_t>(n) * static_cast<std::size_t>(k) * Bits / 8);
  std::vector<__half> scales(static_cast<std::size_t>(n) * blocks);
  parallel_for(static_cast<std::size_t>(m), [&, xs = x.data()](std::size_t r) {
    for (std::size_t b = 0; b < blocks; ++b) {
      for (std::size_t i = 0; i < 32; ++i) {
        xs[r * x_row + 32 * b + i] = static_cast<std::uint8_t>(
            random_u32(1, static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(32 * b + i)) %
                255 -
            127);
      }
      const float d =
          1e-3f * (1.0f + static_cast<float>(random_u32(2, static_cast<std::uint32_t>(r),
                                                        static_cast<std::uint32_t>(b)) %
                                             1000));
      std::memcpy(xs + r * x_row + static_cast<std::size_t>(k) + 8 * b, &d, 4);
    }
  });
  parallel_for(static_cast<std::size_t>(n), [&, ws = w.data(), ss = scales.data()](std::size_t r) {
    const std::size_t bytes = static_cast<std::size_t>(k) * Bits / 8;
    for (std::size_t i = 0; i < bytes; ++i) {
      ws[r * bytes + i] = static_cast<std::uint8_t>(
          random_u32(3, static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(i)));
    }
    for (std::size_t b = 0; b < blocks; ++b) {
      ss[r * blocks + b] = __float2half(
          1e-3f * (1.0f + static_cast<float>(random_u32(4, static_cast<std::uint32_t>(r),
                                                        static_cast<std::uint32_t>(b)) %
                                             30)));
    }
  });
  Device<std::uint8_t> dx(x.size()), dw(w.size());
  Device<__half> ds(scales.size());
  Device<float> out(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  dx.set(x);
  dw.set(w);
  ds.set(scales);
  out.fill_bytes(0xff);
  const DenseArgs args{dx.data, dw.data, ds.data, out.data, m, n, k};
  const double all = time_dense<Bits, 7>(stream, args);
  const std::vector<float> got = out.get();
  std::vector<double> ref;
  std::vector<float> picked;
  for (std::uint32_t i = 0; i < 400; ++i) {
    const std::size_t r = random_u32(5, i, 0) % static_cast<std::uint32_t>(m);
    const std::size_t c = random_u32(5, i, 1) % static_cast<std::uint32_t>(n);
    double sum = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      float d;
      std::memcpy(&d, x.data() + r * x_row + static_cast<std::size_t>(k) + 8 * b, 4);
      double part = 0;
      for (std::size_t j = 0; j < 32; ++j) {
        const std::size_t row = c * static_cast<std::size_t>(k) * Bits / 8;
        const int q = Bits == 4 ? (w[row + 16 * b + j % 16] >> (j / 16 * 4) & 15) - 8
                                : static_cast<std::int8_t>(w[row + 32 * b + j]);
        part += static_cast<double>(static_cast<std::int8_t>(x[r * x_row + 32 * b + j])) * q;
      }
      sum +=
          part * static_cast<double>(d) * static_cast<double>(__half2float(scales[c * blocks + b]));
    }
    ref.push_back(sum);
    picked.push_back(got[r * static_cast<std::size_t>(n) + c]);
  }
  const double error = relative_error(ref, picked.data());
  expect(error < 1e-3, "dense q" + std::to_string(Bits), error, 1e-3);
  const double loads = time_dense<Bits, 1>(stream, args),
               convert = time_dense<Bits, 3>(stream, args);
  const double products = time_dense<Bits, 4>(stream, args);
  const double flops = 2.0 * m * n * k;
  std::printf(
      "q%d %4d x %5d x %5d: %7.1f us, %5.0f TFLOP/s; loads %6.1f, and conversion %6.1f, products "
      "%6.1f us; error %.1e\n",
      Bits, m, n, k, all, flops / all * 1e-6, loads, convert, products, error);
  if (csv) {
    std::fprintf(csv, "dense,q%d,%d,%d,%d,%.2f,%.2f,%.2f,%.2f,%.3g\n", Bits, m, n, k, all, loads,
                 convert, products, error);
  }
}

}  // namespace

void run_dense(cudaStream_t stream, std::FILE* csv) {
  std::printf("D: products of 512 rows, f16 in shared memory, wgmma\n");
  const int shapes[][2] = {{4096, 4096}, {6144, 4096}, {28672, 4096}, {4096, 14336},
                           {2048, 2048}, {3072, 2048}, {16384, 2048}, {2048, 8192}};
  for (const auto& s : shapes) {
    run_shape<4>(stream, csv, 512, s[0], s[1]);
    run_shape<8>(stream, csv, 512, s[0], s[1]);
  }
}

}  // namespace bench
