// What fusing has asked a kernel for is what lowering would ask it for.
#include <gtest/gtest.h>

#include <vector>

#include "core/tables.h"
#include "graph/fuse.h"
#include "graph/lower.h"
#include "onepass/onepass.hpp"
#include "ops/elementwise/params.h"
#include "ops/matmul/params.h"
#include "support/devices.h"

namespace onepass::test::made_launches_test {
namespace {

class MadeLaunchesTest : public testing::Test {
 protected:
  static constexpr std::uint32_t k = 64, n = 32;

  View vector(std::uint32_t elements) {
    buffers_.push_back(*device.allocate(std::uint64_t{elements} * 4));
    return buffers_.back().view();
  }
  void product(const View& x, std::uint32_t rows, const View& out) {
    Dispatch d = make_dispatch(Op::matmul, DType::f32);
    d.set_params(ops::MatmulParams{0, 1, k, rows, 0, 0, 0, 0});
    d.bind(x);
    d.bind(vector(rows * k));
    d.bind(out);
    ASSERT_TRUE(list.append(d, {}, {}, {}));
  }
  void add(const View& a, const View& b, const View& out) {
    Dispatch d = make_dispatch(Op::add, DType::f32);
    d.set_params(ops::ElementwiseParams{n, 0, 0, 0});
    d.bind(a);
    d.bind(b);
    d.bind(out);
    ASSERT_TRUE(list.append(d, {}, {}, {}));
  }

  Device device = open_cpu();
  NodeList list{device.state().shared_from_this()};

 private:
  std::vector<Buffer> buffers_;
};

TEST_F(MadeLaunchesTest, AreThoseThatLoweringMakes) {
  const View x = vector(k), sum = vector(n);
  add(vector(n), vector(n), sum);  // stays as it is, in front of what becomes one
  product(x, n, vector(n));
  product(x, 2 * n, vector(2 * n));
  const View y = vector(n);
  product(vector(k), n, y);
  list.discard({y.buffer, y.offset, y.offset + y.bytes});
  add(sum, y, vector(n));

  graph::MadeLaunches made;
  const auto report = graph::fuse(list, false, fusion_rows(), &made);
  ASSERT_TRUE(report) << report.error().to_string();
  ASSERT_EQ(report->count, 2u);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(made.of(0), nullptr);
  const auto handed = graph::lower(list, made), anew = graph::lower(list);
  ASSERT_TRUE(handed && anew);
  for (std::uint32_t node = 1; node < list.size(); ++node) {
    ASSERT_NE(made.of(node), nullptr) << node;
    const Launch &a = handed->items[node].launch, &b = anew->items[node].launch;
    EXPECT_EQ(handed->items[node].kernel, anew->items[node].kernel);
    EXPECT_EQ(a.grid, b.grid);
    EXPECT_EQ(a.group, b.group);
    EXPECT_EQ(a.tiles, b.tiles);
    EXPECT_EQ(a.variant, b.variant);
    EXPECT_EQ(a.bytes_moved, b.bytes_moved);
    EXPECT_EQ(a.flops, b.flops);
  }
  EXPECT_NE(made.of(1)->launch.flops, made.of(2)->launch.flops);
  EXPECT_EQ(handed->range_offsets, anew->range_offsets);

  made.of_node[1] = made.of_node[2];
  const auto swapped = graph::lower(list, made);
  ASSERT_TRUE(swapped);
  EXPECT_EQ(swapped->items[1].launch.flops, anew->items[2].launch.flops);  // it does take them
}

}  // namespace
}  // namespace onepass::test::made_launches_test
