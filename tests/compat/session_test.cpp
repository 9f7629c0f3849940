// Sessions and encoders: threads, manual barriers, options, memory rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "onepass/backends/cpu.h"
#include "support/devices.h"

namespace onepass::session_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Threads, BeginOnOneRecordOnAnotherFinishOnAThird) {
  for (const bool recorded : {false, true}) {
    const Device device = test::open_cpu();
    const KernelId kernel = test::add_kernel(device, "add_one", test::add_one, "io");
    const Buffer a = test::floats(device, {1, 2}), b = test::floats(device, {0, 0});
    std::optional<GraphSession> session;
    std::thread([&] {
      const GraphExecutor executor(device);
      session.emplace(recorded ? executor.begin_recorded() : executor.begin());
    }).join();
    std::thread([&] {
      session->encode(test::custom(kernel, {a.view(), b.view()}));
      session->encode(test::custom(kernel, {b.view(), a.view()}));
    }).join();
    std::thread([&] { EXPECT_TRUE(test::is_ok(session->finish())); }).join();
    EXPECT_THAT(test::read_floats(device, a.view()), ElementsAre(3, 4));
  }
}

// A launch function that stays inside commit until told to go on.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false, open = false;
};
Gate gate;

Status wait_at_gate(const DeviceInfo&, const Dispatch&, Launch&) {
  std::unique_lock lock(gate.mutex);
  gate.inside = true;
  gate.changed.notify_all();
  gate.changed.wait(lock, [] { return gate.open; });
  return {};
}

TEST(Threads, TwoInsideOneEncoderAreDetected) {
  gate.inside = gate.open = false;
  const Device device = test::open_cpu();
  const KernelId slow =
      *device.kernels().add({.name = "slow", .launch = wait_at_gate, .cpu = test::nothing});
  const KernelId noop = test::add_kernel(device, "noop", test::nothing);
  CommandEncoder encoder(device);
  encoder.encode(test::custom(slow, {}));
  std::thread other([&] { (void)encoder.commit_and_wait(); });
  {
    std::unique_lock lock(gate.mutex);
    gate.changed.wait(lock, [] { return gate.inside; });
  }
  encoder.encode(test::custom(noop, {}));  // while the other thread is inside commit
  EXPECT_EQ(encoder.validate().error().code, ErrorCode::invalid_state);
  {
    const std::lock_guard lock(gate.mutex);
    gate.open = true;
    gate.changed.notify_all();
  }
  other.join();
  const Status status = encoder.status();
  EXPECT_EQ(status.error().code, ErrorCode::invalid_state);
  EXPECT_THAT(status.error().message, HasSubstr("two threads"));
  EXPECT_EQ(encoder.commit().error().code, ErrorCode::invalid_state);
}

TEST(Threads, SecondCommandBufferIsEncodedWhileTheFirstRuns) {
  test::FaultDevice d({.hold = true, .wait_releases = false});
  const KernelId kernel = test::add_kernel(d.device, "add_one", test::add_one, "io");
  const Buffer a = test::floats(d.device, {1}), b = test::floats(d.device, {0}),
               c = test::floats(d.device, {0});
  CommandEncoder first(d.device);
  first.encode(test::custom(kernel, {a.view(), b.view()}));
  const Submission running = *first.commit();
  Submission second;
  std::thread([&] {
    CommandEncoder encoder(d.device);
    encoder.encode(test::custom(kernel, {b.view(), c.view()}));
    second = *encoder.commit();
  }).join();
  EXPECT_FALSE(running.is_done());
  d.fault->release_held();
  ASSERT_TRUE(second.wait());
  EXPECT_TRUE(running.is_done());
  EXPECT_THAT(test::read_floats(d.device, c.view()), ElementsAre(3));
}

TEST(Threads, ManySessionsOnOneDevice) {
  const Device device = test::open_cpu();
  const KernelId kernel = test::add_kernel(device, "add_one", test::add_one, "io");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&device, kernel] {
      const Buffer a = test::floats(device, {0}), b = test::floats(device, {0});
      for (int round = 0; round < 20; ++round) {
        GraphSession s = GraphExecutor(device).begin_recorded();
        s.encode(test::custom(kernel, {a.view(), b.view()}));
        s.encode(test::custom(kernel, {b.view(), a.view()}));
        EXPECT_TRUE(test::is_ok(s.finish()));
      }
      EXPECT_THAT(test::read_floats(device, a.view()), ElementsAre(40));
    });
  }
  for (std::thread& t : threads) t.join();
}

