#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cuda.h"
#include "backends/cuda/recording.h"
#include "backends/fake_cuda_driver.h"
#include "core/device_state.h"
#include "core/free_memory.h"
#include "onepass/ops.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/launch_cuda.h"
#include "ops/matmul/params.h"
#include "support/recordings.h"

namespace onepass {
namespace {

using testing::FakeDriver;
using testing::FakeGraph;
using testing::FakeNode;
using testing::OrderedRecording;
using Edges = std::set<std::pair<std::size_t, std::size_t>>;

constexpr std::array<KernelRow, 2> test_rows{
    KernelRow{.name = "hash", .code = CudaSymbol{"hash"}},
    KernelRow{.name = "other", .code = CudaSymbol{"other"}},
};
const char some_image[] = "image", other_image[] = "image";
const std::array<cuda::KernelImage, 2> test_images{
    cuda::KernelImage{std::span(test_rows).first(1), some_image},
    cuda::KernelImage{std::span(test_rows).last(1), other_image},
};

class CudaGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    fake().reset();
    open();
  }
  void TearDown() override {
    close();
    EXPECT_EQ(fake().live(), 0u);
    fake().reset();
  }

  static FakeDriver& fake() { return FakeDriver::get(); }
  static const cuda::Driver& driver() {
    static const cuda::Driver table = FakeDriver::table();
    return table;
  }
  void open(const DeviceOptions& options = {}) {
    close();
    auto opened = cuda::open_device(driver(), test_images, 0, options);
    ASSERT_TRUE(opened) << opened.error().to_string();
    backend = std::move(*opened);
    auto allocated = backend->allocate(64 * testing::cell_bytes, MemoryKind::device, true);
    ASSERT_TRUE(allocated) << allocated.error().to_string();
    memory = *allocated;
  }
  void close() {
    if (!backend) return;
    backend->release(memory);
    backend.reset();
  }
  std::unique_ptr<Recorded> record(const OrderedRecording& recording) {
    auto recorded = testing::record(*backend, recording);
    EXPECT_TRUE(recorded) << recorded.error().to_string();
    return recorded ? std::move(*recorded) : nullptr;
  }

  std::unique_ptr<Backend> backend;
  Allocation memory;
};

// True where `to` comes after `from` in every order the edges allow.
bool reaches(const FakeGraph& graph, std::size_t from, std::size_t to) {
  std::vector<bool> seen(graph.nodes.size(), false);
  seen[from] = true;
  // Edges are sorted by their source, and every edge leads forward.
  for (const auto& [a, b] : graph.edges) {
    if (seen[a]) seen[b] = true;
  }
  return seen[to];
}

Edges edges_of(const OrderedRecording& r) {
  Edges edges;
  for (std::uint32_t i = 0; i < r.launches.size(); ++i) {
    for (std::uint32_t p = r.pred_offsets[i]; p < r.pred_offsets[i + 1]; ++p) {
      edges.emplace(r.preds[p], i);
    }
  }
  return edges;
}

TEST_F(CudaGraph, NodesAndEdgesAreTheRecordings) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto program = testing::random_program(seed, 60, 16, 0.1);
    const OrderedRecording recording =
        testing::make_recording(program, memory, OrderKind::edges, test_rows[0]);
    const auto recorded = record(recording);
    ASSERT_TRUE(recorded);
    const FakeGraph& graph = fake().instantiated.back();
    ASSERT_EQ(graph.nodes.size(), recording.launches.size());
    EXPECT_EQ(graph.edges, edges_of(recording));
    EXPECT_FALSE(graph.twice);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const RecordedLaunch& l = recording.launches[i];
      const FakeNode& node = graph.nodes[i];
      ASSERT_EQ(node.kind, l.is_fence() ? FakeNode::Kind::empty : FakeNode::Kind::kernel);
      if (l.is_fence()) continue;
      EXPECT_EQ(node.function, "hash");
      for (std::size_t v = 0; v < l.n_views; ++v) {
        EXPECT_EQ(reinterpret_cast<std::uint64_t>(node.args.views[v]),
                  memory.handle + l.views[v].offset);
      }
      for (std::size_t v = l.n_views; v < max_views; ++v) EXPECT_EQ(node.args.views[v], nullptr);
      EXPECT_EQ(std::memcmp(node.args.params, l.params.data(), max_params_bytes), 0);
    }
  }
  EXPECT_EQ(fake().loads, 1u) << "the image is loaded once, the other one never";
}

