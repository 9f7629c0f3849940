// Readers of an intermediate that are easy to overlook: through another import of the same host
// memory, and through a dispatch that does not say what it touches.
#include <gtest/gtest.h>

#include "onepass/graph.h"
#include "property/bench.h"

namespace onepass::property::fuse_readers_test {
namespace {

constexpr std::uint32_t first_import = n_caller_buffers, second_import = n_caller_buffers + 1;

GraphSpec empty_graph() {
  GraphSpec graph = random_graph(1, {.max_scratch = 0, .pool = false});
  graph.ops.clear();
  graph.discards.clear();
  return graph;
}

OpSpec make_op(OpType type, std::uint32_t id, std::initializer_list<Place> in, const Place& out) {
  OpSpec op;
  op.type = type;
  op.id = id;
  for (const Place& p : in) op.add(p, Access::read);
  op.add(out, Access::write);
  return op;
}

// The product goes elsewhere, then `reader_place` is read.
GraphSpec pair_and_reader(const Place& inter, const Place& reader_place, Declare declare) {
  GraphSpec graph = empty_graph();
  graph.ops.push_back(make_op(OpType::rms_norm, 0, {{0, 0, 32}, {weights_buffer, 0, 32}}, inter));
  graph.ops.push_back(make_op(OpType::mul, 1, {inter, {1, 0, 32}}, {2, 0, 32}));
  graph.ops.push_back(make_op(OpType::hash, 2, {reader_place}, {3, 0, 16}));
  graph.ops.back().declare = declare;
  graph.discards.push_back(inter);
  return graph;
}

TEST(FuseReaders, AnotherImportOfTheSameMemoryCounts) {
  Bench bench;
  for (const Declare declare : {Declare::bind, Declare::slots, Declare::between}) {
    // The second import starts import_base bytes behind the first.
    const GraphSpec read =
        pair_and_reader({first_import, import_base + 32, 32}, {second_import, 40, 8}, declare);
    const GraphSpec apart =
        pair_and_reader({first_import, import_base + 32, 32}, {second_import, 64, 8}, declare);
    for (const GraphSpec* graph : {&read, &apart}) {
      bench.load(*graph);
      bench.start(RunOrder::forward, 0, std::byte{0xa5});
      const auto report = bench.record(*graph).finish();
      ASSERT_TRUE(report) << report.error().to_string();
      EXPECT_EQ(report->fused.count, 1u);
      // What is read is still written.
      EXPECT_TRUE(bench.agrees(run_reference(*graph)));
    }
  }
}

TEST(FuseReaders, AnotherImportOverwritesAllOfIt) {
  Bench bench;
  GraphSpec graph =
      pair_and_reader({first_import, import_base, 32}, {second_import, 0, 32}, Declare::slots);
  OpSpec over = make_op(OpType::hash, 3, {{0, 0, 8}}, {second_import, 0, 48});
  over.declare = Declare::slots;
  graph.ops.insert(graph.ops.begin() + 2, over);
  bench.load(graph);
  bench.start(RunOrder::forward, 0, std::byte{0xa5});
  const auto report = bench.record(graph).finish();
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->fused.count, 1u);
  EXPECT_TRUE(bench.agrees(run_reference(graph)));
}

TEST(FuseReaders, ADispatchOfUnknownAccessesMayRead) {
  Bench bench;
  const GraphSpec graph = empty_graph();
  bench.load(graph);
  for (const bool unknown_reader : {false, true}) {
    GraphSession session = bench.executor().begin_recorded();
    const auto floats = [&](std::uint32_t buffer) {
      return tensor(bench.view({buffer, 0, 32}), DType::f32, {1, 8});
    };
    const Tensor inter = session.scratch(DType::f32, {1, 8});
    const Tensor weight = tensor(bench.view({weights_buffer, 0, 32}), DType::f32, {8});
    ops::rms_norm(session, {.x = floats(0), .weight = weight, .out = inter});
    ops::mul(session, {.a = inter, .b = floats(1), .out = floats(2)});
    auto captured = session.encoder().take_capture();
    ASSERT_TRUE(captured);
    if (unknown_reader) {
      CapturedNode node;
      node.dispatch = make_dispatch(Op::custom);
      node.dispatch.kernel = *bench.device().kernels().get("hash");
      node.dispatch.bind(inter.view, Access::read);
      node.dispatch.set_params(HashParams{0, 1, 0, 0});
      ASSERT_TRUE(captured->record(bench.device(), node));
      ASSERT_EQ(captured->unannotated_dispatch_count(), 1u);
    }
    const auto fused = captured->fuse(bench.device());
    ASSERT_TRUE(fused) << fused.error().to_string();
    EXPECT_EQ(fused->count, 1u);
    EXPECT_EQ(captured->nodes()[0].writes.size(), unknown_reader ? 2u : 1u);
  }
}

}  // namespace
}  // namespace onepass::property::fuse_readers_test