class Manual : public ::testing::Test {
 protected:
  void dispatch(const char* label, std::size_t r, std::size_t w) {
    Dispatch d = test::custom(io_, {b_[r], b_[w]});
    d.label = label;
    encoder_.encode(d);
  }
  Device device_ = *Device::open("null", {.barriers = Barriers::manual});
  KernelId io_ = test::add_kernel(device_, "io", test::nothing, "io");
  test::Buffers b_{device_};
  CommandEncoder encoder_{device_};
};

TEST_F(Manual, ValidateNamesTheMissingPair) {
  for (const bool capture : {false, true}) {
    CommandEncoder fresh(device_);
    encoder_ = std::move(fresh);
    if (capture) encoder_.start_capture();
    dispatch("producer", 0, 1);
    dispatch("bystander", 2, 3);
    dispatch("consumer", 1, 4);
    const Status status = encoder_.validate();
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr("producer"));
    EXPECT_THAT(status.error().message, HasSubstr("consumer"));
    EXPECT_THAT(status.error().message, ::testing::Not(HasSubstr("bystander")));
    EXPECT_FALSE(compat::CommandEncoder(encoder_).validate());
  }
}

TEST_F(Manual, ABarrierInTheRightPlaceSatisfiesIt) {
  dispatch("producer", 0, 1);
  dispatch("bystander", 2, 3);
  encoder_.memory_barrier();
  dispatch("consumer", 1, 4);
  EXPECT_TRUE(test::is_ok(encoder_.validate()));
  dispatch("late", 4, 5);
  EXPECT_FALSE(encoder_.validate());
  EXPECT_TRUE(encoder_.commit_and_wait());  // nothing is added, nothing is refused
  EXPECT_EQ(device_.counters().barriers, 1u);
}

TEST_F(Manual, BarrierBetweenPlacesThemInASession) {
  compat::GraphSession s = compat::GraphExecutor(device_).begin();
  s.encode(test::custom(io_, {b_[0], b_[1]}));
  s.track_dispatch({b_[0]}, {b_[1]});
  s.barrier_between({b_[2]}, {b_[3]});
  s.encode(test::custom(io_, {b_[2], b_[3]}));
  EXPECT_EQ(device_.counters().barriers, 0u);
  s.barrier_between({b_[1]}, {b_[4]});
  s.encode(test::custom(io_, {b_[1], b_[4]}));
  EXPECT_EQ(device_.counters().barriers, 1u);
  EXPECT_EQ(s.barrier_count(), 1u);
  EXPECT_TRUE(test::is_ok(s.encoder_mut().validate()));
}

TEST(Automatic, BarrierBetweenAddsNothingTheRangesDoNotNeed) {
  const Device device = *Device::open("null");
  const KernelId any = test::add_kernel(device, "any", test::nothing);
  const Buffer b = *device.allocate(256);
  compat::GraphSession s = compat::GraphExecutor(device).begin();
  // Two halves of one buffer: the ranges passed are exact, so no order is needed.
  s.barrier_between({}, {b.view(0, 128)});
  s.encode(test::custom(any, {b.view()}));
  s.barrier_between({}, {b.view(128, 128)});
  s.encode(test::custom(any, {b.view()}));
  EXPECT_EQ(device.counters().barriers, 0u);
  s.barrier_between({b.view(0, 256)}, {});
  s.encode(test::custom(any, {b.view()}));
  EXPECT_EQ(device.counters().barriers, 1u);
  EXPECT_EQ(device.counters().automatic_barriers, 1u);
}

TEST(Automatic, WithoutRangesEveryViewIsReadAndWritten) {
  const Device device = *Device::open("null");
  const KernelId any = test::add_kernel(device, "any", test::nothing);
  const Buffer b = *device.allocate(256);
  CommandEncoder encoder(device);
  encoder.encode(test::custom(any, {b.view(0, 128)}));
  encoder.encode(test::custom(any, {b.view(128, 128)}));
  EXPECT_EQ(device.counters().barriers, 0u);
  encoder.encode(test::custom(any, {b.view(64, 128)}));
  EXPECT_EQ(device.counters().barriers, 1u);
}

TEST(Automatic, FullFencesInEveryMode) {
  for (const Barriers mode : {Barriers::automatic, Barriers::manual}) {
    const Device device = *Device::open("null", {.barriers = mode});
    const KernelId io = test::add_kernel(device, "io", test::nothing, "io");
    test::Buffers b(device);
    CommandEncoder encoder(device);
    encoder.encode(test::custom(io, {b[0], b[1]}));
    encoder.force_barrier_and_reset_tracker();
    encoder.encode(test::custom(io, {b[2], b[3]}));
    EXPECT_EQ(device.counters().barriers, 1u);
    GraphSession s = GraphExecutor(device).begin();
    s.encode(test::custom(io, {b[0], b[1]}));
    s.barrier();
    EXPECT_EQ(device.counters().barriers, 2u);
  }
}

