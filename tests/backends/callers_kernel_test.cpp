// Callers' kernels between built-in ops, on the CPU and on the emulated card.
#include "backends/callers_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "onepass/backends/cpu.h"
#include "onepass/compat.h"
#include "onepass/ops.h"
#include "support/cuda_emu/backend.h"

namespace onepass::callers_kernel_test {
namespace {

using ::testing::Each;
using ::testing::FloatEq;
using ::testing::HasSubstr;

constexpr std::uint32_t elements = 1000;  // the last group has 40 threads

void mix_on_cpu(const KernelArgs& a) noexcept {
  const auto [begin, end] = a.threads();
  const std::uint32_t count = end[0] - begin[0];
  float* const scaled = a.group_at<float>(mix_scaled);
  std::uint32_t* const picked = a.group_at<std::uint32_t>(mix_picked);
  for (std::uint32_t at = 0; at < count; ++at) {
    const std::uint32_t i = begin[0] + at;
    scaled[at] = a.view_at<const float>(mix_in)[i] * a.block_at<float>(mix_factors)[i % mix_table];
    picked[at] = a.block_at<std::uint32_t>(mix_picks)[i % mix_table];
  }
  for (std::uint32_t at = 0; at < count; ++at) {
    a.view_at<float>(mix_out)[begin[0] + at] = scaled[(at + 1) % count] +
                                               static_cast<float>(picked[count - 1 - at]) +
                                               a.params_as<MixParams>().shift;
  }
}

KernelDesc mix_kernel() {
  return {.name = "mix",
          .slots = "io",
          .params_bytes = sizeof(MixParams),
          .cpu = mix_on_cpu,
          .cuda = {.image = "compiled as C++", .entry = "test_mix"}};
}

// Two 4 KiB blocks; those of another seed differ everywhere.
DispatchExtra mix_extra(std::uint32_t seed) {
  std::vector<float> factors(mix_table);
  std::vector<std::uint32_t> picks(mix_table);
  for (std::uint32_t i = 0; i < mix_table; ++i) {
    factors[i] = static_cast<float>(seed + 1 + i % 7);
    picks[i] = (seed + i) * 3;
  }
  const auto bytes = [](const auto& v) {
    const auto all = std::as_bytes(std::span(v));
    return std::vector<std::byte>(all.begin(), all.end());
  };
  DispatchExtra extra;
  extra.slots[0] = mix_in;
  extra.slots[1] = mix_out;
  extra.blocks = {{mix_picks, bytes(picks)}, {mix_factors, bytes(factors)}};
  // The first has no multiple of 16 bytes.
  extra.shared = {{mix_picked, mix_group * 4 + 4}, {mix_scaled, mix_group * 4}};
  return extra;
}

void encode_mix(GraphSession& s, KernelId kernel, const View& in, const View& out,
                std::uint32_t seed) {
  const DispatchExtra extra = mix_extra(seed);
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = kernel;
  d.grid = Grid::threads({elements, 1, 1}, {mix_group, 1, 1});
  d.extra = &extra;
  d.set_params(MixParams{0.5f});
  d.bind(in, Access::read);
  d.bind(out, Access::write);
  s.encode(d);
}

// y = mix(mix(x + x)) * x, with other blocks in the second.
void encode_all(GraphSession& s, KernelId kernel, const Tensor& x, const Tensor& y) {
  const Tensor twice = s.scratch(DType::f32, {elements}), first = s.scratch(DType::f32, {elements}),
               second = s.scratch(DType::f32, {elements});
  ops::add(s, {.a = x, .b = x, .out = twice});
  encode_mix(s, kernel, twice.view, first.view, 1);
  encode_mix(s, kernel, first.view, second.view, 2);
  ops::mul(s, {.a = second, .b = x, .out = y});
}

std::vector<float> expected(const std::vector<float>& x) {
  std::vector<float> now(elements), next(elements);
  for (std::uint32_t i = 0; i < elements; ++i) now[i] = x[i] + x[i];
  for (const std::uint32_t seed : {1u, 2u}) {
    for (std::uint32_t i = 0; i < elements; ++i) {
      const std::uint32_t begin = i / mix_group * mix_group;
      const std::uint32_t count = std::min(mix_group, elements - begin), at = i - begin;
      const std::uint32_t j = begin + (at + 1) % count, k = begin + count - 1 - at;
      const float factor = static_cast<float>(seed + 1 + j % mix_table % 7);
      next[i] = now[j] * factor + static_cast<float>((seed + k % mix_table) * 3) + 0.5f;
    }
    now.swap(next);
  }
  for (std::uint32_t i = 0; i < elements; ++i) now[i] *= x[i];
  return now;
}

std::vector<Device> devices() {
  std::vector<Device> all;
  all.push_back(*Device::open("cpu", {.backend = {CpuOptions{.threads = 1}}}));
  all.push_back(*Device::open("cpu", {.backend = {CpuOptions{.threads = 4}}}));
  all.push_back(*emu::open_cuda_emulator());
  return all;
}

class CallersKernel : public ::testing::TestWithParam<std::size_t> {
 protected:
  CallersKernel() : device_(devices()[GetParam()]), x_values_(elements) {
    for (std::uint32_t i = 0; i < elements; ++i) x_values_[i] = static_cast<float>(i % 13) - 6.0f;
    x_ = *device_.allocate(elements * sizeof(float));
    y_ = *device_.allocate(elements * sizeof(float));
    EXPECT_TRUE(device_.write_as<float>(x_.view(), x_values_));
    const auto kernel = device_.kernels().add(mix_kernel());
    EXPECT_TRUE(kernel) << kernel.error().to_string();
    kernel_ = kernel.value_or(KernelId{});
  }

