// The Vulkan backend on whatever device there is, which is a software driver in most tests.
#include "backends/vulkan/vulkan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/vulkan/spirv.h"
#include "core/device_state.h"
#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "run/generate.h"

namespace onepass::test::vulkan_test {
namespace {

bool is_there() {
  const auto list = list_vulkan();
  return !list.empty() && list.front().available;
}
#define NEED_DEVICE() \
  if (!is_there()) GTEST_SKIP() << "no Vulkan device"

Device open(const VulkanOptions& own = {}, DeviceOptions options = {}) {
  options.backend = {own};
  return Device::open("vulkan:0", options).value();
}

std::vector<float> ramp(std::size_t n) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 251) - 100.0f;
  return x;
}

TEST(Vulkan, ListSaysWhatThereIs) {
  const std::vector<DeviceListing> list = list_vulkan();
  ASSERT_FALSE(list.empty());
  if (!list.front().available) {
    EXPECT_EQ(list.front().reason.substr(0, 8), "vulkan: ");
    EXPECT_FALSE(open_vulkan(0, {}));
    return;
  }
  for (const DeviceListing& l : list) EXPECT_FALSE(l.description.empty()) << l.name;
  const auto none = open_vulkan(static_cast<std::uint32_t>(list.size()), {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
}

// Nobody gets a software driver without asking for it.
TEST(Vulkan, IsNotTheDefault) {
  const Result<Device> device = Device::open("auto");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->info().name.find("vulkan"), std::string::npos);
}

TEST(Vulkan, CopiesThroughStagingAndMappedMemory) {
  NEED_DEVICE();
  for (const bool staged : {false, true}) {
    const Device device = open({.staged_memory = staged});
    // Larger than a piece of staging memory, and not a multiple of it.
    const std::vector<float> x = ramp((5u << 20) / 4 + 77);
    const Buffer b = *device.allocate(x.size() * 4);
    std::vector<float> zeros(x.size(), 1.0f);
    ASSERT_TRUE(device.read_as<float>(b.view(), zeros));
    EXPECT_EQ(std::count(zeros.begin(), zeros.end(), 0.0f),
              static_cast<std::ptrdiff_t>(zeros.size()));
    ASSERT_TRUE(device.write_as<float>(b.view(), x));
    std::vector<float> part(1000);
    ASSERT_TRUE(device.read_as<float>(b.view(4 * 1234, 4000), part));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), x.begin() + 1234)) << staged;
    EXPECT_EQ(static_cast<bool>(device.map(b.view())), !staged);
  }
}

TEST(Vulkan, MemoryOfFreedBuffersIsUsedAgain) {
  NEED_DEVICE();
  const Device device = open();
  for (std::uint64_t i = 0; i < 1000; ++i) {  // 8 GiB in all, of 2 GiB that a software driver has
    std::vector<Buffer> some;
    for (std::uint64_t j = 0; j < 4; ++j) {
      auto b = device.allocate((2u << 20) + 4096 * (i % 7), {.zero = false});
      ASSERT_TRUE(b) << b.error().to_string();
      some.push_back(std::move(*b));
    }
    some.clear();
    ASSERT_TRUE(device.fence());
    EXPECT_EQ(device.live_bytes(), 0u);
  }
}

TEST(Vulkan, TooLargeABufferIsATypedError) {
  NEED_DEVICE();
  const Device device = open();
  const auto b = device.allocate(std::uint64_t{1} << 42);
  ASSERT_FALSE(b);
  EXPECT_TRUE(b.error().code == ErrorCode::out_of_memory || b.error().code == ErrorCode::limit)
      << b.error().to_string();
  EXPECT_TRUE(device.allocate(4096));
}