TEST_F(CudaGraph, RepeatedPredecessorsBecomeOneEdge) {
  OrderedRecording r =
      testing::make_recording(testing::chain_program(2, 1), memory, OrderKind::edges, test_rows[0]);
  r.preds = {0, 0};
  r.pred_offsets = {0, 0, 2};
  const auto recorded = record(r);
  EXPECT_EQ(fake().instantiated.back().edges, (Edges{{0, 1}}));
  EXPECT_FALSE(fake().instantiated.back().twice);
}

TEST_F(CudaGraph, LevelsBecomePathsFromEveryLaunchToTheNextLevel) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto program = testing::random_program(seed, 40, 24, 0.05);
    const OrderedRecording recording =
        testing::make_recording(program, memory, OrderKind::levels, test_rows[0]);
    ASSERT_GT(recording.n_levels(), 1u);
    const auto recorded = record(recording);
    ASSERT_TRUE(recorded);
    const FakeGraph& graph = fake().instantiated.back();

    // Launch i is node[i]; joins are what cuda::graph_shape says has no launch.
    const cuda::GraphShape shape = cuda::graph_shape(recording, recording.order());
    std::vector<std::size_t> node(recording.launches.size());
    std::size_t joins = 0;
    for (std::size_t n = 0; n < shape.nodes.size(); ++n) {
      if (shape.nodes[n].launch == cuda::GraphShape::no_launch) {
        EXPECT_EQ(graph.nodes[n].kind, FakeNode::Kind::empty);
        ++joins;
      } else {
        node[shape.nodes[n].launch] = n;
      }
    }
    std::size_t expected_joins = 0, previous = 0;
    for (std::uint32_t level = 0; level < recording.n_levels(); ++level) {
      const std::size_t size = recording.level_offsets[level + 1] - recording.level_offsets[level];
      if (level > 0 && size > 1 && previous > 1) ++expected_joins;
      previous = size;
    }
    EXPECT_EQ(joins, expected_joins);
    for (std::size_t i = 0; i < node.size(); ++i) {
      for (std::size_t j = i + 1; j < node.size(); ++j) {
        const bool ordered = recording.launches[i].level < recording.launches[j].level;
        EXPECT_EQ(reaches(graph, node[i], node[j]), ordered) << i << " and " << j;
      }
    }
  }
}

TEST_F(CudaGraph, EmptyLevelsSeparateNothing) {
  OrderedRecording r = testing::make_recording(testing::chain_program(3, 1), memory,
                                               OrderKind::levels, test_rows[0]);
  r.level_offsets = {0, 1, 1, 2, 3, 3};
  const auto recorded = record(r);
  EXPECT_EQ(fake().instantiated.back().edges, (Edges{{0, 1}, {1, 2}}));
}

TEST_F(CudaGraph, SerialIsAChain) {
  const auto program = testing::random_program(3, 30, 30, 0.1);
  OrderedRecording recording =
      testing::make_recording(program, memory, OrderKind::edges, test_rows[0]);
  recording.serial = true;
  const auto recorded = record(recording);
  Edges chain;
  for (std::size_t i = 1; i < program.size(); ++i) chain.emplace(i - 1, i);
  EXPECT_EQ(fake().instantiated.back().edges, chain);
}

TEST_F(CudaGraph, LaunchesKeepTheirSizes) {
  OrderedRecording r = testing::one_launch(test_rows[0]);
  r.launches[0].launch.grid = {7, 5, 3};
  r.launches[0].launch.group = {64, 2, 1};
  r.launches[0].launch.shared_bytes = 100 << 10;
  r.launches[0].scratch = BoundView{memory, 256, 512};
  r.launches[0].persistent = BoundView{memory, 1024, 512};
  const auto recorded = record(r);
  const FakeNode& node = fake().instantiated.back().nodes.at(0);
  EXPECT_EQ(node.params.gridDimX, 7u);
  EXPECT_EQ(node.params.gridDimY, 5u);
  EXPECT_EQ(node.params.gridDimZ, 3u);
  EXPECT_EQ(node.params.blockDimX, 64u);
  EXPECT_EQ(node.params.blockDimY, 2u);
  EXPECT_EQ(node.params.blockDimZ, 1u);
  EXPECT_EQ(node.params.sharedMemBytes, 100u << 10);
  EXPECT_EQ(fake().shared_limit, 100 << 10) << "more than 48 KiB has to be asked for";
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(node.args.scratch), memory.handle + 256);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(node.args.persistent), memory.handle + 1024);
}