  std::vector<float> result() {
    std::vector<float> y(elements);
    EXPECT_TRUE(device_.read_as<float>(y_.view(), y));
    EXPECT_TRUE(device_.write_as<float>(y_.view(), std::vector<float>(elements, -1.0f)));
    return y;
  }

  Device device_;
  std::vector<float> x_values_;
  Buffer x_, y_;
  KernelId kernel_;
};

TEST_P(CallersKernel, RunsBetweenBuiltInOpsInSessionsAndPlans) {
  const Tensor x = x_.tensor(DType::f32, {elements}), y = y_.tensor(DType::f32, {elements});
  const std::vector<float> want = expected(x_values_);
  const GraphExecutor executor(device_);
  for (const bool recorded : {false, true}) {
    GraphSession s = recorded ? executor.begin_recorded() : executor.begin();
    encode_all(s, kernel_, x, y);
    const auto report = s.finish();
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(result(), want) << "recorded " << recorded;
  }
  GraphSession s = executor.begin_recorded();
  encode_all(s, kernel_, x, y);
  auto plan = s.compile();
  ASSERT_TRUE(plan) << plan.error().to_string();
  for (int run = 0; run < 3; ++run) {
    ASSERT_TRUE(plan->run());
    EXPECT_EQ(result(), want) << "run " << run;
  }
}

TEST_P(CallersKernel, TheAncestorsEncodeFormsReachIt) {
  compat::CommandEncoder encoder(device_);
  const DispatchExtra extra = mix_extra(1);
  // A kernel's parameters are the first small block.
  const compat::Args args{{mix_in, x_},
                          {mix_out, y_},
                          {0, compat::KernelArg::bytes(MixParams{0.5f})},
                          {mix_picks, compat::KernelArg::bytes(extra.blocks[0].bytes)},
                          {mix_factors, compat::KernelArg::bytes(extra.blocks[1].bytes)}};
  const compat::SharedMemory shared(extra.shared.begin(), extra.shared.end());
  encoder.encode_threadgroups_with_args_and_shared(kernel_, args, shared,
                                                   {elements / mix_group, 1, 1}, {mix_group, 1, 1});
  const Status status = encoder.commit_and_wait();
  ASSERT_TRUE(status) << status.error().to_string();
  const std::vector<float> y = result();
  // Whole groups only.
  EXPECT_EQ(y[0], x_values_[1] * 3.0f + (1.0f + 63.0f) * 3.0f + 0.5f);
  EXPECT_EQ(y[elements / mix_group * mix_group], 0.0f);
}

TEST_P(CallersKernel, MoreGroupMemoryThanThereIsIsALimit) {
  DispatchExtra extra = mix_extra(1);
  extra.shared[0].bytes = device_.info().max_shared_bytes - 4;
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = kernel_;
  d.grid = Grid::threads({elements, 1, 1}, {mix_group, 1, 1});
  d.extra = &extra;
  d.set_params(MixParams{});
  d.bind(x_.view(), Access::read);
  d.bind(y_.view(), Access::write);
  GraphSession s = GraphExecutor(device_).begin_recorded();
  s.encode(d);
  EXPECT_EQ(s.finish().error().code, ErrorCode::limit);
}

constexpr std::array device_names{"one_thread", "four_threads", "emulated_card"};

INSTANTIATE_TEST_SUITE_P(Devices, CallersKernel, ::testing::Values(0u, 1u, 2u),
                         [](const auto& test) { return device_names[test.param]; });

TEST(CallersKernels, TheHeadersExampleRuns) {
  const Device device = *emu::open_cuda_emulator();
  KernelDesc desc{.name = "scale", .slots = "io", .cuda = {.image = "compiled as C++"}};
  desc.params_bytes = sizeof(float);
  const auto kernel = device.kernels().add(desc);
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  const Buffer x = *device.allocate(elements * 4), y = *device.allocate((elements + 8) * 4);
  ASSERT_TRUE(device.write_as<float>(x.view(), std::vector<float>(elements, 2.0f)));
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = *kernel;
  d.grid = Grid::threads({elements, 1, 1}, {128, 1, 1});
  d.set_params(1.5f);
  d.bind(x.view(), Access::read);
  d.bind(y.view(), Access::write);
  GraphSession s = GraphExecutor(device).begin();
  s.encode(d);
  ASSERT_TRUE(s.finish());
  std::vector<float> out(elements);
  ASSERT_TRUE(device.read_as<float>(y.view(0, elements * 4), out));
  EXPECT_THAT(out, Each(FloatEq(3.0f)));
  std::vector<float> behind(8);
  ASSERT_TRUE(device.read_as<float>(y.view(elements * 4, 32), behind));
  EXPECT_THAT(behind, Each(FloatEq(0.0f)));
}

TEST(CallersKernels, GroupMemoryIsOfOneTileAlone) {
  const Device device = *Device::open("cpu", {.backend = {CpuOptions{.threads = 4}}});
  const auto kernel =
      device.kernels().add({.name = "own", .slots = "o", .cpu = [](const KernelArgs& a) noexcept {
                              auto* word = a.group_at<volatile std::uint32_t>(7);
                              float wrong = 0.0f;
                              for (int i = 0; i < 200; ++i) {
                                *word = a.tile;
                                std::this_thread::yield();
                                wrong += *word == a.tile ? 0.0f : 1.0f;
                              }
                              a.ptr<float>(0)[a.tile] = wrong;
                            }});
  ASSERT_TRUE(kernel);
  const Buffer out = *device.allocate(256 * 4);
  DispatchExtra extra;
  extra.shared = {{7, 4}};
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = *kernel;
  d.grid = Grid::groups({8, 8, 4}, {1, 1, 1});
  d.extra = &extra;
  d.bind(out.view(), Access::write);
  GraphSession s = GraphExecutor(device).begin();
  s.encode(d);
  ASSERT_TRUE(s.finish());
  std::vector<float> wrong(256);
  ASSERT_TRUE(device.read_as<float>(out.view(), wrong));
  EXPECT_THAT(wrong, Each(0.0f));
}

TEST(CallersKernels, ThreadsOfATileCoverTheGridOnce) {
  for (const Grid& grid : {Grid::threads({10, 7, 3}, {4, 2, 2}), Grid::groups({3, 2, 2}, {4, 2, 2}),
                           Grid::threads({4, 2, 2}, {4, 2, 2})}) {
    const auto groups = grid.group_counts();
    KernelArgs args;
    args.grid = &grid;
    args.tiles = groups[0] * groups[1] * groups[2];
    std::map<std::array<std::uint32_t, 3>, int> seen;
    for (args.tile = 0; args.tile < args.tiles; ++args.tile) {
      const auto [begin, end] = args.threads();
      for (std::uint32_t z = begin[2]; z < end[2]; ++z) {
        for (std::uint32_t y = begin[1]; y < end[1]; ++y) {
          for (std::uint32_t x = begin[0]; x < end[0]; ++x) ++seen[{x, y, z}];
        }
      }
    }
    std::size_t all = 1;
    for (std::size_t i = 0; i < 3; ++i) {
      all *= grid.kind == DispatchKind::threads ? grid.grid[i] : grid.grid[i] * grid.group[i];
    }
    EXPECT_EQ(seen.size(), all);
    for (const auto& [thread, times] : seen) EXPECT_EQ(times, 1);
  }
}

TEST(CallersKernels, ADeviceSaysWhichCodeItTakes) {
  const Device card = *emu::open_cuda_emulator(), cpu = *Device::open("cpu");
  KernelDesc desc{.name = "own", .cpu = [](const KernelArgs&) noexcept {}};
  desc.msl.source = "kernel void own() {}";
  const Error on_card = card.kernels().add(desc).error();
  EXPECT_EQ(on_card.code, ErrorCode::kernel_build);
  EXPECT_THAT(on_card.message, HasSubstr("takes a CUDA image, given: a CPU function, MSL"));
  EXPECT_TRUE(cpu.kernels().add(desc));
  const Error on_cpu =
      cpu.kernels().add({.name = "own", .cuda = {.image = ".version 8.0"}}).error();
  EXPECT_EQ(on_cpu.code, ErrorCode::kernel_build);
  EXPECT_THAT(on_cpu.message, HasSubstr("cpu takes a CPU function, given: a CUDA image"));
  EXPECT_THAT(cpu.kernels().add({.name = "own"}).error().message, HasSubstr("given: no code"));
  EXPECT_THAT(card.kernels()
                  .add({.name = "own", .cuda = {.image = "x", .entry = "nowhere"}})
                  .error()
                  .message,
              HasSubstr("no entry point nowhere"));
}

}  // namespace
}  // namespace onepass::callers_kernel_test