// norm, then a sum in place, some replays: each sees what the one before wrote.
std::vector<float> replay(const Device& device, std::uint32_t times) {
  constexpr std::uint32_t n = 96;
  const Buffer memory = *device.allocate(2 * n * sizeof(float));
  const Tensor x = memory.tensor(DType::f32, {1, n});
  const Tensor y = memory.tensor(DType::f32, {1, n}, n * sizeof(float));
  EXPECT_TRUE(device.write_as<float>(x.view, ramp(n)));
  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  const Tensor t = s.scratch(DType::f32, {1, n});
  ops::rms_norm(s, {.x = x, .out = t});
  ops::add(s, {.a = y, .b = t, .out = y});
  const Result<Plan> plan = s.compile();
  EXPECT_TRUE(plan) << plan.error().to_string();
  std::vector<Submission> queued;
  for (std::uint32_t i = 0; i < times; ++i) queued.push_back(*plan->run_async());
  for (Submission& q : queued) EXPECT_TRUE(q.wait());
  std::vector<float> out(n);
  EXPECT_TRUE(device.read_as<float>(y.view, out));
  return out;
}

TEST(Vulkan, ReplaysOfAPlanFollowEachOther) {
  NEED_DEVICE();
  const Device cpu = *Device::open("cpu");
  const std::vector<float> want = replay(cpu, 5);
  for (const bool split : {false, true}) {
    for (const bool serial : {false, true}) {
      const Device device = open({.split_launches = split}, {.serial = serial});
      const std::vector<float> got = replay(device, 5);
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 1e-5f * std::abs(want[i]) + 1e-6f) << i;
      }
      EXPECT_EQ(got, replay(device, 5));
    }
  }
}

TEST(Vulkan, ProfilesEveryDispatch) {
  NEED_DEVICE();
  const Device device = open({}, {.profile = Profile::dispatches});
  replay(device, 1);
  const ProfileReport report = device.profile();
  ASSERT_FALSE(report.samples.empty());
  for (const DispatchSample& s : report.samples) EXPECT_GT(s.end_ns, s.start_ns) << s.name;
}

// The module has one decoration more for each arithmetic instruction, before its types.
TEST(Vulkan, ModulesMayNotBeContracted) {
  const std::uint32_t module[] = {
      0x07230203,     0x00010300, 0, 10, 0, 2u << 16 | 19, 1,  // OpTypeVoid %1
      5u << 16 | 129, 2,          3, 4,  5,                    // OpFAdd %2 %3 %4 %5
      5u << 16 | 128, 2,          6, 4,  5,  // OpIAdd, which nothing is said about
  };
  const std::vector<std::uint32_t> out = vulkan::without_contraction(module);
  ASSERT_EQ(out.size(), std::size(module) + 3);
  EXPECT_EQ(out[5], 3u << 16 | 71u);
  EXPECT_EQ(out[6], 3u);
  EXPECT_EQ(out[7], 42u);
  EXPECT_TRUE(std::equal(out.begin() + 8, out.end(), module + 5));
  const std::uint32_t cut[] = {0x07230203, 0, 0, 0, 0, 9u << 16 | 129, 1};
  EXPECT_TRUE(vulkan::without_contraction(cut).empty());
}

// The model in the repository tells the story that it tells on the CPU.
TEST(Vulkan, TellsTheStoryOfTheCpu) {
  NEED_DEVICE();
  const auto tell = [](const Device& device) {
    const auto model = llm::open_text_model(
        device, std::string(ONEPASS_SOURCE_DIR) + "/models/stories-12m-q8_0.gguf");
    EXPECT_TRUE(model) << model.error().to_string();
    llm::Decoder d = llm::Decoder::create(model->model, {.context = 64}).value();
    const std::vector<std::uint32_t> prompt{1, 403, 407, 261, 378};
    EXPECT_TRUE(d.append(prompt));
    std::vector<std::uint32_t> tokens(24);
    EXPECT_TRUE(d.next(tokens, {}));
    return tokens;
  };
  EXPECT_EQ(tell(open()), tell(*Device::open("cpu")));
}

}  // namespace
}  // namespace onepass::test::vulkan_test