TEST_F(CudaGraph, WhatRunsOnceIsLaunchedInOrderWithoutAGraph) {
  OrderedRecording r = testing::make_recording(testing::random_program(4, 20, 8, 0.2), memory,
                                               OrderKind::levels, test_rows[0]);
  r.replayed = false;
  const auto recorded = record(r);
  Completion completion;
  ASSERT_TRUE(backend->submit(*recorded, {}, completion));
  backend->wait(completion);
  EXPECT_FALSE(completion.failed);
  EXPECT_TRUE(fake().instantiated.empty());
  std::size_t i = 0;
  for (const RecordedLaunch& l : r.launches) {
    if (l.is_fence()) continue;
    ASSERT_LT(i, fake().direct.size());
    const FakeNode& node = fake().direct[i++];
    EXPECT_EQ(node.function, "hash");
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(node.args.views[l.n_views - 1u]),
              memory.handle + l.views[l.n_views - 1u].offset);
    EXPECT_EQ(std::memcmp(node.args.params, l.params.data(), max_params_bytes), 0);
  }
  EXPECT_EQ(fake().direct.size(), i);
}

TEST_F(CudaGraph, AVariantIsAnotherEntryPointAndValuesReachTheKernel) {
  static constexpr const char* variants[] = {"other", "hash"};
  const KernelRow row{.name = "hash", .code = CudaSymbol{"hash", variants}};
  OrderedRecording r = testing::one_launch(row);
  r.launches[0].launch.variant = 1;
  r.launches[0].launch.n_spec = 2;
  r.launches[0].launch.spec[0] = {3, 17};
  r.launches[0].launch.spec[1] = {0, -1};
  ASSERT_TRUE(record(r));
  const FakeNode& node = fake().instantiated.back().nodes.at(0);
  EXPECT_EQ(node.function, "other");
  EXPECT_EQ(node.args.values[3], 17u);
  EXPECT_EQ(node.args.values[0], 0xffffffffu);
  EXPECT_EQ(node.args.values[1], 0u);
  r.launches[0].launch.variant = 3;
  const auto missing = testing::record(*backend, r);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kernel_build);
}

TEST_F(CudaGraph, ALaunchWithoutGroupsRunsNothingAndKeepsItsPlace) {
  OrderedRecording r =
      testing::make_recording(testing::chain_program(3, 1), memory, OrderKind::edges, test_rows[0]);
  r.launches[1].launch.grid = {4, 0, 1};
  const auto recorded = record(r);
  const FakeGraph& graph = fake().instantiated.back();
  EXPECT_EQ(graph.nodes[1].kind, FakeNode::Kind::empty);
  EXPECT_TRUE(reaches(graph, 0, 2));
  EXPECT_EQ(graph.edges, edges_of(r));
}

