#include "backends/cpu/cpu.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/features.h"
#include "core/os.h"
#include "onepass/backends/cpu.h"
#include "onepass/backends/cuda.h"
#include "support/recordings.h"

namespace onepass {
namespace {

using testing::cell_bytes;
using testing::cell_words;
using testing::make_recording;
using testing::one_launch;
using testing::OrderedRecording;
using testing::Program;
using testing::random_program;
using testing::run_reference;

std::unique_ptr<Backend> open(std::uint32_t threads, std::uint32_t queue = 64,
                              std::uint32_t spin_us = 50) {
  DeviceOptions options;
  options.backend = {CpuOptions{.threads = threads, .spin_us = spin_us}};
  options.command_buffers = queue;
  return make_cpu_backend(options);
}

void run(Backend& backend, Recorded& recorded, std::span<const std::byte> step = {}) {
  Completion completion;
  ASSERT_TRUE(backend.submit(recorded, step, completion));
  backend.wait(completion);
  ASSERT_TRUE(completion.done);
  ASSERT_FALSE(completion.failed);
}

// Waits for a condition that another worker makes true; false after ten seconds.
template <class Condition>
bool eventually(const Condition& condition) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class Memory {
 public:
  Memory(Backend& backend, std::uint64_t bytes)
      : backend_(&backend), memory_(backend.allocate(bytes, MemoryKind::device, true).value()) {}
  Memory(const Memory&) = delete;
  ~Memory() { backend_->release(memory_); }
  const Allocation& operator*() const { return memory_; }
  std::vector<std::uint64_t> words() const {
    std::vector<std::uint64_t> w(memory_.bytes / sizeof(std::uint64_t));
    EXPECT_TRUE(backend_->read(memory_, 0, std::as_writable_bytes(std::span(w))));
    return w;
  }

 private:
  Backend* backend_;
  Allocation memory_;
};

TEST(CpuMemory, IsAlignedAndZero) {
  const auto backend = open(1);
  for (const std::uint64_t bytes : {0u, 1u, 255u, 257u, 4096u, 65535u, 65536u, 3u << 20}) {
    for (int round = 0; round < 2; ++round) {
      Result<Allocation> a = backend->allocate(bytes, MemoryKind::device, true);
      ASSERT_TRUE(a) << bytes;
      EXPECT_NE(a->handle, 0u);
      EXPECT_EQ(a->bytes, bytes);
      const auto address = reinterpret_cast<std::uintptr_t>(a->host);
      EXPECT_EQ(address % (bytes >= 65536 ? os::page_bytes() : 256), 0u);
      for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(a->host[i], std::byte{0}) << i;
      if (bytes > 0) std::memset(a->host, 0xa5, bytes);  // the next round may get it back
      backend->release(*a);
    }
  }
}

TEST(CpuMemory, TooMuchIsAnError) {
  const auto backend = open(1);
  const std::uint64_t all = backend->info().memory_bytes;
  ASSERT_GT(all, 0u);
  for (const std::uint64_t bytes :
       {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 50, all + 1}) {
    Result<Allocation> a = backend->allocate(bytes, MemoryKind::device, false);
    ASSERT_FALSE(a) << bytes;
    EXPECT_EQ(a.error().code, ErrorCode::out_of_memory);
    EXPECT_NE(a.error().message.find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(CpuMemory, WriteReadMap) {
  const auto backend = open(2);
  const Memory memory(*backend, 100);
  const std::array<std::byte, 3> in{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(backend->write(*memory, 97, in));
  std::array<std::byte, 3> out{};
  ASSERT_TRUE(backend->read(*memory, 97, out));
  EXPECT_EQ(in, out);
  EXPECT_EQ(backend->map(*memory).value()[98], std::byte{2});
  EXPECT_TRUE(backend->write(*memory, 100, {}));
  EXPECT_EQ(backend->native_handle(nullptr), nullptr);
}

TEST(CpuInfo, CountsThreads) {
  EXPECT_EQ(open(3)->info().compute_units, 3u);
  EXPECT_EQ(open(0)->info().compute_units, os::core_count());
  EXPECT_EQ(open(1)->info().name, "cpu");
  EXPECT_TRUE(open(1)->info().unified_memory);
}

class CpuModels : public ::testing::TestWithParam<std::tuple<std::uint32_t, OrderKind>> {};

TEST_P(CpuModels, RandomProgramsGiveTheReferenceBytes) {
  const auto [threads, model] = GetParam();
  const auto backend = open(threads);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const std::uint32_t n_cells = seed % 2 ? 80 : 12;
    const Program program = random_program(seed, 200, n_cells, seed % 3 ? 0.02 : 0.0);
    const Memory memory(*backend, n_cells * cell_bytes);
    const OrderedRecording recording = make_recording(program, *memory, model);
    ASSERT_EQ(recording.kind(), model);
    auto recorded = testing::record(*backend, recording);
    ASSERT_TRUE(recorded);
    std::vector<std::uint64_t> expected(n_cells * cell_words, 0);
    for (int replay = 0; replay < 5; ++replay) {
      run(*backend, **recorded);
      run_reference(program, expected);
      ASSERT_EQ(memory.words(), expected) << "seed " << seed << " replay " << replay;
    }
  }
}

// Launches write the ticks of a common clock at which their tiles began and ended.
struct Ticks {
  std::atomic<std::uint64_t> clock{0};
};
void tick_kernel(const KernelArgs& a) noexcept {
  auto& clock = static_cast<Ticks*>(a.user)->clock;
  std::uint64_t* out = a.ptr<std::uint64_t>(a.n_views - 1) + 2 * a.tile;
  out[0] = ++clock;
  if (out[0] % 3 == 0) std::this_thread::yield();
  out[1] = ++clock;
}

TEST_P(CpuModels, NoTileBeginsBeforeWhatItWaitsFor) {
  const auto [threads, model] = GetParam();
  const auto backend = open(threads);
  Ticks ticks;
  const KernelRow row{.name = "tick", .code = tick_kernel, .user = &ticks};
  constexpr std::uint32_t n = 120;
  // Conflicts come from `in` and `out`; afterwards each launch gets a cell of its own to write.
  const Program program = random_program(7, n, 40);
  const Memory memory(*backend, n * cell_bytes);
  OrderedRecording r = make_recording(program, *memory, model, row);
  for (std::uint32_t i = 0; i < n; ++i) {
    RecordedLaunch& l = r.launches[i];
    if (!l.is_fence()) l.views[l.n_views - 1u] = BoundView{*memory, i * cell_bytes, cell_bytes};
  }
  auto recorded = testing::record(*backend, r);
  ASSERT_TRUE(recorded);
  for (int replay = 0; replay < 20; ++replay) {
    run(*backend, **recorded);
    const std::vector<std::uint64_t> words = memory.words();
    const auto begin = [&](std::uint32_t i) {
      std::uint64_t t = ~std::uint64_t{0};
      for (std::uint32_t k = 0; k < r.launches[i].launch.tiles; ++k)
        t = std::min(t, words[i * cell_words + 2 * k]);
      return t;
    };
    const auto end = [&](std::uint32_t i) {
      std::uint64_t t = 0;
      for (std::uint32_t k = 0; k < r.launches[i].launch.tiles; ++k)
        t = std::max(t, words[i * cell_words + 2 * k + 1]);
      return t;
    };
    for (std::uint32_t i = 0; i < n; ++i) {
      for (std::uint32_t j = 0; j < i; ++j) {
        if (r.launches[i].is_fence() || r.launches[j].is_fence()) continue;
        const bool ordered = model == OrderKind::in_order ? true
                             : model == OrderKind::levels
                                 ? r.launches[j].level < r.launches[i].level
                                 : std::find(r.preds.begin() + r.pred_offsets[i],
                                             r.preds.begin() + r.pred_offsets[i + 1],
                                             j) != r.preds.begin() + r.pred_offsets[i + 1];
        if (!ordered) continue;
        ASSERT_LT(end(j), begin(i)) << j << " before " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuModels,
                         ::testing::Combine(::testing::Values(1u, 2u, 3u, 8u),
                                            ::testing::Values(OrderKind::edges, OrderKind::levels,
                                                              OrderKind::in_order)));

TEST(CpuRun, TwentyThousandReplays) {
  const Program program = random_program(3, 12, 6, 0.1);
  std::vector<std::uint64_t> expected(6 * cell_words, 0);
  run_reference(program, expected, 20000);
  for (const std::uint32_t threads : {1u, 2u, 4u}) {
    const auto backend = open(threads);
    const Memory memory(*backend, 6 * cell_bytes);
    auto recorded = testing::record(*backend, make_recording(program, *memory, OrderKind::edges));
    ASSERT_TRUE(recorded);
    std::vector<Completion> completions(16);
    for (int i = 0; i < 20000; ++i) {
      Completion& c = completions[static_cast<std::size_t>(i) % 16];
      if (i >= 16) backend->wait(c);
      ASSERT_TRUE(backend->submit(**recorded, {}, c));
    }
    for (Completion& c : completions) backend->wait(c);
    ASSERT_EQ(memory.words(), expected) << threads << " threads";
  }
}

// Edges let one branch run ahead of another; a barrier per level would never let this finish.
TEST(CpuRun, ABranchDoesNotWaitForALevel) {
  struct State {
    std::atomic<bool> late_ran{false}, in_time{false};
  } state;
  const KernelRow slow{.name = "slow",
                       .code =
                           [](const KernelArgs& a) noexcept {
                             auto& s = *static_cast<State*>(a.user);
                             s.in_time = eventually([&] { return s.late_ran.load(); });
                           },
                       .user = &state};
  const KernelRow nothing{.name = "nothing", .code = [](const KernelArgs&) noexcept {}};
  const KernelRow late{
      .name = "late",
      .code = [](const KernelArgs& a) noexcept { static_cast<State*>(a.user)->late_ran = true; },
      .user = &state};
  OrderedRecording r;
  r.launches.resize(3);
  r.launches[0].kernel = &slow;
  r.launches[1].kernel = &nothing;
  r.launches[2].kernel = &late;
  r.launches[2].level = 1;
  r.level_offsets = {0, 2, 3};
  r.pred_offsets = {0, 0, 0, 1};
  r.preds = {1};
  const auto backend = open(2);
  auto recorded = testing::record(*backend, r);
  ASSERT_TRUE(recorded);
  run(*backend, **recorded);
  EXPECT_TRUE(state.in_time);
}

// Appends the step's first word to a list in memory, without atomics: submissions are ordered.
struct Log {
  std::uint64_t count = 0;
  std::array<std::uint64_t, 5000> values{};
};
void append_kernel(const KernelArgs& a) noexcept {
  Log& log = *static_cast<Log*>(a.user);
  log.values[log.count++] = *a.ptr<const std::uint64_t>(0);
}
OrderedRecording append_recording(const KernelRow& row, const Allocation& step) {
  OrderedRecording r = one_launch(row);
  r.step = BoundView{step, 0, step.bytes};
  r.launches[0].n_views = 1;
  r.launches[0].views[0] = r.step;
  return r;
}
std::span<const std::byte> bytes_of(const std::uint64_t& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Holds the worker that runs it until opened.
struct Gate {
  std::atomic<bool> open{false}, timed_out{false};
};
void gate_kernel(const KernelArgs& a) noexcept {
  Gate& gate = *static_cast<Gate*>(a.user);
  if (!eventually([&] { return gate.open.load(); })) gate.timed_out = true;
}

TEST(CpuSteps, QueuedSubmissionsKeepTheirOwnValues) {
  const auto backend = open(2, 256);
  const Memory step(*backend, 8), wide(*backend, 64);
  Log log;
  Gate gate;
  const KernelRow append{.name = "append", .code = append_kernel, .user = &log};
  const KernelRow hold{.name = "gate", .code = gate_kernel, .user = &gate};
  auto held = testing::record(*backend, one_launch(hold));
  auto recorded = testing::record(*backend, append_recording(append, *step));
  ASSERT_TRUE(held && recorded);

  std::vector<Completion> completions(202);
  ASSERT_TRUE(backend->submit(**held, {}, completions[0]));
  for (std::uint64_t i = 1; i <= 100; ++i)
    ASSERT_TRUE(backend->submit(**recorded, bytes_of(i), completions[i]));
  // Larger step states move what is queued.
  auto larger = testing::record(*backend, append_recording(append, *wide));
  ASSERT_TRUE(larger);
  for (std::uint64_t i = 101; i <= 200; ++i)
    ASSERT_TRUE(backend->submit(i % 2 ? **larger : **recorded, bytes_of(i), completions[i]));
  // Without values the state is what was written last.
  ASSERT_TRUE(backend->submit(**recorded, {}, completions[201]));
  EXPECT_FALSE(backend->poll(completions[201]));
  EXPECT_EQ(log.count, 0u);
  gate.open = true;
  backend->wait(completions[201]);
  EXPECT_FALSE(gate.timed_out);
  ASSERT_EQ(log.count, 201u);
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_EQ(log.values[i], i + 1);
  EXPECT_EQ(log.values[200], 200u);
  for (std::size_t i = 1; i < completions.size(); ++i) {
    EXPECT_TRUE(completions[i].done);
    EXPECT_LE(completions[i - 1].span.end_ns, completions[i].span.start_ns);
  }
}

TEST(CpuSubmit, AFullQueueBlocksAndGoesOn) {
  for (const std::uint32_t spin_us : {0u, 50u}) {
    const auto backend = open(2, 2, spin_us);
    const Memory step(*backend, 8);
    Log log;
    const KernelRow append{.name = "append", .code = append_kernel, .user = &log};
    auto recorded = testing::record(*backend, append_recording(append, *step));
    ASSERT_TRUE(recorded);
    std::vector<Completion> completions(3000);
    for (std::uint64_t i = 0; i < completions.size(); ++i)
      ASSERT_TRUE(backend->submit(**recorded, bytes_of(i), completions[i]));
    backend->wait(completions.back());
    ASSERT_EQ(log.count, completions.size());
    for (std::uint64_t i = 0; i < log.count; ++i) ASSERT_EQ(log.values[i], i);
  }
}

TEST(CpuSubmit, FromFourThreads) {
  for (const std::uint32_t workers : {1u, 2u, 3u}) {
    const auto backend = open(workers, 8);
    const Memory step(*backend, 8);
    Log log;
    const KernelRow append{.name = "append", .code = append_kernel, .user = &log};
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        auto recorded = testing::record(*backend, append_recording(append, *step));
        std::vector<Completion> completions(5);
        for (std::uint64_t i = 0; i < 1000; ++i) {
          Completion& c = completions[i % 5];
          if (i >= 5) backend->wait(c);
          const std::uint64_t value = t << 32 | i;
          if (!backend->submit(**recorded, bytes_of(value), c)) ++failures;
        }
        for (Completion& c : completions) backend->wait(c);
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(failures, 0);
    ASSERT_EQ(log.count, 4000u);
    std::array<std::uint64_t, 4> next{};
    for (std::uint64_t i = 0; i < 4000; ++i) {
      const std::uint64_t thread = log.values[i] >> 32;
      ASSERT_LT(thread, 4u);
      ASSERT_EQ(log.values[i] & 0xffffffffu, next[thread]++);
    }
  }
}

TEST(CpuWait, FromSeveralThreads) {
  for (const std::uint32_t workers : {1u, 2u, 4u}) {
    const auto backend = open(workers);
    const Program program = random_program(11, 30, 10);
    const Memory memory(*backend, 10 * cell_bytes);
    auto recorded = testing::record(*backend, make_recording(program, *memory, OrderKind::edges));
    ASSERT_TRUE(recorded);
    std::vector<std::uint64_t> expected(10 * cell_words, 0);
    for (int round = 0; round < 200; ++round) {
      std::array<Completion, 3> completions;
      for (Completion& c : completions) ASSERT_TRUE(backend->submit(**recorded, {}, c));
      std::vector<std::thread> waiters;
      std::atomic<int> early{0};
      for (std::size_t t = 0; t < 5; ++t) {
        waiters.emplace_back([&, t] {
          Completion& c = completions[t % 3];
          backend->wait(c);
          if (!c.done.load()) ++early;
        });
      }
      for (std::thread& t : waiters) t.join();
      ASSERT_EQ(early, 0);
      run_reference(program, expected, 3);
    }
    EXPECT_EQ(memory.words(), expected);
  }
}

TEST(CpuWait, NothingSubmittedReturnsAtOnce) {
  const auto backend = open(2);
  Completion completion;
  backend->wait(completion);
  EXPECT_FALSE(backend->poll(completion));
}

TEST(CpuWait, BackgroundWorkersFinishWithoutAWaiter) {
  const auto backend = open(2);
  const Program program = random_program(5, 50, 10);
  const Memory memory(*backend, 10 * cell_bytes);
  auto recorded = testing::record(*backend, make_recording(program, *memory, OrderKind::levels));
  ASSERT_TRUE(recorded);
  Completion completion;
  ASSERT_TRUE(backend->submit(**recorded, {}, completion));
  EXPECT_TRUE(eventually([&] { return backend->poll(completion); }));
}

// What host access rests on: the layer above waits for the newest one only.
TEST(CpuWait, WhatTheNewestSubmissionLeftIsThereToRead) {
  const auto backend = open(2);
  Gate gate;
  const KernelRow hold{.name = "gate", .code = gate_kernel, .user = &gate};
  const Program program = testing::chain_program(3, 2);
  const Memory memory(*backend, 2 * cell_bytes);
  auto held = testing::record(*backend, one_launch(hold));
  auto recorded = testing::record(*backend, make_recording(program, *memory, OrderKind::edges));
  ASSERT_TRUE(held && recorded);
  std::array<Completion, 2> completions;
  ASSERT_TRUE(backend->submit(**held, {}, completions[0]));
  ASSERT_TRUE(backend->submit(**recorded, {}, completions[1]));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gate.open = true;
  });
  std::vector<std::uint64_t> expected(2 * cell_words, 0);
  run_reference(program, expected);
  backend->wait(completions[1]);
  EXPECT_TRUE(completions[0].done && completions[1].done);
  EXPECT_EQ(memory.words(), expected);
  opener.join();
}

TEST(CpuRecord, MayBeDestroyedAsSoonAsDone) {
  const auto backend = open(4);
  const Program program = random_program(9, 8, 6);
  const Memory memory(*backend, 6 * cell_bytes);
  const OrderedRecording recording = make_recording(program, *memory, OrderKind::edges);
  std::vector<std::uint64_t> expected(6 * cell_words, 0);
  for (int i = 0; i < 2000; ++i) {
    auto recorded = testing::record(*backend, recording);
    ASSERT_TRUE(recorded);
    auto completion = std::make_unique<Completion>();
    ASSERT_TRUE(backend->submit(**recorded, {}, *completion));
    if (i % 2) {
      backend->wait(*completion);
    } else {
      ASSERT_TRUE(eventually([&] { return backend->poll(*completion); }));
    }
    completion.reset();
    recorded->reset();
  }
  run_reference(program, expected, 2000);
  EXPECT_EQ(memory.words(), expected);
}

TEST(CpuRecord, OutlivesTheRecordingAndKeepsWhatItUses) {
  const auto backend = open(2);
  const Program program = random_program(2, 40, 8);
  const Memory memory(*backend, 8 * cell_bytes);
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = kept;
  std::unique_ptr<Recorded> recorded;
  {
    OrderedRecording recording = make_recording(program, *memory, OrderKind::edges);
    recording.keep_alive = std::move(kept);
    recorded = testing::record(*backend, recording).value();
    for (RecordedLaunch& l : recording.launches) l.params.fill(std::byte{0xff});
  }
  EXPECT_FALSE(watch.expired());
  run(*backend, *recorded);
  std::vector<std::uint64_t> expected(8 * cell_words, 0);
  run_reference(program, expected);
  EXPECT_EQ(memory.words(), expected);
  recorded.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(CpuRecord, EmptyListsFencesAndLaunchesWithoutTiles) {
  for (const std::uint32_t threads : {1u, 2u}) {
    const auto backend = open(threads);
    OrderedRecording empty;
    auto nothing = testing::record(*backend, empty);
    ASSERT_TRUE(nothing);
    run(*backend, **nothing);

    Log log;
    const Memory step(*backend, 8);
    const KernelRow append{.name = "append", .code = append_kernel, .user = &log};
    OrderedRecording r = append_recording(append, *step);
    r.launches.insert(r.launches.begin(), 1, RecordedLaunch{});       // fence
    r.launches.insert(r.launches.begin() + 1, 1, r.launches.back());  // no tiles
    r.launches[1].launch.tiles = 0;
    r.launches.push_back(RecordedLaunch{});
    r.level_offsets = {0, 1, 2, 3, 4};
    r.pred_offsets = {0, 0, 1, 2, 3};
    r.preds = {0, 1, 2};
    auto recorded = testing::record(*backend, r);
    ASSERT_TRUE(recorded);
    std::array<Completion, 3> completions;
    ASSERT_TRUE(backend->submit(**nothing, {}, completions[0]));
    ASSERT_TRUE(backend->submit(**recorded, bytes_of(42), completions[1]));
    ASSERT_TRUE(backend->submit(**nothing, {}, completions[2]));
    backend->wait(completions[2]);
    EXPECT_TRUE(completions[0].done && completions[1].done && completions[2].done);
    ASSERT_EQ(log.count, 1u);
    EXPECT_EQ(log.values[0], 42u);
  }
}

TEST(CpuRecord, KernelWithoutCpuCodeIsAnError) {
  const auto backend = open(1);
  const KernelRow row{.name = "elsewhere_f32"};
  auto recorded = testing::record(*backend, one_launch(row));
  ASSERT_FALSE(recorded);
  EXPECT_EQ(recorded.error().code, ErrorCode::kernel_build);
  EXPECT_NE(recorded.error().message.find("elsewhere_f32"), std::string::npos);
}

TEST(CpuRecord, KernelsGetTheirArguments) {
  struct Seen {
    std::atomic<int> good{0};
  } seen;
  const auto check = [](const KernelArgs& a) noexcept {
    const bool good = a.n_views == 2 && a.bytes[0] == 16 && a.bytes[1] == 8 && a.tiles == 3 &&
                      a.tile < 3 && a.launch->variant == 5 && a.grid->grid[1] == 7 &&
                      a.data[1] - a.data[0] == 64 && a.scratch == a.data[0] + 128 &&
                      a.persistent == a.data[0] + 192 &&
                      a.params_as<testing::HashParams>().salt == 99;
    if (good) static_cast<Seen*>(a.user)->good += 1 << (8 * a.tile);
  };
  const KernelRow row{.name = "check", .code = check, .user = &seen};
  for (const std::uint32_t threads : {1u, 2u}) {
    const auto backend = open(threads);
    const Memory memory(*backend, 256);
    OrderedRecording r = one_launch(row, 3);
    RecordedLaunch& l = r.launches[0];
    l.n_views = 2;
    l.views[0] = BoundView{*memory, 0, 16};
    l.views[1] = BoundView{*memory, 64, 8};
    l.scratch = BoundView{*memory, 128, 64};
    l.persistent = BoundView{*memory, 192, 64};
    l.launch.variant = 5;
    l.grid.grid[1] = 7;
    const testing::HashParams params{99};
    std::memcpy(l.params.data(), &params, sizeof params);
    auto recorded = testing::record(*backend, r);
    ASSERT_TRUE(recorded);
    seen.good = 0;
    run(*backend, **recorded);
    EXPECT_EQ(seen.good, 0x010101);
  }
}

TEST(CpuTimes, SpansFollowTheEdges) {
  for (const std::uint32_t threads : {1u, 2u, 3u}) {
    const auto backend = open(threads);
    const Program program = random_program(21, 60, 10);
    const Memory memory(*backend, 10 * cell_bytes);
    OrderedRecording r = make_recording(program, *memory, OrderKind::edges);
    r.timed = true;
    auto recorded = testing::record(*backend, r);
    ASSERT_TRUE(recorded);
    for (int replay = 0; replay < 3; ++replay) {
      Completion completion;
      ASSERT_TRUE(backend->submit(**recorded, {}, completion));
      backend->wait(completion);
      std::vector<TimeSpan> spans(r.launches.size());
      ASSERT_TRUE(backend->timestamps(**recorded, spans));
      for (std::uint32_t i = 0; i < spans.size(); ++i) {
        EXPECT_LE(completion.span.start_ns, spans[i].start_ns);
        EXPECT_LE(spans[i].start_ns, spans[i].end_ns);
        EXPECT_LE(spans[i].end_ns, completion.span.end_ns);
        for (std::uint32_t p = r.pred_offsets[i]; p < r.pred_offsets[i + 1]; ++p)
          EXPECT_LE(spans[r.preds[p]].end_ns, spans[i].start_ns);
      }
    }
  }
}

TEST(CpuTimes, UntimedRecordingsHaveNone) {
  const auto backend = open(1);
  const KernelRow nothing{.name = "nothing", .code = [](const KernelArgs&) noexcept {}};
  auto recorded = testing::record(*backend, one_launch(nothing));
  ASSERT_TRUE(recorded);
  run(*backend, **recorded);
  std::array<TimeSpan, 1> spans;
  const Status status = backend->timestamps(**recorded, spans);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::invalid_state);
}

TEST(CpuOptions, AreTakenFromAmongThoseOfOthers) {
  const std::uint32_t all = cpu_features();
  const std::uint32_t base = *cpu_path_features("base");
  const auto backend =
      make_cpu_backend({.backend = {CudaOptions{}, CpuOptions{.threads = 3, .features = base}}});
  EXPECT_EQ(backend->info().compute_units, 3u);
  EXPECT_TRUE(feature_names(backend->info()).empty());
  const auto plain = make_cpu_backend({.backend = {CudaOptions{}}});
  EXPECT_EQ(plain->info().compute_units, os::core_count());
  EXPECT_EQ(plain->info().features, all);
}

TEST(CpuOptions, FeaturesHaveNamesAndPaths) {
  DeviceInfo info;
  info.features = cpu_path_features("avx512").value();
  EXPECT_EQ(feature_names(info), (std::vector<std::string>{"avx2", "avx512_vnni", "f16"}));
  for (const CpuPath& path : cpu_paths()) {
    EXPECT_EQ(cpu_path_features(path.name), path.features);
    EXPECT_STREQ(best_cpu_path(path.features).name, path.name);
  }
  EXPECT_EQ(cpu_path_features("best"), ~0u);
  EXPECT_EQ(cpu_path_features("fast"), std::nullopt);
  EXPECT_STREQ(best_cpu_path(feature_bits(Feature::f16, Feature::clusters)).name, "base");
}

TEST(CpuOptions, PinnedWorkersGiveTheSameBytes) {
  DeviceOptions options;
  options.backend = {CpuOptions{.threads = 2, .pin_threads = true}};
  const auto backend = make_cpu_backend(options);
  const Program program = random_program(4, 100, 12);
  const Memory memory(*backend, 12 * cell_bytes);
  auto recorded = testing::record(*backend, make_recording(program, *memory, OrderKind::edges));
  ASSERT_TRUE(recorded);
  run(*backend, **recorded);
  std::vector<std::uint64_t> expected(12 * cell_words, 0);
  run_reference(program, expected);
  EXPECT_EQ(memory.words(), expected);
}

}  // namespace
}  // namespace onepass