// A random program of additions; the result depends on every order that matters.
std::vector<float> run_program(const Device& device, bool recorded) {
  const KernelId mix = test::add_kernel(
      device, "mix",
      [](const KernelArgs& a) noexcept {
        const KernelArgs::Part part = a.part(16);
        for (std::uint64_t i = part.begin; i < part.end; ++i) {
          a.ptr<float>(2)[i] =
              0.5f * a.ptr<const float>(0)[15 - i] + 0.75f * a.ptr<const float>(1)[i] + 0.1f;
        }
      },
      "iio");
  std::vector<Buffer> cells;
  for (int i = 0; i < 12; ++i) {
    cells.push_back(test::floats(device, std::vector<float>(16, static_cast<float>(i) * 0.3f)));
  }
  GraphSession s =
      recorded ? GraphExecutor(device).begin_recorded() : GraphExecutor(device).begin();
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const auto pick = [&] { return random() % cells.size(); };
    const std::size_t a = pick(), b = pick();
    std::size_t out = pick();
    while (out == a || out == b) out = pick();
    Dispatch d = test::custom(mix, {cells[a].view(), cells[b].view(), cells[out].view()});
    d.grid = Grid::groups({4, 1, 1}, {1, 1, 1});
    s.encode(d);
  }
  EXPECT_TRUE(test::is_ok(s.finish()));
  std::vector<float> out;
  for (const Buffer& c : cells) {
    for (const float v : test::read_floats(device, c.view())) out.push_back(v);
  }
  return out;
}

TEST(Serial, EachDispatchWaitsForTheOneBefore) {
  for (const bool serial : {false, true}) {
    for (const bool recorded : {false, true}) {
      auto owned = std::make_unique<NullBackend>();
      NullBackend* null = owned.get();
      const Device device = test::open_with(std::move(owned), {.serial = serial});
      const KernelId io = test::add_kernel(device, "io", test::nothing, "io");
      test::Buffers b(device);
      const GraphExecutor executor(device);
      GraphSession s = recorded ? executor.begin_recorded() : executor.begin();
      s.encode(test::custom(io, {b[0], b[1]}));
      s.encode(test::custom(io, {b[2], b[3]}));
      ASSERT_TRUE(test::is_ok(s.finish()));
      ASSERT_EQ(null->recordings().size(), 1u);
      EXPECT_EQ(null->recordings()[0].order == OrderKind::in_order, serial);
    }
  }
}

TEST(Serial, GivesTheSameBits) {
  for (const bool recorded : {false, true}) {
    const auto parallel =
        run_program(test::open_cpu({.backend = {CpuOptions{.threads = 4}}}), recorded);
    EXPECT_EQ(parallel,
              run_program(test::open_cpu({.backend = {CpuOptions{.threads = 4}}, .serial = true}),
                          recorded));
    EXPECT_EQ(parallel,
              run_program(test::open_cpu({.backend = {CpuOptions{.threads = 1}}}), recorded));
    const auto shuffled = run_program(
        test::open_with(std::make_unique<ShuffleBackend>(ShuffleOptions{.seed = 3})), recorded);
    EXPECT_EQ(parallel, shuffled);
  }
}

TEST(RetainCaller, TheSubmissionHoldsNoReferences) {
  std::vector<std::string> log;
  for (const Retain retain : {Retain::submission, Retain::caller}) {
    log.clear();
    test::FaultDevice d({.hold = true}, {.retain = retain, .log = [&](auto category, auto) {
                                           log.emplace_back(category);
                                         }});
    const KernelId noop = test::add_kernel(d.device, "noop", test::nothing);
    Buffer b = *d.device.allocate(64);
    const BufferId id = b.id();
    CommandEncoder encoder(d.device);
    encoder.encode(test::custom(noop, {b.view()}));
    const Submission s = *encoder.commit();
    EXPECT_EQ(d.device.state().references(id), retain == Retain::submission ? 2u : 1u);
    b.reset();
    EXPECT_EQ(d.device.state().is_live(id), retain == Retain::submission);
    ASSERT_TRUE(s.wait());
#ifndef NDEBUG
    // Debug builds tell about a buffer that went too early.
    EXPECT_EQ(log.size(), retain == Retain::caller ? 1u : 0u);
#endif
  }
}