TEST_F(CudaGraph, TimedKernelsStandBetweenTheirEvents) {
  const auto program = testing::random_program(5, 30, 12, 0.1);
  OrderedRecording recording =
      testing::make_recording(program, memory, OrderKind::edges, test_rows[0]);
  recording.timed = true;
  auto recorded = record(recording);
  ASSERT_TRUE(recorded);
  const FakeGraph& graph = fake().instantiated.back();
  const cuda::GraphShape shape = cuda::graph_shape(recording, recording.order());
  std::vector<std::size_t> first(program.size()), last(program.size());
  Edges expected;
  for (std::size_t n = 0; n < shape.nodes.size(); ++n) {
    const std::uint32_t launch = shape.nodes[n].launch;
    ASSERT_LT(launch, program.size());
    if (graph.nodes[n].kind == FakeNode::Kind::empty) {
      first[launch] = last[launch] = n;
    } else if (graph.nodes[n].kind == FakeNode::Kind::kernel) {
      first[launch] = n - 1;
      last[launch] = n + 1;
      EXPECT_EQ(graph.nodes[n - 1].kind, FakeNode::Kind::event);
      EXPECT_EQ(graph.nodes[n + 1].kind, FakeNode::Kind::event);
      expected.emplace(n - 1, n);
      expected.emplace(n, n + 1);
    }
  }
  for (const auto& [from, to] : edges_of(recording)) expected.emplace(last[from], first[to]);
  EXPECT_EQ(graph.edges, expected);

  Completion completion;
  ASSERT_TRUE(backend->submit(*recorded, {}, completion));
  backend->wait(completion);
  ASSERT_FALSE(completion.failed);
  std::vector<TimeSpan> spans(program.size());
  ASSERT_TRUE(backend->timestamps(*recorded, spans));
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (recording.launches[i].is_fence()) continue;
    EXPECT_LT(spans[i].start_ns, spans[i].end_ns);
    EXPECT_GE(spans[i].start_ns, completion.span.start_ns);
    EXPECT_LE(spans[i].end_ns, completion.span.end_ns + 1);
  }
  const auto untimed = record(testing::one_launch(test_rows[0]));
  const Status none = backend->timestamps(*untimed, spans);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::invalid_state);
}

TEST_F(CudaGraph, AnEmptyRecordingCompletes) {
  OrderedRecording r;
  r.level_offsets = {0};
  r.pred_offsets = {0};
  auto recorded = record(r);
  Completion completion;
  ASSERT_TRUE(backend->submit(*recorded, {}, completion));
  backend->wait(completion);
  EXPECT_TRUE(completion.done);
  EXPECT_FALSE(completion.failed);
  EXPECT_TRUE(fake().launched.empty());
}

TEST_F(CudaGraph, StepBytesArriveBeforeTheGraphFromSlotsOfTheirOwn) {
  open({.command_buffers = 8});
  OrderedRecording r = testing::one_launch(test_rows[0]);
  r.step = BoundView{memory, 512, 48};
  const auto recorded = record(r);
  fake().hold();
  fake().stream_work.clear();
  fake().copy_sources.clear();
  std::array<Completion, 8> completions;
  std::array<std::byte, 48> bytes{};
  for (std::size_t i = 0; i < completions.size(); ++i) {
    bytes.fill(static_cast<std::byte>(i + 1));
    ASSERT_TRUE(backend->submit(*recorded, bytes, completions[i]));
  }
  EXPECT_EQ(std::vector(fake().stream_work.begin(), fake().stream_work.begin() + 5),
            (std::vector<std::string>{"event", "copy in", "graph", "kernel", "event"}));
  const std::set<const void*> sources(fake().copy_sources.begin(), fake().copy_sources.end());
  EXPECT_EQ(sources.size(), completions.size()) << "none may be overwritten while in flight";
  for (Completion& c : completions) backend->wait(c);
  std::array<std::byte, 50> got{};
  ASSERT_TRUE(backend->read(memory, 511, got));
  EXPECT_EQ(got.front(), std::byte{0});
  EXPECT_EQ(got.back(), std::byte{0});
  EXPECT_EQ(std::count(got.begin() + 1, got.end() - 1, std::byte{8}), 48);
}

TEST_F(CudaGraph, SubmittingAllocatesNothing) {
  OrderedRecording r =
      testing::make_recording(testing::chain_program(4, 1), memory, OrderKind::edges, test_rows[0]);
  r.step = BoundView{memory, 0, 48};
  const auto recorded = record(r);
  const std::size_t before = fake().live();
  std::array<std::byte, 48> bytes{};
  for (int i = 0; i < 200; ++i) {
    Completion completion;
    ASSERT_TRUE(backend->submit(*recorded, bytes, completion));
    backend->wait(completion);
    ASSERT_EQ(fake().live(), before);
  }
  EXPECT_EQ(fake().launched.size(), 200u);
  EXPECT_EQ(fake().instantiated.size(), 1u);
}

