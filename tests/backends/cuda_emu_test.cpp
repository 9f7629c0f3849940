#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

// The language of the kernel headers below.
// clang-format off
#include "support/cuda_emu/kernel.h"
// clang-format on

#include "backends/cuda/cuda.h"
#include "graph/validate.h"
#include "onepass/ops.h"
#include "ops/shared/cuda.cuh"
#include "ops/shared/cuda_ptx.cuh"
#include "support/cuda_emu/backend.h"

namespace onepass {
namespace {

using emu::KernelFn;
using emu::KernelLaunch;
using ::testing::HasSubstr;

constexpr std::uint32_t threads = 96;

struct Outcome {
  std::vector<float> out;
  emu::Failure failure;
};

// View 0: out, floats; view 1: what the kernel reads.
Outcome run(KernelFn kernel, std::vector<float> in, std::size_t n_out, KernelLaunch launch = {}) {
  Outcome r{std::vector<float>(n_out, -1.0f), {}};
  CudaArgs args{};
  args.views[0] = r.out.data();
  args.bytes[0] = 4 * n_out;
  args.views[1] = in.data();
  args.bytes[1] = 4 * in.size();
  launch.name = "kernel";
  launch.n_views = 2;
  if (launch.group[0] == 1) launch.group = {threads, 1, 1};
  r.failure = emu::run_kernel(kernel, args, launch);
  return r;
}

std::vector<float> counting(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i);
  return v;
}

void sum_blocks(CudaArgs args) {
  const float sum = ops::block_sum(args.ptr<float>(1)[blockIdx.x * blockDim.x + threadIdx.x]);
  if (threadIdx.x == 5) args.ptr<float>(0)[blockIdx.x] = sum;
}

TEST(CudaEmu, EveryBlockRunsOnceInAnyOrder) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Outcome r = run(sum_blocks, counting(7 * threads), 7, {.grid = {7, 1, 1}, .seed = seed});
    ASSERT_EQ(r.failure, "");
    for (std::size_t b = 0; b < 7; ++b) {
      const std::size_t first = b * threads, last = first + threads - 1;
      EXPECT_EQ(r.out[b], static_cast<float>((first + last) * threads / 2));
    }
  }
}

template <bool Barrier>
void reverse(CudaArgs args) {
  __shared__ float row[threads];
  row[threadIdx.x] = args.ptr<float>(1)[threadIdx.x];
  if (Barrier) __syncthreads();
  args.ptr<float>(0)[threadIdx.x] = row[threads - 1 - threadIdx.x];
}

TEST(CudaEmu, AMissingBarrierGivesOtherNumbers) {
  std::vector<float> expected = counting(threads);
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(run(reverse<true>, counting(threads), threads).out, expected);
  std::vector<float> other = counting(threads);
  for (float& x : other) x += 1000.0f;
  run(reverse<true>, other, threads);  // what the shared memory holds before
  EXPECT_NE(run(reverse<false>, counting(threads), threads).out, expected);
}