TEST(RetainCaller, KeepingTheBufferIsSilent) {
  std::vector<std::string> log;
  const Device device = test::open_cpu(
      {.retain = Retain::caller, .log = [&](auto category, auto) { log.emplace_back(category); }});
  const KernelId kernel = test::add_kernel(device, "add_one", test::add_one, "io");
  const Buffer a = test::floats(device, {1}), b = test::floats(device, {0});
  CommandEncoder encoder(device);
  encoder.encode(test::custom(kernel, {a.view(), b.view()}));
  ASSERT_TRUE(encoder.commit_and_wait());
  EXPECT_THAT(test::read_floats(device, b.view()), ElementsAre(2));
  EXPECT_THAT(log, IsEmpty());
}

TEST(Immutable, WritesAreRefusedReadsAreFree) {
  const Device device = test::open_cpu();
  const KernelId io = test::add_kernel(device, "io", test::add_one, "io");
  const KernelId any = test::add_kernel(device, "any", test::nothing);
  Buffer weight = test::floats(device, {1, 2});
  const Buffer out = test::floats(device, {0, 0});
  ASSERT_TRUE(weight.set_immutable());

  CommandEncoder reads(device);
  reads.encode(test::custom(io, {weight.view(), out.view()}));
  EXPECT_EQ(reads.mem_ranges_len(), 1u);  // immutable memory is no hazard
  ASSERT_TRUE(test::is_ok(reads.commit_and_wait()));
  EXPECT_THAT(test::read_floats(device, out.view()), ElementsAre(2, 3));

  CommandEncoder declared(device);
  declared.encode(test::custom(io, {out.view(), weight.view()}));
  EXPECT_EQ(declared.status().error().code, ErrorCode::invalid_argument);

  CommandEncoder assumed(device);
  assumed.encode(test::custom(any, {weight.view()}));
  EXPECT_EQ(assumed.status().error().code, ErrorCode::invalid_argument);

  compat::CommandEncoder passed(device);
  passed.dispatch_tracked_threadgroups(any, {{0, weight.view()}}, {weight.view()}, {}, {1, 1, 1},
                                       {1, 1, 1});
  EXPECT_TRUE(test::is_ok(passed.status()));
  passed.dispatch_tracked_threadgroups(any, {{0, weight.view()}}, {}, {weight.view()}, {1, 1, 1},
                                       {1, 1, 1});
  EXPECT_EQ(passed.status().error().code, ErrorCode::invalid_argument);
}

TEST(Immutable, ReadOnlyNodesReplay) {
  const Device device = test::open_cpu();
  const KernelId any = test::add_kernel(device, "any", test::nothing);
  Buffer weight = test::floats(device, {1, 2});
  ASSERT_TRUE(weight.set_immutable());
  compat::GraphSession s = compat::GraphExecutor(device).begin_recorded();
  s.barrier_between({weight.view()}, {});
  s.encoder_mut().encode(any, {{0, weight.view()}}, {1, 1, 1}, {1, 1, 1});
  EXPECT_TRUE(test::is_ok(s.finish_with_fusion_and_reorder()));
}

TEST(Scratch, OfAnotherSessionIsRefused) {
  const Device device = *Device::open("null");
  const KernelId any = test::add_kernel(device, "any", test::nothing);
  GraphSession a = GraphExecutor(device).begin_recorded();
  const Tensor t = a.scratch(DType::f32, {16});
  a.encode(test::custom(any, {t.view}));
  EXPECT_TRUE(test::is_ok(a.status()));
  GraphSession b = GraphExecutor(device).begin_recorded();
  b.encode(test::custom(any, {t.view}));
  EXPECT_EQ(b.status().error().code, ErrorCode::stale);
  ASSERT_TRUE(a.finish());
  GraphSession c = GraphExecutor(device).begin_recorded();
  c.encode(test::custom(any, {t.view}));
  EXPECT_EQ(c.status().error().code, ErrorCode::stale);
  EXPECT_FALSE(device.read(t.view, {}));  // no host access
}