TEST_F(CudaGraph, QueuedPassesAreOneLaunchBetweenTwoEventsEach) {
  OrderedRecording r = testing::one_launch(test_rows[0]);
  r.step = BoundView{memory, 0, 48};
  const auto recorded = record(r);
  fake().hold();
  fake().stream_work.clear();
  fake().syncs = fake().waits = 0;
  const std::size_t before = fake().live();
  std::array<Completion, 16> completions;
  // Without new values the device goes on with what it wrote itself.
  for (Completion& c : completions) ASSERT_TRUE(backend->submit(*recorded, {}, c));
  EXPECT_EQ(fake().live(), before);
  EXPECT_EQ(fake().syncs + fake().waits, 0u);
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    for (const char* work : {"event", "graph", "kernel", "event"}) expected.emplace_back(work);
  }
  EXPECT_EQ(fake().stream_work, expected);
  for (Completion& c : completions) backend->wait(c);
}

TEST_F(CudaGraph, CompletionsFollowTheStream) {
  const auto recorded = record(testing::one_launch(test_rows[0]));
  fake().hold();
  Completion first, second, third;
  ASSERT_TRUE(backend->submit(*recorded, {}, first));
  ASSERT_TRUE(backend->submit(*recorded, {}, second));
  ASSERT_TRUE(backend->submit(*recorded, {}, third));
  EXPECT_FALSE(backend->poll(first));
  EXPECT_FALSE(first.done);
  backend->wait(second);
  EXPECT_TRUE(first.done);
  EXPECT_TRUE(second.done);
  EXPECT_FALSE(backend->poll(third));
  fake().complete_all();
  EXPECT_TRUE(backend->poll(third));
  EXPECT_LT(first.span.start_ns, first.span.end_ns);
  EXPECT_LE(first.span.end_ns, second.span.start_ns);
  EXPECT_LE(second.span.end_ns, third.span.start_ns);
}

TEST_F(CudaGraph, SubmissionsInFlightAreBounded) {
  open({.command_buffers = 2});
  const auto recorded = record(testing::one_launch(test_rows[0]));
  fake().hold();
  std::array<Completion, 7> completions;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    ASSERT_TRUE(backend->submit(*recorded, {}, completions[i]));
    if (i >= 2) {
      EXPECT_TRUE(completions[i - 2].done);
    }
    if (i >= 1) {
      EXPECT_FALSE(completions[i - 1].done);
    }
  }
  backend->wait(completions.back());
  for (std::size_t i = 1; i < completions.size(); ++i) {
    EXPECT_LE(completions[i - 1].span.end_ns, completions[i].span.start_ns);
    EXPECT_LT(completions[i].span.start_ns, completions[i].span.end_ns);
  }
}

