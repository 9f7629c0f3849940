// Golden vectors of the passes: what the ancestor gives, and where onepass differs on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/devices.h"

namespace onepass::passes_test {
namespace {

using test::Buffers;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using Order = std::vector<std::uint32_t>;

class Passes : public ::testing::Test {
 protected:
  // Reads and writes by buffer number; -1: none.
  CapturedNode node(int reads, int writes, CapturedOpKind kind = CapturedOpKind::other) {
    CapturedNode n;
    n.dispatch = test::custom(kernel_, {});
    n.dispatch.set_params(next_++);
    n.op_kind = kind;
    if (reads >= 0) n.reads.push_back(MemRange::of(buffers_[static_cast<std::size_t>(reads)]));
    if (writes >= 0) n.writes.push_back(MemRange::of(buffers_[static_cast<std::size_t>(writes)]));
    return n;
  }
  ComputeGraph graph(const std::vector<CapturedNode>& nodes) {
    return *ComputeGraph::from_nodes(device_, nodes);
  }
  static Order order(const ComputeGraph& g) {
    Order out;
    for (const CapturedNode& n : g.nodes()) {
      if (n.kind == CapturedNode::Kind::dispatch) {
        out.push_back(n.dispatch.params_as<std::uint32_t>());
      }
    }
    return out;
  }
  std::uint32_t barriers(const ComputeGraph& g) {
    CommandEncoder encoder(device_);
    return *g.encode_with_barriers(encoder);
  }
  // Reorders and checks count, order and barriers before and after.
  void expect_reorder(ComputeGraph& g, std::uint32_t count, const Order& expected) {
    EXPECT_EQ(*compat::reorder(g), count);
    EXPECT_THAT(order(g), ElementsAreArray(expected));
  }

