// quantize to block formats, dequantize from every format.
#include "kernel_harness.h"
#include "ops/quantize/params.h"
#include "packed_rows.h"

namespace onepass::test::dequantize_test {
namespace {

std::vector<DType> block_formats() {
  std::vector<DType> list;
#define BLOCK(format, Block) list.push_back(DType::format);
  ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
  return list;
}

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

TEST(Quantize, BlocksOfEveryFormatAndBack) {
  for (DType type : block_formats()) {
    for (std::uint32_t rows : {1u, 3u, 60u}) {
      const std::uint32_t cols = 3 * 256;
      const std::vector<float> x = random_floats(std::size_t{rows} * cols, 4, 3.0f);
      const Stored want = store(type, x);
      KernelRun to(Op::quantize, type);
      to.params(ops::QuantizeParams{rows, cols}).in(x).out(want.bytes.size()).run();
      EXPECT_EQ(to.get<std::byte>(1), want.bytes) << name(type);
      KernelRun back(Op::dequantize, type);
      back.params(ops::QuantizeParams{rows, cols}).in(want.bytes).out(x.size() * 4).run();
      EXPECT_EQ(back.get<float>(1), floats(want.values)) << name(type);
      if (rows == 60) {
        EXPECT_GT(to.launch().tiles, 1u);
        EXPECT_GT(back.launch().tiles, 1u);
      }
    }
  }
}

TEST(Dequantize, PackedMatrices) {
  for (DType native : packable_types) {
    const std::uint32_t rows = 37, cols = 512;  // the last group of rows is not full
    const NativeRows m = random_rows(native, rows, cols, 5);
    KernelRun run(Op::dequantize, Format{native, Layout::r16});
    run.params(ops::QuantizeParams{rows, cols}).in(pack_matrix(native, rows, cols, m.bytes));
    run.out(m.values.size() * 4).run();
    EXPECT_EQ(run.get<float>(1), m.values) << name(native);
  }
  for (std::uint32_t bits : {4u, 8u}) {
    for (DType type : {DType::f16, DType::bf16}) {
      const std::uint32_t rows = 18, cols = 128;
      const AffineMatrix m = random_affine(bits, 64, type, rows, cols, 6);
      const Format packed{quant::affine_type(bits, 64, type).value(), Layout::r16};
      std::vector<std::byte> bytes(storage_bytes(packed, rows, cols).value());
      ASSERT_TRUE(quant::pack_affine(m.rows(), packed, rows, cols, bytes));
      KernelRun run(Op::dequantize, packed);
      run.params(ops::QuantizeParams{rows, cols}).in(bytes).out(m.values.size() * 4).run();
      EXPECT_EQ(run.get<float>(1), m.values) << name(packed);
    }
  }
}

TEST(Dequantize, ActivationsComeBackWithinHalfAStep) {
  const std::uint32_t rows = 9, cols = 96;
  const std::vector<float> x = random_floats(std::size_t{rows} * cols, 7, 5.0f);
  KernelRun to(Op::quantize, DType::q8a);
  to.params(ops::QuantizeParams{rows, cols}).in(x).out(rows * 40 * cols / 32).run();
  KernelRun back(Op::dequantize, DType::q8a);
  back.params(ops::QuantizeParams{rows, cols}).in(to.get<std::byte>(1)).out(x.size() * 4).run();
  const std::vector<float> y = back.get<float>(1);
  for (std::size_t b = 0; b < x.size(); b += 32) {
    double largest = 0;
    for (std::size_t i = b; i < b + 32; ++i) largest = std::max(largest, std::abs(f64(x[i])));
    for (std::size_t i = b; i < b + 32; ++i) {
      EXPECT_NEAR(f64(x[i]), f64(y[i]), 0.5001 * largest / 127);
    }
  }
}

TEST(Dequantize, ShortViewsAreRefused) {
  KernelRun run(Op::dequantize, DType::q4_k);
  run.params(ops::QuantizeParams{2, 256}).in(std::vector<std::byte>(287)).out(2048);
  EXPECT_FALSE(run.launch_status().has_value());
}

}  // namespace
}  // namespace onepass::test::dequantize_test
