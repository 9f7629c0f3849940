#include "kernel_harness.h"
#include "ops/move/params.h"

namespace onepass::test::move_test {
namespace {

constexpr DType element_types[] = {DType::f32, DType::f16, DType::bf16, DType::u8,
                                   DType::u16, DType::u32, DType::i32};

std::vector<std::uint8_t> random_bytes(std::size_t n, unsigned seed = 7) {
  std::vector<std::uint8_t> bytes(n);
  std::mt19937 generator(seed);
  for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(generator());
  return bytes;
}

TEST(Copy, EveryTypeToTheLastByte) {
  for (const Format type : {
#define FORMAT(name, ggml_id, elements, bytes) formats::name,
#include "onepass/tables/formats.def"
#define LAYOUT(type, layout, elements, bytes, Form) formats::type##_##layout,
#include "onepass/tables/formats.def"
       }) {
    const std::size_t many = std::min<std::size_t>(40001, 1000003 / info(type).block_bytes);
    for (std::size_t blocks : {std::size_t{1}, std::size_t{3}, many}) {
      std::vector<std::uint8_t> bytes(blocks * info(type).block_bytes);
      std::mt19937 generator(7);
      for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(generator());
      KernelRun run(Op::copy, type);
      run.params(ops::CopyParams{static_cast<std::uint32_t>(bytes.size()), 0});
      run.in(bytes).out(bytes.size()).run();
      EXPECT_EQ(run.get<std::uint8_t>(1), bytes) << name(type);
    }
  }
}

TEST(Gather, RowsOfEveryUnpackedType) {
  const std::uint32_t source_rows = 9;
  const std::vector<std::uint32_t> indices = {8, 0, 9, 3, 3, 0xffffffffu};  // two are clamped
  for (const Format type : {
#define FORMAT(name, ggml_id, elements, bytes) formats::name,
#include "onepass/tables/formats.def"
       }) {
    for (std::uint32_t blocks : {1u, 3u}) {
      const std::size_t row = std::size_t{blocks} * info(type).block_bytes;
      const std::vector<std::uint8_t> x = random_bytes(source_rows * row);
      std::vector<std::uint8_t> want;
      for (std::uint32_t i : indices) {
        const auto from = x.begin() + static_cast<std::ptrdiff_t>(std::min(i, 8u) * row);
        want.insert(want.end(), from, from + static_cast<std::ptrdiff_t>(row));
      }
      KernelRun run(Op::gather, type);
      run.params(ops::GatherParams{6, source_rows, static_cast<std::uint32_t>(row), 0, 0});
      run.in(x).in(indices).out(want.size()).run();
      EXPECT_EQ(run.get<std::uint8_t>(2), want) << name(type);
    }
  }
}

TEST(Gather, ManyRowsInTilesAndNoneToTakeFrom) {
  const std::uint32_t n = 1000, bytes = 4 * 64;
  std::vector<std::uint32_t> indices(n), x(64 * 50), want;
  for (std::uint32_t i = 0; i < n; ++i) indices[i] = i * 7 % 50;
  for (std::uint32_t i = 0; i < x.size(); ++i) x[i] = i;
  for (std::uint32_t i : indices) {
    for (std::uint32_t c = 0; c < 64; ++c) want.push_back(i * 64 + c);
  }
  KernelRun run(Op::gather, DType::u32);
  run.params(ops::GatherParams{n, 50, bytes, 0, 0}).in(x).in(indices).out(n * bytes).run();
  ASSERT_GT(run.launch().tiles, 1u);
  EXPECT_EQ(run.get<std::uint32_t>(2), want);

  KernelRun empty(Op::gather, DType::u32);
  empty.params(ops::GatherParams{1, 0, 4, 0, 0}).none().in(std::vector<std::uint32_t>{0}).out(4);
  EXPECT_FALSE(empty.launch_status().has_value());
}

TEST(Transpose, EveryElementSizeAndUnit) {
  struct Case {
    std::uint32_t batch, rows, cols, inner;
  };
  for (DType type : element_types) {
    for (const Case& c : {Case{1, 1, 1, 1}, Case{3, 5, 7, 1}, Case{1, 100, 333, 1},
                          Case{2, 33, 65, 1}, Case{2, 5, 6, 9}, Case{1, 130, 40, 16}}) {
      const std::uint32_t unit = info(type).block_bytes * c.inner;
      const std::size_t n = std::size_t{c.batch} * c.rows * c.cols;
      const std::vector<std::uint8_t> x = random_bytes(n * unit);
      std::vector<std::uint8_t> want(x.size());
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t b = i / (c.rows * c.cols), r = i / c.cols % c.rows, col = i % c.cols;
        std::memcpy(&want[((b * c.cols + col) * c.rows + r) * unit], &x[i * unit], unit);
      }
      KernelRun run(Op::transpose, type);
      run.params(ops::TransposeParams{c.batch, c.rows, c.cols, unit}).in(x).out(x.size()).run();
      EXPECT_EQ(run.get<std::uint8_t>(1), want) << name(type) << c.rows << "x" << c.cols;
    }
  }
}

TEST(Columns, SlicePutAndConcat) {
  for (DType type : element_types) {
    for (std::uint32_t rows : {1u, 3u, 5000u}) {
      const std::uint32_t e = info(type).block_bytes, a_cols = 5, b_cols = 8, cols = 13;
      const std::vector<std::uint8_t> x = random_bytes(std::size_t{rows} * cols * e);
      std::vector<std::uint8_t> left, right;
      for (std::uint32_t r = 0; r < rows; ++r) {
        const auto row = x.begin() + static_cast<std::ptrdiff_t>(r * cols * e);
        left.insert(left.end(), row, row + a_cols * e);
        right.insert(right.end(), row + a_cols * e, row + cols * e);
      }
      KernelRun slice(Op::slice, type);
      slice.params(ops::ColumnsParams{rows, a_cols * e, cols * e, 0, b_cols * e, b_cols * e});
      slice.in(x).out(right.size()).run();
      EXPECT_EQ(slice.get<std::uint8_t>(1), right) << name(type);

      KernelRun concat(Op::concat, type);
      concat.params(ops::ConcatParams{rows, a_cols * e, b_cols * e}).in(left).in(right);
      concat.out(x.size()).run();
      EXPECT_EQ(concat.get<std::uint8_t>(2), x) << name(type);

      // The left columns stay as they were.
      std::vector<std::uint8_t> into = random_bytes(x.size(), 99), want = x;
      for (std::size_t r = 0; r < rows; ++r) {
        std::memcpy(&want[r * cols * e], &into[r * cols * e], a_cols * e);
      }
      KernelRun put(Op::put, type);
      put.params(ops::ColumnsParams{rows, 0, b_cols * e, a_cols * e, cols * e, b_cols * e});
      put.in(right).inout(into).run();
      EXPECT_EQ(put.get<std::uint8_t>(1), want) << name(type);
    }
  }
}

TEST(Columns, ParamsBeyondTheRowAreRefused) {
  for (const ops::ColumnsParams& p :
       {ops::ColumnsParams{1, 8, 16, 0, 12, 12}, ops::ColumnsParams{1, 0, 16, 4, 12, 12}}) {
    KernelRun run(Op::slice, DType::f32);
    run.params(p).in(random_bytes(16)).out(16);
    EXPECT_FALSE(run.launch_status().has_value());
  }
}

}  // namespace
}  // namespace onepass::test::move_test
