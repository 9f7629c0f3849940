// kv_store, embed, argmax and step_advance: the ops that move numbers by a StepState.
#include <limits>

#include "kernel_harness.h"
#include "ops/embed/params.h"
#include "ops/kv_cache/params.h"
#include "ops/sample/params.h"

namespace onepass::test {
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

TEST(Embed, EveryFormatAndTokenSource) {
  const std::uint32_t vocab = 11, dim = 96;
  const std::vector<std::uint32_t> tokens = {10, 0, 11, 4, 4, 0xffffffffu};  // two do not exist
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q8_0}) {
    const Stored table = store(type, random_floats(std::size_t{vocab} * dim, 4));
    std::vector<float> want;
    for (std::uint32_t t : tokens) {
      for (std::uint32_t i = 0; i < dim; ++i) {
        want.push_back(t < vocab ? static_cast<float>(table.values[t * dim + i]) : 0.0f);
      }
    }
    KernelRun plain(Op::embed, type);
    plain.params(ops::EmbedParams{6, vocab, dim, 1}).in(table.bytes).in(tokens);
    plain.out(want.size() * 4).run();
    EXPECT_EQ(plain.get<float>(2), want) << name(type);

    std::vector<StepRow> rows;
    for (std::uint32_t t : tokens) rows.push_back({t, 0, 0, 0});
    KernelRun step(Op::embed, type);
    step.params(ops::EmbedParams{6, vocab, dim, 0}).in(table.bytes);
    step.in(step_bytes(rows, {{0, 0, 0, 0}}, 4)).out(want.size() * 4).run(false);
    std::vector<float> got = step.get<float>(2);
    const std::vector<std::uint8_t> bytes = step.get<std::uint8_t>(2);
    for (std::size_t i = 4 * dim * 4; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], 0xa5);
    got.resize(4 * dim);
    want.resize(4 * dim);
    EXPECT_EQ(got, want) << name(type);
  }
}

TEST(Argmax, LowestIndexOfTheLargest) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan_value = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {
      1,         5,         5,         2,          // tie
      -inf,      -inf,      -inf,      -inf,       //
      nan_value, -3,        nan_value, -2,         // numbers win
      nan_value, nan_value, nan_value, nan_value,  //
      inf,       0,         inf,       nan_value,  //
      -4,        -3,        -2,        -1,         //
  };
  KernelRun run(Op::argmax, DType::f32);
  run.params(ops::ArgmaxParams{6, 4}).in(x).out(24).run();
  EXPECT_EQ(run.get<std::uint32_t>(1), (std::vector<std::uint32_t>{1, 0, 3, 0, 0, 3}));
}

TEST(Argmax, LongRows) {
  const std::uint32_t rows = 5, cols = 50021;
  std::vector<float> x = random_floats(std::size_t{rows} * cols, 5);
  std::vector<std::uint32_t> want;
  for (std::uint32_t r = 0; r < rows; ++r) {
    want.push_back((r * 12347 + 50020) % cols);
    x[std::size_t{r} * cols + want.back()] = 1.5f;
  }
  KernelRun run(Op::argmax, DType::f32);
  run.params(ops::ArgmaxParams{rows, cols}).in(x).out(rows * 4).run();
  EXPECT_EQ(run.get<std::uint32_t>(1), want);
}

TEST(StepAdvance, MovesActiveRowsOn) {
  const std::vector<StepRow> rows = {{7, 20, 1, 0}, {8, 4, 0, 0}, {9, 1, 5, 0}, {6, 2, 0, 0}};
  const std::vector<StepSlot> slots = {{5, 40, 0, 0}, {21, 41, 0, 0}};
  const std::vector<std::uint32_t> tokens = {100, 101, 102, 103};
  KernelRun run(Op::step_advance, DType::u32);
  run.params(ops::StepAdvanceParams{4}).in(tokens).inout(step_bytes(rows, slots, 3)).run();
  // Row 2 names a slot that does not exist; row 3 is not part of the pass.
  const std::vector<StepRow> rows_after = {
      {100, 21, 1, 0}, {101, 5, 0, 0}, {102, 2, 5, 0}, {6, 2, 0, 0}};
  const std::vector<StepSlot> slots_after = {{6, 40, 0, 0}, {22, 41, 0, 0}};
  EXPECT_EQ(run.get<std::byte>(1), step_bytes(rows_after, slots_after, 3));
}

TEST(StepAdvance, NeverLeavesTheState) {
  std::vector<std::byte> step = step_bytes({{0, 0, 0, 0}}, {{0, 0, 0, 0}}, 1);
  const std::uint32_t huge = 0x10000000u;
  std::memcpy(step.data() + offsetof(StepHeader, n_rows), &huge, 4);
  std::memcpy(step.data() + offsetof(StepHeader, max_slots), &huge, 4);
  KernelRun run(Op::step_advance, DType::u32);
  run.params(ops::StepAdvanceParams{3}).in(std::vector<std::uint32_t>{1, 2, 3}).inout(step).run();
  const std::vector<std::byte> after = run.get<std::byte>(1);
  StepRow row;
  std::memcpy(&row, after.data() + sizeof(StepHeader), sizeof(row));
  EXPECT_EQ(row.token, 1u);
  EXPECT_EQ(row.position, 1u);
}

}  // namespace
}  // namespace onepass::test
