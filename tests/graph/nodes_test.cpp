// The recorded list: what rewriting it keeps.
#include "graph/nodes.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/tables.h"
#include "onepass/onepass.hpp"
#include "support/devices.h"

namespace onepass::test::nodes_test {
namespace {

// A list of copies: view a to b, b to c.
class NodeListTest : public testing::Test {
 protected:
  NodeListTest() {
    for (Buffer& buffer : buffers) buffer = *device.allocate(64);
    EXPECT_TRUE(list.append(copy(0, 1), {}, {}, {}));
    list.append_barrier();
    EXPECT_TRUE(list.append(copy(1, 2), {}, {}, {}));
  }

  Dispatch copy(std::size_t from, std::size_t to) const {
    Dispatch d = make_dispatch(Op::custom);
    d.kernel = kernel;
    d.bind(buffers[from].view(), Access::read);
    d.bind(buffers[to].view(), Access::write);
    return d;
  }
  BufferId id(std::size_t i) const { return buffers[i].id(); }

  Device device = open_cpu();
  KernelId kernel = *device.kernels().add(
      {.name = "copy", .slots = "io", .cpu = [](const KernelArgs&) noexcept {}});
  Buffer buffers[4];
  NodeList list{device.state().shared_from_this()};
};

TEST_F(NodeListTest, RewritingTakesNodesAndNewDispatches) {
  const Dispatch both = copy(0, 2);
  list.default_label = "of the last call";
  ASSERT_TRUE(list.rewrite(std::vector<NodeList::Rewritten>{{1, nullptr}, {0, &both}}));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_FALSE(list.is_dispatch(0));
  EXPECT_EQ(list.dispatch_count(), 1u);
  EXPECT_EQ(list.views(1)[0], both.views[0]);
  EXPECT_EQ(list.views(1)[1], both.views[1]);
  ASSERT_EQ(list.ranges(1).size(), 2u);
  EXPECT_EQ(list.node(1).label, nullptr);
  // Buffer 1 is named by nothing any more.
  EXPECT_EQ(list.buffers(), (std::vector<BufferId>{id(0), id(2)}));
}

TEST_F(NodeListTest, ARewriteThatFailsChangesNothing) {
  const Dispatch good = copy(0, 2);
  Dispatch bad = copy(2, 3);
  bad.views[1].bytes = 65;
  const Status status =
      list.rewrite(std::vector<NodeList::Rewritten>{{0, nullptr}, {0, &good}, {0, &bad}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list.dispatch_count(), 2u);
  EXPECT_EQ(list.views(0)[0].buffer, id(0));
  EXPECT_FALSE(list.is_dispatch(1));
  EXPECT_EQ(list.views(2)[0].buffer, id(1));
  EXPECT_EQ(list.buffers(), (std::vector<BufferId>{id(0), id(1), id(2)}));
}

}  // namespace
}  // namespace onepass::test::nodes_test
