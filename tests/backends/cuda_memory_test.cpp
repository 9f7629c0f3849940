#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "backends/cuda/cuda.h"
#include "backends/cuda/memory.h"
#include "backends/fake_cuda_driver.h"
#include "support/recordings.h"

namespace onepass {
namespace {

using cuda::DeviceMemory;
using testing::FakeDriver;

class CudaMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    fake().reset();
    open(false);
  }
  void TearDown() override {
    memory.reset();
    EXPECT_EQ(fake().live(), 0u);
    fake().reset();
  }
  static FakeDriver& fake() { return FakeDriver::get(); }
  void open(bool exact) {
    static const cuda::Driver driver = FakeDriver::table();
    memory = std::make_unique<DeviceMemory>(driver, "cuda:0", exact);
  }
  CUdeviceptr take(std::uint64_t bytes) {
    const auto address = memory->allocate(bytes);
    EXPECT_TRUE(address) << address.error().to_string();
    return address ? *address : 0;
  }

  std::unique_ptr<DeviceMemory> memory;
};

TEST_F(CudaMemory, RandomBlocksNeverOverlapAndAreAllReused) {
  std::mt19937_64 rng(3);
  std::map<CUdeviceptr, std::uint64_t> live;
  for (int i = 0; i < 4000; ++i) {
    if (live.size() > 60 || (!live.empty() && rng() % 2 == 0)) {
      const auto it = std::next(live.begin(), static_cast<std::ptrdiff_t>(rng() % live.size()));
      memory->release(it->first);
      live.erase(it);
      continue;
    }
    const std::uint64_t bytes = 1 + rng() % (rng() % 20 == 0 ? 12u << 20 : 200u << 10);
    const CUdeviceptr at = take(bytes);
    ASSERT_EQ(at % 256, 0u);
    const auto after = live.lower_bound(at);
    if (after != live.end()) {
      ASSERT_LE(at + bytes, after->first);
    }
    if (after != live.begin()) {
      ASSERT_LE(std::prev(after)->first + std::prev(after)->second, at);
    }
    live[at] = bytes;
  }
  std::uint64_t used = 0;
  for (const auto& [at, bytes] : live) used += bytes;
  EXPECT_GE(memory->statistics().used_bytes, used);
  EXPECT_LT(fake().allocations, 60u);
  for (const auto& [at, bytes] : live) memory->release(at);
  EXPECT_EQ(memory->statistics().used_bytes, 0u);
  memory->trim();
  EXPECT_EQ(memory->statistics().reserved_bytes, 0u) << "neighbours were not joined";
  EXPECT_TRUE(fake().device_memory.empty());
}

TEST_F(CudaMemory, TheSameSizesAgainNeedNoDriver) {
  const std::vector<std::uint64_t> sizes{64, 4096, 1u << 20, 9u << 20, 100u << 20};
  std::size_t calls = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<CUdeviceptr> blocks;
    for (const std::uint64_t bytes : sizes) blocks.push_back(take(bytes));
    for (const CUdeviceptr block : blocks) memory->release(block);
    if (round == 0) calls = fake().allocations;
  }
  EXPECT_EQ(fake().allocations, calls);
  EXPECT_EQ(fake().syncs, 0u);
  EXPECT_EQ(memory->statistics().driver_calls, calls);
}

TEST_F(CudaMemory, SmallBlocksLeaveLargePiecesWhole) {
  const CUdeviceptr large = take(200u << 20);
  memory->release(large);
  const CUdeviceptr small = take(1024);
  EXPECT_TRUE(small < large || small >= large + (200u << 20));
  EXPECT_EQ(take(200u << 20), large);
  memory->release(large);
  const CUdeviceptr part = take(50u << 20), rest = take(150u << 20);
  EXPECT_EQ(part, large) << "a large piece is cut up for large blocks";
  EXPECT_EQ(rest, large + (50u << 20));
}

TEST_F(CudaMemory, UnusedPiecesAreGivenBackWhenThereIsNoMore) {
  fake().memory_limit = 300u << 20;
  const CUdeviceptr first = take(200u << 20);
  memory->release(first);
  take(250u << 20);
  EXPECT_EQ(fake().device_memory.size(), 1u);
  EXPECT_EQ(memory->statistics().reserved_bytes, 250u << 20);
  EXPECT_EQ(memory->statistics().peak_bytes, 250u << 20);
  const auto more = memory->allocate(123u << 20);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::out_of_memory);
  for (const char* words : {"cuda:0", "128974848 bytes", "52428800 of 314572800"}) {
    EXPECT_THAT(more.error().message, ::testing::HasSubstr(words));
  }
}