TEST_F(CudaGraph, ABrokenDeviceFailsWhatIsInFlight) {
  const auto recorded = record(testing::one_launch(test_rows[0]));
  fake().hold();
  Completion first, second;
  ASSERT_TRUE(backend->submit(*recorded, {}, first));
  ASSERT_TRUE(backend->submit(*recorded, {}, second));
  fake().break_device(CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(backend->poll(first));
  backend->wait(second);
  for (const Completion* c : {&first, &second}) {
    EXPECT_TRUE(c->done);
    EXPECT_TRUE(c->failed);
    EXPECT_EQ(c->code, ErrorCode::device_lost);
    EXPECT_STREQ(c->text, "cuda: CUDA_ERROR_FAKE");
  }
  fake().break_device(CUDA_SUCCESS);
}

TEST_F(CudaGraph, EveryFunctionSaysThatTheContextIsGone) {
  const auto recorded = record(testing::one_launch(test_rows[0]));
  fake().hold();
  Completion first, second;
  ASSERT_TRUE(backend->submit(*recorded, {}, first));
  ASSERT_TRUE(backend->submit(*recorded, {}, second));
  auto upload = backend->allocate(64, MemoryKind::upload, true);
  ASSERT_TRUE(upload);
  fake().break_contexts(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  const auto is_lost = [](const auto& result) {
    return !result && result.error().code == ErrorCode::device_lost;
  };
  std::array<std::byte, 4> bytes{};
  Completion third;
  EXPECT_TRUE(is_lost(backend->allocate(64, MemoryKind::device, true)));
  EXPECT_TRUE(is_lost(backend->write(memory, 0, bytes)));
  EXPECT_TRUE(is_lost(backend->read(memory, 0, bytes)));
  EXPECT_TRUE(is_lost(backend->map(*upload)));
  EXPECT_TRUE(is_lost(testing::record(*backend, testing::one_launch(test_rows[0]))));
  EXPECT_TRUE(is_lost(backend->submit(*recorded, {}, third)));
  EXPECT_FALSE(third.done);
  EXPECT_TRUE(backend->poll(first));
  backend->wait(second);
  EXPECT_TRUE(first.failed && second.failed);
  fake().break_contexts(CUDA_SUCCESS);
  backend->release(*upload);
}

TEST_F(CudaGraph, KernelsWithoutCodeAreNamed) {
  const KernelRow no_symbol{.name = "host_only"};
  const KernelRow unknown{.name = "elsewhere", .code = CudaSymbol{"elsewhere"}};
  for (const KernelRow* row : {&no_symbol, &unknown}) {
    const auto recorded = testing::record(*backend, testing::one_launch(*row));
    ASSERT_FALSE(recorded);
    EXPECT_EQ(recorded.error().code, ErrorCode::kernel_build);
    EXPECT_THAT(recorded.error().message, ::testing::HasSubstr(row->name));
  }
}

TEST_F(CudaGraph, MemoryKinds) {
  const std::size_t size = (9u << 20) + 5;
  std::vector<std::byte> out(size), in(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(testing::mix(i));
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::upload, MemoryKind::readback}) {
    auto m = backend->allocate(size + 3, kind, true);
    ASSERT_TRUE(m);
    EXPECT_EQ(m->host != nullptr, kind != MemoryKind::device);
    ASSERT_TRUE(backend->write(*m, 3, out));
    ASSERT_TRUE(backend->read(*m, 3, in));
    EXPECT_TRUE(in == out);
    std::array<std::byte, 3> head{std::byte{1}, std::byte{1}, std::byte{1}};
    ASSERT_TRUE(backend->read(*m, 0, head));
    EXPECT_EQ(head, (std::array<std::byte, 3>{}));
    const auto mapped = backend->map(*m);
    if (kind == MemoryKind::device) {
      ASSERT_FALSE(mapped);
      EXPECT_EQ(mapped.error().code, ErrorCode::unsupported);
    } else {
      ASSERT_TRUE(mapped);
      EXPECT_EQ(std::memcmp(*mapped + 3, out.data(), size), 0);
    }
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(backend->native_handle(&*m)), m->handle);
    backend->release(*m);
  }
  const auto too_much = backend->allocate((1u << 29) + 1, MemoryKind::device, true);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, ErrorCode::out_of_memory);
}

TEST_F(CudaGraph, DevicesAreListedAndCounted) {
  const auto devices = cuda::list_devices(driver());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].name, "cuda:1");
  EXPECT_EQ(devices[1].description, "Fake (GPU-e0e1e2e3-e4e5-e6e7-e8e9-eaebecedeeef)");
  EXPECT_TRUE(devices[1].available);
  const auto third = cuda::open_device(driver(), test_images, 2, {});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::not_found);
  EXPECT_EQ(backend->info().name, "cuda:0");
  EXPECT_EQ(backend->info().compute_units, 132u);
  EXPECT_FALSE(backend->info().unified_memory);
}

TEST_F(CudaGraph, FreeMemoryIsTheDrivers) {
  auto* teller = dynamic_cast<FreeMemory*>(backend.get());
  ASSERT_NE(teller, nullptr);
  const std::uint64_t before = teller->free_bytes();
  ASSERT_GT(before, std::uint64_t{64} << 20);
  const auto taken = backend->allocate(std::uint64_t{64} << 20, MemoryKind::device, false);
  ASSERT_TRUE(taken);
  EXPECT_LE(teller->free_bytes() + (std::uint64_t{64} << 20), before);
  backend->release(*taken);
}

TEST(CudaDriver, ListSaysWhyThereIsNoDevice) {
  const auto listings = list_cuda();
  ASSERT_FALSE(listings.empty());
  for (const DeviceListing& l : listings) {
    EXPECT_THAT(l.name, ::testing::StartsWith("cuda"));
    if (!l.available) {
      EXPECT_THAT(l.reason, ::testing::StartsWith("cuda: "));
    }
  }
  if (!listings[0].available) {
    const auto opened = open_cuda(0, {});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::not_found);
    EXPECT_EQ(opened.error().message, listings[0].reason);
  }
}