TEST(Scratch, TravelsWithItsNodes) {
  const Device device = test::open_cpu();
  const KernelId kernel = test::add_kernel(device, "add_one", test::add_one, "io");
  const Buffer a = test::floats(device, {1}), b = test::floats(device, {0});
  std::vector<CapturedNode> nodes;
  {
    GraphSession s = GraphExecutor(device).begin_recorded();
    const Tensor t = s.scratch(DType::f32, {1});
    s.encode(test::custom(kernel, {a.view(), t.view}));
    s.encode(test::custom(kernel, {t.view, b.view()}));
    ComputeGraph graph = *s.encoder().take_capture();
    nodes = std::move(graph).into_nodes();
  }
  const ComputeGraph g = *ComputeGraph::from_nodes(device, nodes);
  CommandEncoder encoder(device);
  ASSERT_TRUE(test::is_ok(g.encode_with_barriers(encoder)));
  ASSERT_TRUE(test::is_ok(encoder.commit_and_wait()));
  EXPECT_THAT(test::read_floats(device, b.view()), ElementsAre(3));
}

TEST(Discard, LetsAnIntermediateBeFusedAway) {
  const Device device = test::open_cpu();
  const Buffer x = test::floats(device, {3, 4}), w = test::floats(device, {1, 1}),
               scale = test::floats(device, {2, 2}), out = test::floats(device, {0, 0});
  for (const bool discard : {false, true}) {
    const Buffer middle = test::floats(device, {-7, -7});
    compat::GraphSession s = compat::GraphExecutor(device).begin_recorded();
    const Shape row{1, 2};
    s.rms_norm(x.tensor(DType::f32, row), w.tensor(DType::f32, {2}), middle.tensor(DType::f32, row),
               0.0f, 1, 2);
    s.elementwise_mul(middle.view(), scale.view(), out.view(), 2, DType::f32);
    if (discard) s.discard(middle.view());
    const Result<FinishReport> report = s.finish_with_fusion();
    ASSERT_TRUE(test::is_ok(report));
    EXPECT_EQ(report->fused.count, 1u);
    const float rms = std::sqrt(12.5f);
    const auto got = test::read_floats(device, out.view());
    EXPECT_NEAR(got[0], 6.0f / rms, 1e-6);
    EXPECT_NEAR(got[1], 8.0f / rms, 1e-6);
    // What a caller may look at is written; what was discarded need not be.
    EXPECT_EQ(test::read_floats(device, middle.view())[0] == -7.0f, discard);
  }
}

TEST(Discard, TravelsWithTheGraph) {
  const Device device = test::open_cpu();
  const Buffer x = test::floats(device, {3, 4}), w = test::floats(device, {1, 1}),
               scale = test::floats(device, {2, 2}), out = test::floats(device, {0, 0});
  compat::GraphSession s = compat::GraphExecutor(device).begin_recorded();
  const Shape row{1, 2};
  const Tensor middle = s.scratch(DType::f32, row);
  s.rms_norm(x.tensor(DType::f32, row), w.tensor(DType::f32, {2}), middle, 0.0f, 1, 2);
  s.elementwise_mul(middle.view, scale.view(), out.view(), 2, DType::f32);
  ComputeGraph graph = s.encoder_mut().take_capture().value();
  const Result<FuseReport> fused = graph.fuse(device);
  ASSERT_TRUE(test::is_ok(fused));
  EXPECT_EQ(fused->count, 1u);
  EXPECT_EQ(graph.dispatch_count(), 1u);
}

TEST(ImportHost, OverlappingImportsShareARegion) {
  const Device device = test::open_cpu({.backend = {CpuOptions{.threads = 4}}});
  const KernelId kernel = test::add_kernel(device, "add_one", test::add_one, "io");
  alignas(64) std::array<float, 64> memory{};
  const auto bytes = std::as_writable_bytes(std::span(memory));
  const Buffer all = *device.import_host(bytes), tail = *device.import_host(bytes.subspan(128));
  const Buffer out = *device.allocate(128);
  device.reset_counters();
  for (const bool recorded : {false, true}) {
    memory.fill(0.0f);
    const GraphExecutor executor(device);
    GraphSession s = recorded ? executor.begin_recorded() : executor.begin();
    s.encode(test::custom(kernel, {all.view(0, 128), all.view(128, 128)}));  // memory[32..] = 1
    s.encode(test::custom(kernel, {tail.view(), out.view()}));               // reads them
    s.encode(test::custom(kernel, {out.view(), tail.view()}));
    const FinishReport report = *s.finish();
    if (recorded) {
      EXPECT_EQ(report.barrier_count(), 2u);
    }
    EXPECT_EQ(memory[32], 3.0f);
    EXPECT_EQ(memory[31], 0.0f);
  }
}

TEST(ImportHost, NeedsUnifiedMemoryAndBytes) {
  const Device device = test::open_cpu();
  EXPECT_EQ(device.import_host({}).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace onepass::session_test