TEST_F(CudaMemory, ExactBlocksAreTheDrivers) {
  open(true);
  const CUdeviceptr a = take(100), b = take(9u << 20);
  EXPECT_EQ(fake().device_memory.at(a), 100u);
  EXPECT_EQ(fake().device_memory.at(b), 9u << 20);
  memory->release(a);
  EXPECT_EQ(fake().device_memory.size(), 1u);
  memory->release(a);
  memory->release(b);
  EXPECT_TRUE(fake().device_memory.empty());
}

class CudaCopies : public ::testing::Test {
 protected:
  void SetUp() override {
    fake().reset();
    static const cuda::Driver driver = FakeDriver::table();
    auto opened = cuda::open_device(driver, {}, 0, {});
    ASSERT_TRUE(opened);
    backend = std::move(*opened);
    auto allocated = backend->allocate(40u << 20, MemoryKind::device, false);
    ASSERT_TRUE(allocated);
    memory = *allocated;
  }
  void TearDown() override {
    backend->release(memory);
    backend.reset();
    EXPECT_EQ(fake().live(), 0u);
    fake().reset();
  }
  static FakeDriver& fake() { return FakeDriver::get(); }

  std::unique_ptr<Backend> backend;
  Allocation memory;
};

TEST_F(CudaCopies, AWriteReturnsBeforeItsBytesHaveArrived) {
  fake().hold();
  fake().syncs = 0;
  fake().copy_sources.clear();
  const std::vector<std::byte> bytes(1000, std::byte{1});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(backend->write(memory, 0, bytes));
  EXPECT_EQ(fake().syncs, 0u);
  EXPECT_EQ(fake().waits, 0u) << "there was a slot for each";
  const std::set<const void*> sources(fake().copy_sources.begin(), fake().copy_sources.end());
  EXPECT_EQ(sources.size(), 4u) << "none may be overwritten while it is being copied";
  ASSERT_TRUE(backend->write(memory, 0, bytes));
  EXPECT_EQ(fake().waits, 1u) << "for the oldest slot, not for the stream";
}

TEST_F(CudaCopies, LargeCopiesPassThroughSeveralSlots) {
  std::vector<std::byte> out((33u << 20) + 7), in(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(testing::mix(i));
  ASSERT_TRUE(backend->write(memory, 5, out));
  ASSERT_TRUE(backend->read(memory, 5, in));
  EXPECT_TRUE(in == out);
}

TEST_F(CudaCopies, BuffersComeAndGoWithoutTheDriver) {
  const std::size_t before = fake().allocations;
  for (int i = 0; i < 100; ++i) {
    auto a = backend->allocate(4096, MemoryKind::device, true);
    auto b = backend->allocate(1u << 20, MemoryKind::device, false);
    ASSERT_TRUE(a && b);
    backend->release(*a);
    backend->release(*b);
  }
  EXPECT_LE(fake().allocations, before + 1);
}

TEST(CudaHandles, OfASubmissionIsTheEventOfItsEnd) {
  FakeDriver& fake = FakeDriver::get();
  fake.reset();
  const cuda::Driver driver = FakeDriver::table();
  {
    auto backend = cuda::open_device(driver, {}, 0, {.command_buffers = 2}).value();
    EXPECT_NE(backend->native_stream(), nullptr);
    testing::OrderedRecording fence;
    fence.launches.resize(1);
    fence.set_levels({0});
    fence.set_preds({{}});
    const auto recorded = testing::record(*backend, fence).value();
    std::array<Completion, 4> done;
    EXPECT_EQ(backend->native_submission(done[0]), nullptr);
    for (Completion& c : std::span(done).first(3)) {
      ASSERT_TRUE(backend->submit(*recorded, {}, c));
      const auto end = static_cast<CUevent>(backend->native_submission(c));
      ASSERT_TRUE(fake.events.contains(end));
      for (const auto& [event, place] : fake.events) EXPECT_LE(place, fake.events[end]);
    }
    EXPECT_NE(backend->native_submission(done[0]), nullptr);
    EXPECT_NE(backend->native_submission(done[0]), backend->native_submission(done[2]));
    // The next one takes the event of the first.
    ASSERT_TRUE(backend->submit(*recorded, {}, done[3]));
    EXPECT_EQ(backend->native_submission(done[0]), nullptr);
    EXPECT_NE(backend->native_submission(done[3]), nullptr);
    for (Completion& c : done) backend->wait(c);
  }
  EXPECT_EQ(fake.live(), 0u);
  fake.reset();
}

}  // namespace
}  // namespace onepass
