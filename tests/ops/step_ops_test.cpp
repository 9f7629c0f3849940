// kv_store and step_advance.
#include "kernel_harness.h"
#include "ops/kv_cache/params.h"
#include "ops/sample/params.h"

namespace onepass::test::step_ops_test {
namespace {

TEST(KvStore, StoresActiveRowsAndNothingElse) {
  const std::uint32_t heads = 2, dim = 5, slots = 2, capacity = 7;
  // Row 2 lies beyond the capacity, row 3 beyond the slots, row 4 beyond the pass.
  const std::vector<StepRow> rows = {
      {0, 3, 1, 0}, {0, 6, 0, 0}, {0, 7, 0, 0}, {0, 1, 2, 0}, {0, 0, 0, 0}};
  const auto step = step_bytes(rows, {{0, 0, 0, 0}, {0, 0, 0, 0}}, 4);
  const std::vector<float> x = random_floats(5 * heads * dim, 1, 100.0f);
  for (DType type : {DType::f32, DType::f16}) {
    std::vector<float> initial = random_floats(slots * heads * capacity * dim, 2);
    const Stored before = store(type, initial);
    for (std::uint32_t r : {0u, 1u}) {
      for (std::uint32_t h = 0; h < heads; ++h) {
        for (std::uint32_t i = 0; i < dim; ++i) {
          initial[((rows[r].slot * heads + h) * capacity + rows[r].position) * dim + i] =
              x[(r * heads + h) * dim + i];
        }
      }
    }
    KernelRun run(Op::kv_store, type);
    run.params(ops::KvStoreParams{5, heads, dim, slots, capacity, 0}).in(x).in(step).none();
    run.inout(before.bytes).run();
    EXPECT_EQ(run.get<std::byte>(3), store(type, initial).bytes) << name(type);
  }
}

TEST(KvStore, ManyRowsInSeveralTiles) {
  const std::uint32_t n = 300, heads = 4, dim = 64;
  std::vector<StepRow> rows;
  for (std::uint32_t r = 0; r < n; ++r) rows.push_back({0, n - 1 - r, 0, 0});
  const std::vector<float> x = random_floats(std::size_t{n} * heads * dim, 3);
  KernelRun run(Op::kv_store, DType::f32);
  run.params(ops::KvStoreParams{n, heads, dim, 1, n, 0}).in(x);
  run.in(step_bytes(rows, {{n, 0, 0, 0}}, n)).none().out(x.size() * 4).run();
  ASSERT_GT(run.launch().tiles, 1u);
  const std::vector<float> cache = run.get<float>(3);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      ASSERT_EQ(cache[(h * n + (n - 1 - r)) * dim], x[(r * heads + h) * dim]);
    }
  }
}

TEST(StepAdvance, MovesActiveRowsOn) {
  const std::vector<StepRow> rows = {{7, 20, 1, 0}, {8, 4, 0, 0}, {9, 1, 5, 0}, {6, 2, 0, 0}};
  const std::vector<StepSlot> slots = {{5, 40, 0, 0}, {21, 41, 0, 0}};
  const std::vector<std::uint32_t> tokens = {100, 101, 102, 103};
  KernelRun run(Op::step_advance, DType::u32);
  run.params(ops::StepAdvanceParams{4, 0}).in(tokens).inout(step_bytes(rows, slots, 3));
  run.none().run();
  // Row 2 names a slot that does not exist; row 3 is not part of the pass.
  const std::vector<StepRow> rows_after = {
      {100, 21, 1, 0}, {101, 5, 0, 0}, {102, 2, 5, 0}, {6, 2, 0, 0}};
  const std::vector<StepSlot> slots_after = {{6, 40, 0, 0}, {22, 41, 0, 0}};
  EXPECT_EQ(run.get<std::byte>(1), step_bytes(rows_after, slots_after, 3));
}

TEST(StepAdvance, KeepsTheLastTokensByPosition) {
  const std::vector<StepRow> rows = {{7, 20, 0, 0}, {8, 4, 0, 0}, {9, 1, 0, 0}};
  const std::vector<std::uint32_t> tokens = {100, 101, 102};
  std::vector<std::uint32_t> history(3 * 6, 5);
  KernelRun run(Op::step_advance, DType::u32);
  run.params(ops::StepAdvanceParams{3, 6}).in(tokens);
  run.inout(step_bytes(rows, {{5, 0, 0, 0}}, 2)).inout(history).run();
  history[0 * 6 + 21 % 6] = 100;
  history[1 * 6 + 5] = 101;  // row 2 is not part of the pass
  EXPECT_EQ(run.get<std::uint32_t>(2), history);
}

TEST(StepAdvance, NeverLeavesTheState) {
  std::vector<std::byte> step = step_bytes({{0, 0, 0, 0}}, {{0, 0, 0, 0}}, 1);
  const std::uint32_t huge = 0x10000000u;
  std::memcpy(step.data() + offsetof(StepHeader, n_rows), &huge, 4);
  std::memcpy(step.data() + offsetof(StepHeader, max_slots), &huge, 4);
  KernelRun run(Op::step_advance, DType::u32);
  run.params(ops::StepAdvanceParams{3, 0}).in(std::vector<std::uint32_t>{1, 2, 3}).inout(step);
  run.none().run();
  const std::vector<std::byte> after = run.get<std::byte>(1);
  StepRow row;
  std::memcpy(&row, after.data() + sizeof(StepHeader), sizeof(row));
  EXPECT_EQ(row.token, 1u);
  EXPECT_EQ(row.position, 1u);
}

}  // namespace
}  // namespace onepass::test::step_ops_test