// Everything a program does with a device, in one function whose every driver call may fail.
Status use_device(const cuda::Driver& driver) {
  ONEPASS_ASSIGN(const std::unique_ptr<Backend> backend,
                 cuda::open_device(driver, test_images, 0, {.command_buffers = 2}));
  struct Holder {
    Backend& backend;
    Allocation memory{};
    ~Holder() { backend.release(memory); }
  };
  Holder device{*backend}, upload{*backend};
  ONEPASS_ASSIGN(device.memory, backend->allocate(9u << 20, MemoryKind::device, true));
  ONEPASS_ASSIGN(upload.memory, backend->allocate(4096, MemoryKind::upload, true));
  std::vector<std::byte> bytes(9u << 20);
  ONEPASS_TRY(backend->write(device.memory, 0, bytes));
  ONEPASS_TRY(backend->read(device.memory, 0, bytes));

  OrderedRecording recording = testing::make_recording(
      testing::random_program(9, 12, 16, 0.2), device.memory, OrderKind::edges, test_rows[0]);
  recording.timed = true;
  recording.step = BoundView{device.memory, 0, 64};
  for (RecordedLaunch& l : recording.launches) l.launch.shared_bytes = 64 << 10;
  {
    OrderedRecording once = testing::make_recording(testing::random_program(9, 12, 16, 0.2),
                                                    device.memory, OrderKind::levels, test_rows[0]);
    once.replayed = false;
    ONEPASS_ASSIGN(const std::unique_ptr<Recorded> direct, testing::record(*backend, once));
    Completion completion;
    ONEPASS_TRY(backend->submit(*direct, {}, completion));
    backend->wait(completion);
    if (completion.failed) return fail(completion.code, completion.text);
  }
  ONEPASS_ASSIGN(const std::unique_ptr<Recorded> recorded, testing::record(*backend, recording));
  std::array<Completion, 4> completions;
  std::size_t submitted = 0;
  Status status;
  for (Completion& c : completions) {
    status = backend->submit(*recorded, std::span(bytes).first(64), c);
    if (!status) break;
    ++submitted;
  }
  for (std::size_t i = 0; i < submitted; ++i) {
    backend->wait(completions[i]);
    EXPECT_TRUE(completions[i].done);
    if (completions[i].failed && status) {
      status = fail(completions[i].code, completions[i].text);
    }
  }
  if (submitted < completions.size()) {
    EXPECT_FALSE(completions[submitted].done);
  }
  return status;
}

TEST(CudaFailures, EveryFailedCallIsATypedErrorAndLeaksNothing) {
  const cuda::Driver driver = FakeDriver::table();
  FakeDriver& fake = FakeDriver::get();
  struct Kind {
    CUresult result;
    std::vector<ErrorCode> codes;
  };
  const std::vector<Kind> kinds{
      {CUDA_ERROR_INVALID_VALUE,
       {ErrorCode::not_found, ErrorCode::out_of_memory, ErrorCode::device_lost,
        ErrorCode::kernel_build, ErrorCode::submission_failed}},
      {CUDA_ERROR_OUT_OF_MEMORY, {ErrorCode::out_of_memory}},
      {CUDA_ERROR_LAUNCH_FAILED, {ErrorCode::device_lost}},
  };
  for (const Kind& kind : kinds) {
    std::set<std::string> seen;
    std::uint64_t n = 0;
    for (;; ++n) {
      fake.reset(n, kind.result);
      const Status status = use_device(driver);
      EXPECT_EQ(fake.live(), 0u) << "call " << n << ", " << fake.failed_call();
      if (!fake.failed()) {
        EXPECT_TRUE(status);
        break;
      }
      seen.insert(fake.failed_call());
      // Without its end event a submission is waited for instead, and clocks are never needed.
      if (status) {
        EXPECT_EQ(fake.failed_call(), "cuEventRecord") << "call " << n;
        continue;
      }
      EXPECT_THAT(kind.codes, ::testing::Contains(status.error().code))
          << "call " << n << ": " << status.error().to_string();
      EXPECT_THAT(status.error().message, ::testing::HasSubstr("CUDA_ERROR_FAKE"));
      EXPECT_THAT(status.error().message, ::testing::StartsWith("cuda"));
    }
    EXPECT_GT(n, 50u);
    for (const char* call : {"cuDeviceGetCount",
                             "cuDevicePrimaryCtxRetain",
                             "cuStreamCreate",
                             "cuStreamWaitEvent",
                             "cuEventCreate",
                             "cuMemAlloc",
                             "cuMemHostAlloc",
                             "cuMemHostGetDevicePointer",
                             "cuMemsetD8Async",
                             "cuMemcpyHtoDAsync",
                             "cuMemcpyDtoHAsync",
                             "cuEventRecord",
                             "cuEventSynchronize",
                             "cuModuleLoadData",
                             "cuModuleGetFunction",
                             "cuFuncSetAttribute",
                             "cuLaunchKernel",
                             "cuGraphCreate",
                             "cuGraphAddKernelNode",
                             "cuGraphAddEmptyNode",
                             "cuGraphAddEventRecordNode",
                             "cuGraphAddDependencies",
                             "cuGraphInstantiate",
                             "cuGraphUpload",
                             "cuGraphLaunch"}) {
      EXPECT_TRUE(seen.count(call)) << call << " was never made to fail";
    }
  }
  fake.reset();
}