  Device device_ = *Device::open("null");
  KernelId kernel_ = test::add_kernel(device_, "noop", test::nothing);
  Buffers buffers_{device_};
  std::uint32_t next_ = 0;
};

TEST_F(Passes, ReorderTwoChains) {
  for (const bool with_barriers : {false, true}) {
    next_ = 0;
    std::vector<CapturedNode> nodes;
    const int chains[4][2] = {{0, 1}, {1, 2}, {3, 4}, {4, 5}};
    for (const auto& [r, w] : chains) {
      if (with_barriers && r == 1) nodes.push_back(CapturedNode::barrier());
      nodes.push_back(node(r, w));
    }
    ComputeGraph g = graph(nodes);
    EXPECT_EQ(barriers(g), 2u);
    expect_reorder(g, 2, {0, 2, 1, 3});
    EXPECT_EQ(barriers(g), 1u);
    EXPECT_EQ(g.barrier_count(), 0u);
  }
}

TEST_F(Passes, ReorderStopsAtSdpa) {
  ComputeGraph g = graph({node(0, 1), node(1, 2), node(3, 4, CapturedOpKind::sdpa), node(5, 6)});
  expect_reorder(g, 0, {0, 1, 2, 3});
}

TEST_F(Passes, ReorderMayOvertakeSdpa) {
  ComputeGraph g = graph({node(0, 1), node(1, 2, CapturedOpKind::sdpa), node(3, 4), node(5, 6)});
  EXPECT_EQ(barriers(g), 1u);
  expect_reorder(g, 3, {0, 2, 3, 1});
  EXPECT_EQ(barriers(g), 1u);
}

TEST_F(Passes, ReorderKeepsOrderBehindSkippedNodes) {
  ComputeGraph g = graph({node(0, 1), node(1, 2), node(2, 3), node(4, 2), node(5, 6)});
  EXPECT_EQ(barriers(g), 3u);
  expect_reorder(g, 4, {0, 4, 1, 2, 3});
  EXPECT_EQ(barriers(g), 3u);
}

TEST_F(Passes, UnannotatedNodeIsAFence) {
  ComputeGraph g = graph({node(0, 1), node(1, 2), node(-1, -1), node(2, 3)});
  EXPECT_EQ(g.unannotated_dispatch_count(), 1u);
  EXPECT_EQ(barriers(g), 3u);
  expect_reorder(g, 0, {0, 1, 2, 3});
  EXPECT_EQ(barriers(g), 3u);
}

TEST_F(Passes, PureWriterIsAnnotated) {
  ComputeGraph g = graph({node(-1, 1), node(0, -1)});
  EXPECT_EQ(g.unannotated_dispatch_count(), 0u);
}

TEST_F(Passes, ReorderWindowIs64) {
  const struct {
    int distance;
    std::uint32_t position, count;
  } cases[] = {{62, 1, 63}, {63, 1, 64}, {64, 2, 64}};
  for (const auto& c : cases) {
    next_ = 0;
    std::vector<CapturedNode> nodes{node(0, 1), node(1, 2)};
    for (int i = 0; i < c.distance - 1; ++i) nodes.push_back(node(2 + i, 3 + i));
    const std::uint32_t free_node = next_;
    nodes.push_back(node(200, 201));
    ComputeGraph g = graph(nodes);
    EXPECT_EQ(*compat::reorder(g), c.count) << c.distance;
    EXPECT_EQ(order(g)[c.position], free_node) << c.distance;
  }
}

TEST_F(Passes, ExactPolicyGivesTheFewestLevels) {
  ComputeGraph g = graph({node(0, 1), node(1, 2), node(2, 3), node(4, 5), node(5, 6), node(6, 7)});
  EXPECT_EQ(g.stats().levels, 3u);
  EXPECT_EQ(g.reorder(Policy::exact)->moved, 4u);
  EXPECT_THAT(order(g), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(barriers(g), 2u);
}

TEST_F(Passes, FencesSurviveReorder) {
  CapturedNode fence;
  fence.kind = CapturedNode::Kind::fence;
  ComputeGraph g = graph({node(0, 1), node(1, 2), fence, node(3, 4)});
  expect_reorder(g, 0, {0, 1, 2});
  EXPECT_EQ(g.barrier_count(), 1u);
  EXPECT_EQ(barriers(g), 2u);
}

class Split : public Passes {
 protected:
  // Dispatches that never conflict, with barriers after given counts.
  std::vector<CapturedNode> independent(int n) {
    std::vector<CapturedNode> nodes;
    for (int i = 0; i < n; ++i) nodes.push_back(node(0, -1));
    return nodes;
  }
  struct Parts {
    std::pair<std::uint32_t, std::uint32_t> barriers;
    std::uint64_t first, second;  // dispatches
  };
  Parts encode(const std::vector<CapturedNode>& nodes) {
    const ComputeGraph g = graph(nodes);
    CommandEncoder first(device_), second(device_);
    device_.reset_counters();
    Parts parts;
    parts.barriers = *g.encode_dual_buffer(first, second);
    EXPECT_EQ(device_.counters().replayed_dispatches, g.dispatch_count());
    parts.first = g.split_index();
    parts.second = g.len() - parts.first;
    EXPECT_TRUE(second.commit_and_wait());
    return parts;
  }
};

TEST_F(Split, BarrierAfterTheSplitBelongsToTheSecondPart) {
  auto nodes = independent(64);
  nodes.push_back(CapturedNode::barrier());
  const Parts parts = encode(nodes);
  EXPECT_EQ(parts.first, 64u);
  EXPECT_EQ(parts.barriers, std::pair(0u, 1u));
}

TEST_F(Split, TwoBarriersAfterTheSplitCountTwice) {
  auto nodes = independent(64);
  nodes.push_back(CapturedNode::barrier());
  nodes.push_back(CapturedNode::barrier());
  for (const CapturedNode& n : independent(3)) nodes.push_back(n);
  const Parts parts = encode(nodes);
  EXPECT_EQ(parts.first, 64u);
  EXPECT_EQ(parts.second, 5u);
  EXPECT_EQ(parts.barriers, std::pair(0u, 2u));
}

TEST_F(Split, FewDispatchesStayInOnePart) {
  auto nodes = independent(63);
  nodes.push_back(CapturedNode::barrier());
  const Parts parts = encode(nodes);
  EXPECT_EQ(parts.first, 64u);
  EXPECT_EQ(parts.second, 0u);
  EXPECT_EQ(parts.barriers, std::pair(1u, 0u));
}

TEST_F(Split, FirstPartIsTenPercentRoundedDown) {
  const std::pair<int, std::uint32_t> cases[] = {{30, 30},  {64, 64},  {640, 64},
                                                 {700, 70}, {709, 70}, {1000, 100}};
  for (const auto& [total, first] : cases) {
    EXPECT_EQ(graph(independent(total)).split_index(), first) << total;
  }
}

TEST_F(Split, TheFirstPartIsCommittedAndTheSecondIsNot) {
  test::FaultDevice d;
  const KernelId noop = test::add_kernel(d.device, "noop", test::nothing);
  Buffers buffers(d.device);
  std::vector<CapturedNode> nodes;
  for (int i = 0; i < 70; ++i) {
    CapturedNode n;
    n.dispatch = test::custom(noop, {});
    n.reads.push_back(MemRange::of(buffers[0]));
    nodes.push_back(n);
  }
  const ComputeGraph g = *ComputeGraph::from_nodes(d.device, nodes);
  CommandEncoder first(d.device), second(d.device);
  ASSERT_TRUE(g.encode_dual_buffer(first, second));
  EXPECT_EQ(d.fault->calls(BackendCall::submit), 1u);
  EXPECT_TRUE(second.commit_and_wait());
  EXPECT_EQ(d.fault->calls(BackendCall::submit), 2u);
}

TEST_F(Passes, ContainerCountsNodes) {
  ComputeGraph g;
  EXPECT_TRUE(g.is_empty());
  EXPECT_EQ(g.len(), 0u);
  ASSERT_TRUE(g.record(device_, node(0, 1)));
  ASSERT_TRUE(g.record(device_, CapturedNode::barrier()));
  ASSERT_TRUE(g.record(device_, node(1, 2)));
  EXPECT_EQ(g.len(), 3u);
  EXPECT_FALSE(g.is_empty());
  EXPECT_EQ(g.dispatch_count(), 2u);
  EXPECT_EQ(g.barrier_count(), 1u);
  EXPECT_EQ(g.nodes().size(), 3u);
  EXPECT_EQ(std::move(g).into_nodes().size(), 3u);
}

TEST_F(Passes, NodesKeepTheirBuffersAlive) {
  std::vector<CapturedNode> nodes;
  {
    const Buffer b = *device_.allocate(64);
    CapturedNode n;
    n.dispatch = test::custom(kernel_, {b.view()});
    nodes = graph({n}).into_nodes();
    ASSERT_EQ(nodes.size(), 1u);
  }
  // The graph and the owner are gone; the node still replays.
  ComputeGraph again = graph(nodes);
  CommandEncoder encoder(device_);
  EXPECT_TRUE(again.encode_sequential(encoder));
  nodes.clear();
  again = ComputeGraph();
  EXPECT_TRUE(encoder.commit_and_wait());
}

TEST_F(Passes, SequentialCountsBarrierNodes) {
  ComputeGraph g =
      graph({CapturedNode::barrier(), node(0, 1), CapturedNode::barrier(), node(2, 3)});
  CommandEncoder encoder(device_);
  device_.reset_counters();
  EXPECT_EQ(*g.encode_sequential(encoder), 2u);
  EXPECT_EQ(device_.counters().barriers, 1u);  // the first had nothing before it
}

TEST_F(Passes, FuseLeavesAGraphOfAnotherDeviceAlone) {
  ComputeGraph g = graph({node(0, 1)});
  const Device other = *Device::open("null");
  const Result<FuseReport> report = g.fuse(other);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(g.len(), 1u);
}

TEST(Kinds, CapturedKindsAreReorderableButSdpaAndSoftmax) {
  using K = CapturedOpKind;
  for (const K k : {K::rms_norm, K::elem_mul, K::elem_add, K::other}) {
    EXPECT_TRUE(is_reorderable(k)) << name(k);
  }
  EXPECT_FALSE(is_reorderable(K::sdpa));
  EXPECT_FALSE(is_reorderable(K::softmax));
}

TEST(Kinds, SevenOfElevenOpKindsAreReorderable) {
  using K = OpKind;
  for (const K k :
       {K::matmul, K::matmul_id, K::norm, K::rope, K::elementwise, K::copy, K::gather}) {
    EXPECT_TRUE(is_reorderable(k)) << static_cast<int>(k);
  }
  for (const K k : {K::sdpa, K::softmax, K::moe_gate, K::other}) {
    EXPECT_FALSE(is_reorderable(k)) << static_cast<int>(k);
  }
}

TEST(Kinds, NamesAreStable) {
  using K = CapturedOpKind;
  std::vector<std::string> names;
  for (const K k : {K::rms_norm, K::elem_mul, K::elem_add, K::sdpa, K::softmax, K::other}) {
    names.push_back(compat::name(k));
  }
  EXPECT_THAT(names, ElementsAre("RmsNorm", "ElemMul", "ElemAdd", "Sdpa", "Softmax", "Other"));
}

TEST(Kinds, AreColumnsOfTheOpTable) {
  EXPECT_EQ(info(Op::rms_norm).captured, CapturedOpKind::rms_norm);
  EXPECT_EQ(info(Op::mul).captured, CapturedOpKind::elem_mul);
  EXPECT_EQ(info(Op::add).captured, CapturedOpKind::elem_add);
  EXPECT_EQ(info(Op::attention).captured, CapturedOpKind::sdpa);
  EXPECT_EQ(info(Op::softmax).captured, CapturedOpKind::softmax);
  EXPECT_EQ(info(Op::matmul).kind, OpKind::matmul);
  EXPECT_EQ(info(Op::attention).kind, OpKind::sdpa);
}

class GroupStatistics : public ::testing::Test {
 protected:
  void between(compat::GraphSession& s, std::size_t r, std::size_t w) {
    s.barrier_between({buffers_[r]}, {buffers_[w]});
  }
  static std::string dumped(const compat::GraphSession& s) {
    std::ostringstream text;
    s.dump_group_stats(text);
    return text.str();
  }

  Device device_ = *Device::open("null");
  Buffers buffers_{device_};
  compat::GraphExecutor executor_{device_};
};

TEST_F(GroupStatistics, WideGroupThenChain) {
  for (const bool recorded : {false, true}) {
    compat::GraphSession s = recorded ? executor_.begin_recorded() : executor_.begin();
    between(s, 0, 1);
    for (std::size_t i = 0; i < 9; ++i) between(s, 0, 10 + i);
    between(s, 1, 2);
    between(s, 2, 3);
    const GroupStats g = s.group_stats();
    EXPECT_EQ(g.dispatches, 12u);
    EXPECT_EQ(g.barriers, 2u);
    EXPECT_EQ(s.barrier_count(), 2u);
    EXPECT_EQ(g.groups, 3u);
    EXPECT_DOUBLE_EQ(g.ratio, 4.0);
    EXPECT_THAT(g.bins, ElementsAre(2, 0, 0, 0, 0, 0, 0, 1));
    EXPECT_EQ(dumped(s), "dispatches 12, barriers 2, groups 3, ratio 4.00, bins 1: 2, 8+: 1\n");
    EXPECT_EQ(dumped(s), g.to_string() + "\n");  // looking changes nothing
  }
}

TEST_F(GroupStatistics, BarriersCountAndTrackedDispatchesDoNot) {
  compat::GraphSession s = executor_.begin_recorded();
  s.barrier();
  s.barrier();
  between(s, 0, 1);
  s.track_dispatch({buffers_[0]}, {buffers_[5]});
  between(s, 5, 6);
  s.barrier();
  const GroupStats g = s.group_stats();
  EXPECT_EQ(g.dispatches, 2u);
  EXPECT_EQ(g.barriers, 4u);
  EXPECT_EQ(g.groups, 2u);
  EXPECT_DOUBLE_EQ(g.ratio, 1.0);
  EXPECT_THAT(g.bins, ElementsAre(2, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(GroupStatistics, NothingGivesZeros) {
  const compat::GraphSession s = executor_.begin();
  const GroupStats g = s.group_stats();
  EXPECT_EQ(g.groups, 0u);
  EXPECT_DOUBLE_EQ(g.ratio, 0.0);
  EXPECT_EQ(dumped(s), "dispatches 0, barriers 0, groups 0, ratio 0.00\n");
}

TEST_F(GroupStatistics, TrackerTimeIsMeasuredOnlyWhenProfiling) {
  for (const Profile profile : {Profile::none, Profile::submissions}) {
    const Device device = *Device::open("null", {.profile = profile});
    Buffers buffers(device);
    compat::GraphSession s = compat::GraphExecutor(device).begin_recorded();
    for (std::size_t i = 0; i < 100; ++i) s.barrier_between({buffers[i]}, {buffers[i + 1]});
    EXPECT_EQ(s.tracker_overhead_ns() != 0, profile != Profile::none);
  }
}

class Tracker : public ::testing::Test {
 protected:
  Hazard conflict(const std::vector<View>& reads, const std::vector<View>& writes) {
    return *tracker_.conflicts(reads, writes);
  }
  Device device_ = *Device::open("null");
  Buffer buffer_ = *device_.allocate(1024);
  ConflictTracker tracker_{device_};
};

TEST_F(Tracker, RangesAreHalfOpenAndEmptyOnesTouchNothing) {
  const View written = buffer_.view(100, 100);
  ASSERT_TRUE(tracker_.add({}, std::vector{written}));
  EXPECT_EQ(conflict({buffer_.view(200, 100)}, {}), Hazard::none);
  EXPECT_EQ(conflict({buffer_.view(0, 100)}, {}), Hazard::none);
  EXPECT_EQ(conflict({buffer_.view(150, 0)}, {}), Hazard::none);
  EXPECT_EQ(conflict({buffer_.view(100, 0)}, {}), Hazard::none);
  EXPECT_EQ(conflict({}, {buffer_.view(199, 1)}), Hazard::write_after_write);
  EXPECT_EQ(conflict({buffer_.view(50, 51)}, {}), Hazard::read_after_write);
  EXPECT_EQ(conflict({}, {}), Hazard::none);
}

TEST_F(Tracker, NamesTheReason) {
  const std::vector<View> a{buffer_.view(0, 64)}, b{buffer_.view(64, 64)};
  ASSERT_TRUE(tracker_.add(a, b));
  EXPECT_EQ(conflict(a, {}), Hazard::none);
  EXPECT_EQ(conflict(b, {}), Hazard::read_after_write);
  EXPECT_EQ(conflict({}, a), Hazard::write_after_read);
  EXPECT_EQ(conflict({}, b), Hazard::write_after_write);
  EXPECT_EQ(tracker_.len(), 2u);
  tracker_.reset();
  EXPECT_EQ(conflict({}, b), Hazard::none);
  EXPECT_EQ(tracker_.len(), 0u);
  EXPECT_STREQ(name(Hazard::read_after_write), "RAW");
  EXPECT_STREQ(name(Hazard::write_after_read), "WAR");
  EXPECT_STREQ(name(Hazard::write_after_write), "WAW");
}

TEST_F(Tracker, OverlappingImportsConflictAndFreedBuffersAreErrors) {
  std::vector<std::byte> memory(256);
  const Buffer low = *device_.import_host(std::span(memory).first(192));
  const Buffer high = *device_.import_host(std::span(memory).last(192));
  ASSERT_TRUE(tracker_.add({}, std::vector{low.view(64, 128)}));
  EXPECT_EQ(conflict({high.view(0, 64)}, {}), Hazard::read_after_write);
  EXPECT_EQ(conflict({high.view(128, 64)}, {}), Hazard::none);
  const View stale = device_.allocate(64)->view();
  EXPECT_EQ(tracker_.conflicts(std::vector{stale}, {}).error().code, ErrorCode::stale);
}

}  // namespace
}  // namespace onepass::passes_test