void half_a_barrier(CudaArgs) {
  if (threadIdx.x < 40) __syncthreads();
}
void half_a_shuffle(CudaArgs args) {
  if (threadIdx.x % 32 < 20) args.ptr<float>(0)[0] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
void different_collectives(CudaArgs) {
  if (threadIdx.x % 2 == 0) {
    __syncwarp();
  } else {
    __ballot_sync(0xffffffffu, 1);
  }
}
void shuffle_from_nobody(CudaArgs args) {
  if (threadIdx.x % 32 < 16) args.ptr<float>(0)[0] = __shfl_sync(0xffffu, 1.0f, 20);
}
void lane_outside_its_mask(CudaArgs) { __syncwarp(0xfu); }
void misaligned(CudaArgs args) {
  const float4 v = __ldg(reinterpret_cast<const float4*>(args.ptr<float>(1) + 1));
  args.ptr<float>(0)[0] = v.x;
}

TEST(CudaEmu, WhatWouldHangOrReadGarbageIsAFailure) {
  const struct {
    KernelFn kernel;
    std::vector<const char*> words;
  } cases[] = {
      {half_a_barrier, {"40 wait at __syncthreads", "56 returned"}},
      {half_a_shuffle, {"__shfl_xor_sync", "0xffffffff", "36 returned"}},
      {different_collectives, {"__syncwarp", "__ballot_sync"}},
      {shuffle_from_nobody, {"reads lane 20, which is not there"}},
      {lane_outside_its_mask, {"not in its own mask 0x0000000f"}},
      {misaligned, {"load of 16 bytes", "misaligned"}},
  };
  for (const auto& c : cases) {
    // A float4 starts at a multiple of 16 bytes in a vector of floats; one float on, none does.
    const Outcome r = run(c.kernel, counting(threads + 8), threads);
    EXPECT_THAT(r.failure, HasSubstr("kernel, block (0, 0, 0)"));
    for (const char* words : c.words) EXPECT_THAT(r.failure, HasSubstr(words));
  }
  EXPECT_EQ(run(sum_blocks, counting(threads), 1).failure, "") << "the machine goes on";
  EXPECT_THAT(run(sum_blocks, {}, 1, {.group = {2048, 1, 1}}).failure, HasSubstr("2048 threads"));
}

void collectives(CudaArgs args) {
  float* out = args.ptr<float>(0) + 8 * threadIdx.x;
  const unsigned lane = threadIdx.x % 32, half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  const int value = static_cast<int>(lane) - 7;
  out[0] = __shfl_down_sync(0xffffffffu, static_cast<float>(lane), 3, 8);
  out[1] = __shfl_up_sync(0xffffffffu, static_cast<float>(lane), 2);
  out[2] = static_cast<float>(__reduce_add_sync(half, value));
  out[3] = static_cast<float>(__reduce_min_sync(half, static_cast<unsigned>(lane)));
  out[4] = static_cast<float>(__popc(__ballot_sync(0xffffffffu, lane % 3 == 0)));
  out[5] = static_cast<float>(__shfl_sync(half, lane, 3, 16));
  out[6] = static_cast<float>(__syncthreads_count(threadIdx.x % 5 == 0));
  out[7] = static_cast<float>(__popc(__match_any_sync(0xffffffffu, lane / 8)));
}

TEST(CudaEmu, Collectives) {
  const Outcome r = run(collectives, counting(1), 8 * threads);
  ASSERT_EQ(r.failure, "");
  for (unsigned t = 0; t < threads; ++t) {
    const unsigned lane = t % 32;
    const float* out = r.out.data() + 8 * t;
    EXPECT_EQ(out[0], static_cast<float>(lane % 8 < 5 ? lane + 3 : lane));
    EXPECT_EQ(out[1], static_cast<float>(lane >= 2 ? lane - 2 : lane));
    EXPECT_EQ(out[2], lane < 16 ? 8.0f : 264.0f);
    EXPECT_EQ(out[3], lane < 16 ? 0.0f : 16.0f);
    EXPECT_EQ(out[4], 11.0f);
    EXPECT_EQ(out[5], lane < 16 ? 3.0f : 19.0f);
    EXPECT_EQ(out[6], 20.0f);
    EXPECT_EQ(out[7], 8.0f);
  }
}

template <bool Wait>
void copy_async(CudaArgs args) {
  auto* row = reinterpret_cast<float*>(ops::dynamic_shared());
  ops::async_copy<4>(row + threadIdx.x, args.ptr<float>(1) + threadIdx.x);
  ops::async_commit();
  ops::async_copy<4>(row + threads + threadIdx.x, args.ptr<float>(1) + threadIdx.x, 0);
  ops::async_commit();
  if (Wait) ops::async_wait<1>();
  __syncthreads();
  args.ptr<float>(0)[threadIdx.x] = row[threads - 1 - threadIdx.x];
  args.ptr<float>(0)[threads + threadIdx.x] = row[threads + threadIdx.x];
  __syncthreads();
  ops::async_wait<0>();
  args.ptr<float>(0)[2 * threads + threadIdx.x] = row[threads + threadIdx.x];
}

TEST(CudaEmu, AsynchronousCopiesArriveWhenTheyAreWaitedFor) {
  const KernelLaunch launch{.shared_bytes = 8 * threads};
  const Outcome waited = run(copy_async<true>, counting(threads), 3 * threads, launch);
  const Outcome early = run(copy_async<false>, counting(threads), 3 * threads, launch);
  for (std::size_t i = 0; i < threads; ++i) {
    EXPECT_EQ(waited.out[i], static_cast<float>(threads - 1 - i));
    EXPECT_TRUE(std::isnan(waited.out[threads + i])) << "shared memory starts as garbage";
    EXPECT_EQ(waited.out[2 * threads + i], 0.0f) << "size 0 gives zeros";
    EXPECT_TRUE(std::isnan(early.out[i]));
  }
}

enum class Touch { after, reads_weights, reads_input, writes, never_waits };

template <Touch touch>
void dependent(CudaArgs args) {
  ops::pdl_launch();
  float* out = args.ptr<float>(0);
  const float* in = args.ptr<float>(touch == Touch::reads_weights ? 2 : 1);
  float x = 0.0f;
  if (touch == Touch::reads_weights || touch == Touch::reads_input) x = in[threadIdx.x];
  if (touch == Touch::writes) out[threadIdx.x] = 1.0f;
  if (touch != Touch::never_waits) ops::pdl_wait();
  __syncthreads();
  if (touch == Touch::after || touch == Touch::writes) x = in[threadIdx.x];
  out[threadIdx.x] = x;
}

Outcome run_dependent(KernelFn kernel) {
  Outcome r{std::vector<float>(threads, -1.0f), {}};
  std::vector<float> in = counting(threads), weights = counting(threads);
  CudaArgs args{};
  std::size_t i = 0;
  for (std::vector<float>* v : {&r.out, &in, &weights}) {
    args.views[i] = v->data();
    args.bytes[i++] = 4 * v->size();
  }
  r.failure = emu::run_kernel(kernel, args,
                              {.name = "kernel",
                               .grid = {3, 1, 1},
                               .group = {threads, 1, 1},
                               .waits_first = true,
                               .reads_early = 1u << 2,
                               .n_views = 3});
  EXPECT_EQ(in, counting(threads));
  return r;
}

TEST(CudaEmu, NothingDependentMayBeTouchedBeforeTheWait) {
  for (const KernelFn kernel : {dependent<Touch::after>, dependent<Touch::reads_weights>}) {
    const Outcome r = run_dependent(kernel);
    EXPECT_EQ(r.failure, "");
    EXPECT_EQ(r.out, counting(threads));
  }
  // The first block read garbage, the others wrote the same places again.
  std::vector<float> in = counting(threads);
  Outcome r{std::vector<float>(threads), {}};
  CudaArgs args{};
  args.views[0] = r.out.data();
  args.views[1] = in.data();
  args.bytes[0] = args.bytes[1] = 4 * threads;
  r.failure = emu::run_kernel(
      dependent<Touch::reads_input>, args,
      {.name = "kernel", .group = {threads, 1, 1}, .waits_first = true, .n_views = 2});
  EXPECT_EQ(r.failure, "");
  EXPECT_TRUE(std::isnan(r.out[3]));
  EXPECT_THAT(run_dependent(dependent<Touch::writes>).failure, HasSubstr("wrote memory before"));
  EXPECT_THAT(run_dependent(dependent<Touch::never_waits>).failure, HasSubstr("no thread waited"));
}

// Matrix fragments against the products they stand for. Shared memory holds a [16][K] and
// b [8][K], both of 16-bit numbers: rows of b are columns of the K x 8 matrix.
constexpr int f16_k = 16;

void product_f16(CudaArgs args) {
  auto* a = reinterpret_cast<__half*>(ops::dynamic_shared());
  __half* b = a + 16 * f16_k;
  for (unsigned i = threadIdx.x; i < 24 * f16_k; i += 32) a[i] = __half(args.ptr<float>(1)[i]);
  __syncwarp();
  std::uint32_t x[4], y[2];
  const unsigned lane = threadIdx.x;
  ops::load_matrix_x4(x, a + lane % 16 * f16_k + lane / 16 * 8);
  ops::load_matrix_x2(y, b + lane % 8 * f16_k + lane / 8 % 2 * 8);
  float d[4] = {100.0f, 100.0f, 100.0f, 100.0f};
  ops::mma_f16_k16(d, x, y);
  for (unsigned i = 0; i < 4; ++i) {
    args.ptr<float>(0)[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
  }
}

// b is stored as the K x 8 matrix itself.
void product_transposed(CudaArgs args) {
  auto* a = reinterpret_cast<__half*>(ops::dynamic_shared());
  __half* b = a + 16 * f16_k;
  for (unsigned i = threadIdx.x; i < 24 * f16_k; i += 32) a[i] = __half(args.ptr<float>(1)[i]);
  __syncwarp();
  std::uint32_t x[4], y[2];
  const unsigned lane = threadIdx.x;
  ops::load_matrix_x4(x, a + lane % 16 * f16_k + lane / 16 * 8);
  ops::load_matrix_x2_transposed(y, b + lane % 16 * 8);
  float d[4] = {};
  ops::mma_f16_k16(d, x, y);
  for (unsigned i = 0; i < 4; ++i) {
    args.ptr<float>(0)[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
  }
}

// Lane 4 g + t: a[0] row g, a[1] row g + 8, a[2] and a[3] the same rows 16 bytes further.
template <int K>
void product_s8(CudaArgs args) {
  const float* in = args.ptr<float>(1);
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto pack = [&](unsigned row, unsigned k) {
    std::uint32_t word = 0;
    for (unsigned j = 0; j < 4; ++j) {
      const int v = static_cast<int>(in[row * K + k + j]);
      word |= static_cast<std::uint32_t>(v & 0xff) << (8 * j);
    }
    return word;
  };
  int d[4] = {-5, -5, -5, -5};
  if constexpr (K == 32) {
    const std::uint32_t a[4] = {pack(g, 4 * t), pack(g + 8, 4 * t), pack(g, 4 * t + 16),
                                pack(g + 8, 4 * t + 16)};
    const std::uint32_t b[2] = {pack(16 + g, 4 * t), pack(16 + g, 4 * t + 16)};
    ops::mma_s8_k32(d, a, b);
  } else {
    const std::uint32_t a[2] = {pack(g, 4 * t), pack(g + 8, 4 * t)};
    const std::uint32_t b[1] = {pack(16 + g, 4 * t)};
    ops::mma_s8_k16(d, a, b);
  }
  for (unsigned i = 0; i < 4; ++i) {
    args.ptr<float>(0)[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = static_cast<float>(d[i]);
  }
}

void product_tf32(CudaArgs args) {
  const float* in = args.ptr<float>(1);
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto at = [&](unsigned row, unsigned k) { return __float_as_uint(in[row * 8 + k]); };
  const std::uint32_t a[4] = {at(g, t), at(g + 8, t), at(g, t + 4), at(g + 8, t + 4)};
  const std::uint32_t b[2] = {at(16 + g, t), at(16 + g, t + 4)};
  float d[4] = {};
  ops::mma_tf32_k8(d, a, b);
  for (unsigned i = 0; i < 4; ++i) {
    args.ptr<float>(0)[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
  }
}

TEST(CudaEmu, MatrixFragments) {
  std::mt19937 rng(7);
  const struct {
    KernelFn kernel;
    std::size_t k;
    float start;
    bool b_by_rows;
  } cases[] = {{product_f16, 16, 100.0f, false},
               {product_transposed, 16, 0.0f, true},
               {product_s8<32>, 32, -5.0f, false},
               {product_s8<16>, 16, -5.0f, false},
               {product_tf32, 8, 0.0f, false}};
  for (const auto& c : cases) {
    std::vector<float> in(24 * c.k);
    for (float& x : in) x = static_cast<float>(static_cast<int>(rng() % 255) - 127);
    const Outcome r = run(c.kernel, in, 128, {.group = {32, 1, 1}, .shared_bytes = 48 * f16_k});
    ASSERT_EQ(r.failure, "");
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < 8; ++j) {
        float sum = c.start;
        for (std::size_t k = 0; k < c.k; ++k) {
          const std::size_t b = c.b_by_rows ? 8 * k + j : j * c.k + k;
          sum += in[i * c.k + k] * in[16 * c.k + b];
        }
        EXPECT_EQ(r.out[8 * i + j], sum) << "k " << c.k << ", " << i << ", " << j;
      }
    }
  }
}

TEST(CudaEmu, EveryRowHasItsKernels) {
  std::size_t rows = 0;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    for (const KernelRow& row : image.rows) {
      ++rows;
      const auto* code = std::get_if<CudaSymbol>(&row.code);
      ASSERT_NE(code, nullptr) << row.name;
      EXPECT_NE(dlsym(RTLD_DEFAULT, code->symbol), nullptr) << code->symbol;
      for (const char* variant : code->variants) {
        EXPECT_NE(dlsym(RTLD_DEFAULT, variant), nullptr) << variant;
      }
    }
  }
  EXPECT_GT(rows, 0u);
}

// Three launches over floats: 0 writes x, 1 doubles x, which it reads before it waits, 2 adds one.
extern "C" void emu_test_write(CudaArgs args) {
  ops::pdl_wait();
  args.ptr<float>(0)[threadIdx.x] = 7.0f;
}
extern "C" void emu_test_double_early(CudaArgs args) {
  const float x = args.ptr<float>(0)[threadIdx.x];
  ops::pdl_wait();
  args.ptr<float>(1)[threadIdx.x] = 2.0f * x;
}
extern "C" void emu_test_add_one(CudaArgs args) {
  ops::pdl_wait();
  args.ptr<float>(1)[threadIdx.x] = args.ptr<float>(0)[threadIdx.x] + 1.0f;
}

TEST(CudaEmu, LaunchesStartAsEarlyAsTheOrderAllows) {
  const KernelRow writes{
      .name = "writes", .code = CudaSymbol{"emu_test_write"}, .start = {.waits_first = true}};
  const KernelRow doubles{.name = "doubles",
                          .code = CudaSymbol{"emu_test_double_early"},
                          .start = {.waits_first = true, .reads_early = 1}};
  const KernelRow adds{
      .name = "adds", .code = CudaSymbol{"emu_test_add_one"}, .start = {.waits_first = true}};
  const auto backend = emu::make_cuda_emulator();
  const Allocation memory = backend->allocate(3 * 128, MemoryKind::device, true).value();
  Recording r;
  r.replayed = true;
  r.range_offsets = {0};
  const auto add = [&](const KernelRow& row, std::vector<std::uint64_t> cells) {
    RecordedLaunch& l = r.launches.emplace_back();
    l.kernel = &row;
    l.index = l.level = static_cast<std::uint32_t>(r.launches.size() - 1);
    l.launch.group = {32, 1, 1};
    for (const std::uint64_t cell : cells) {
      l.views[l.n_views++] = BoundView{memory, 128 * cell, 128};
      const bool write = l.n_views == cells.size();
      r.ranges.push_back({1, 128 * cell, 128 * cell + 128, write,
                          (row.start.reads_early >> (l.n_views - 1u) & 1) != 0});
    }
    r.range_offsets.push_back(static_cast<std::uint32_t>(r.ranges.size()));
  };
  add(writes, {0});
  add(doubles, {0, 1});
  add(adds, {1, 2});
  const auto run = [&](bool first, bool second) {
    Order order;
    order.kind = OrderKind::edges;
    order.edge_offsets = {0, 0, 1, 2};
    order.edges = {{0, first}, {1, second}};
    EXPECT_EQ(graph::validate(r, order).has_value(), !first);
    const auto recorded = backend->record(r, order).value();
    const std::vector<std::byte> zero(3 * 128);
    EXPECT_TRUE(backend->write(memory, 0, zero));
    Completion completion;
    EXPECT_TRUE(backend->submit(*recorded, {}, completion));
    EXPECT_FALSE(completion.failed) << completion.text;
    std::vector<float> out(32);
    EXPECT_TRUE(backend->read(memory, 256, std::as_writable_bytes(std::span(out))));
    return out[5];
  };
  EXPECT_EQ(run(false, false), 15.0f);
  EXPECT_EQ(run(false, true), 15.0f);
  EXPECT_EQ(run(true, true), 1.0f) << "launch 1 read what was there before launch 0";
  EXPECT_EQ(run(true, false), 1.0f);
  backend->release(memory);
}

TEST(CudaEmu, APassRunsOnMemoryOfItsOwn) {
  auto device = emu::open_cuda_emulator();
  ASSERT_TRUE(device);
  const std::vector<float> x = counting(100);
  auto a = device->allocate(400), out = device->allocate(400);
  ASSERT_TRUE(a && out);
  EXPECT_FALSE(device->map(a->view()));
  ASSERT_TRUE(device->write_as<float>(a->view(), x));
  const GraphExecutor executor(*device);
  GraphSession s = executor.begin_recorded();
  const Tensor in = a->tensor(DType::f32, {1, 100}), y = s.scratch(DType::f32, {1, 100});
  ops::add(s, {in, in, y});
  ops::mul(s, {in, y, out->tensor(DType::f32, {1, 100})});
  auto plan = s.compile();
  ASSERT_TRUE(plan) << plan.error().to_string();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(plan->run());
  std::vector<float> got(100);
  ASSERT_TRUE(device->read_as<float>(out->view(), got));
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(got[i], 2.0f * x[i] * x[i]);
}

}  // namespace
}  // namespace onepass