TEST(CudaSession, OpsBecomeTheirKernelsWithTheirEdges) {
  const cuda::Driver driver = FakeDriver::table();
  FakeDriver& fake = FakeDriver::get();
  fake.reset();
  {
    auto backend = cuda::open_device(driver, cuda::kernel_images(), 0, {});
    ASSERT_TRUE(backend);
    auto state = DeviceState::create(std::move(*backend), {});
    ASSERT_TRUE(state);
    const Device device(std::move(*state));
    auto x = device.allocate(4 * 64), w = device.allocate(64 * 64 / 32 * 34),
         norm = device.allocate(4 * 64), out = device.allocate(4 * 64);
    ASSERT_TRUE(x && w && norm && out);
    const GraphExecutor executor(device);
    GraphSession s = executor.begin_recorded();
    const Tensor normed = s.scratch(DType::f32, {1, 64}), y = s.scratch(DType::f32, {1, 64});
    const Tensor input = x->tensor(DType::f32, {1, 64});
    ops::rms_norm(s, {.x = input, .weight = norm->tensor(DType::f32, {64}), .out = normed});
    ops::matmul(s, {.x = normed, .weight = w->tensor(DType::q8_0, {64, 64}), .out = y});
    ops::add(s, {input, y, out->tensor(DType::f32, {1, 64})});
    PlanOptions options;
    options.fuse = false;
    auto plan = s.compile(options);
    ASSERT_TRUE(plan) << plan.error().to_string();
    ASSERT_TRUE(plan->run());
    ASSERT_EQ(fake.launched.size(), 1u);
    const FakeGraph& graph = fake.launched[0];
    ASSERT_EQ(graph.nodes.size(), 3u);
    EXPECT_EQ(graph.nodes[0].function, "rms_norm_f32");
    EXPECT_EQ(graph.nodes[1].function, "matmul_q8_0_any");
    EXPECT_EQ(graph.nodes[2].function, "add_f32");
    EXPECT_EQ(graph.edges, (Edges{{0, 1}, {1, 2}}));
    EXPECT_EQ(graph.programmatic, graph.edges)
        << "nothing writes the weights, which are read early";
    EXPECT_EQ(graph.nodes[1].params.gridDimX, 2u);
    EXPECT_EQ(graph.nodes[1].args.views[0], graph.nodes[0].args.views[2]);
    EXPECT_EQ(graph.nodes[2].args.views[1], graph.nodes[1].args.views[2]);
    ops::MatmulParams params;
    std::memcpy(&params, graph.nodes[1].args.params, sizeof params);
    EXPECT_EQ(params.m, 1u);
    EXPECT_EQ(params.n0, 64u);
    EXPECT_EQ(params.k, 64u);
  }
  EXPECT_EQ(fake.live(), 0u);
}

}  // namespace
}  // namespace onepass
