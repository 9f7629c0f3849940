#include "quant/packed.h"

#include <cstring>
#include <random>

#include "kernel_harness.h"
#include "packed_rows.h"

namespace onepass::test::packed_test {
namespace {

bool exists(Format format) { return info(format).group_rows != 0; }

std::vector<Format> all_packed() {
  std::vector<Format> all;
  for (const Layout layout : {Layout::r16, Layout::s16}) {
    for (const DType native : packable_types) {
      if (exists({native, layout})) all.push_back({native, layout});
    }
  }
  return all;
}

TEST(Packed, QuantizedFormatsHaveBothLayouts) {
  EXPECT_EQ(all_packed().size(), std::size(packable_types) + 5);
  EXPECT_EQ((Format{DType::q4_0, Layout::s16}), formats::q4_0_s16);
  EXPECT_FALSE(exists({DType::f16, Layout::s16}));
}

TEST(Packed, EveryRowUnpacksToTheBitsOfItsBlocks) {
  for (const Format packed : all_packed()) {
    const auto [native, layout] = packed;
    for (std::uint32_t rows : {1u, 15u, 16u, 17u, 50u}) {
      for (std::uint32_t cols : {256u, 768u}) {
        const NativeRows m = random_rows(native, rows, cols, rows * cols);
        const std::vector<std::byte> p = pack_matrix(native, rows, cols, m.bytes, layout);
        for (std::uint32_t r = 0; r < rows; ++r) {
          std::vector<float> got(cols);
          quant::unpack_row(packed, p.data(), r, cols, got.data());
          ASSERT_EQ(std::memcmp(got.data(), m.values.data() + std::size_t{r} * cols, cols * 4), 0)
              << name(packed) << " row " << r << " of " << rows;
        }
        // Rows that only fill the group have a scale of zero.
        for (std::uint32_t r = rows; r < (rows + 15) / 16 * 16; ++r) {
          std::vector<float> got(cols, 1.0f);
          quant::unpack_row(packed, p.data(), r, cols, got.data());
          for (float v : got) ASSERT_EQ(v, 0.0f) << name(packed);
        }
      }
    }
  }
}

TEST(Packed, PartsOfSixteenRowsMakeTheWholeMatrix) {
  for (const Format packed : all_packed()) {
    const auto [native, layout] = packed;
    const std::uint32_t rows = 41, cols = 512;
    const NativeRows m = random_rows(native, rows, cols, 3);
    const std::vector<std::byte> whole = pack_matrix(native, rows, cols, m.bytes, layout);
    std::vector<std::byte> parts(whole.size());
    const std::size_t row_bytes = m.bytes.size() / rows;
    for (std::uint32_t r = 0; r < rows; r += 16) {
      const std::uint32_t count = std::min(16u, rows - r);
      const auto offset = static_cast<std::size_t>(storage_bytes(packed, r, cols).value());
      const Status status = quant::pack(
          packed, count, cols, std::span(m.bytes).subspan(r * row_bytes, count * row_bytes),
          std::span(parts).subspan(offset));
      ASSERT_TRUE(status) << status.error().message;
    }
    EXPECT_EQ(parts, whole) << name(packed);
  }
}

TEST(Packed, ScalesOfTensorsMultiplyEveryRow) {
  const std::uint32_t rows = 19, cols = 192;
  const NativeRows m = random_rows(DType::nvfp4, rows, cols, 4);
  std::vector<std::byte> p(storage_bytes(formats::nvfp4_r16, rows, cols).value());
  EXPECT_EQ(p.size(), 2 * 16 * (3 * 36 + 4));
  const float scale = 0.0371f;
  ASSERT_TRUE(quant::pack(formats::nvfp4_r16, rows, cols, m.bytes, p, scale));
  std::vector<float> got(cols);
  for (std::uint32_t r = 0; r < rows; ++r) {
    quant::unpack_row(formats::nvfp4_r16, p.data(), r, cols, got.data());
    for (std::uint32_t c = 0; c < cols; ++c) {
      ASSERT_EQ(got[c], m.values[std::size_t{r} * cols + c] * scale) << r << ", " << c;
    }
  }
  const std::vector<std::byte> plain(34);
  EXPECT_EQ(quant::pack(formats::q8_0_r16, 1, 32, plain, p, scale).error().code,
            ErrorCode::unsupported);
}

// Every scale of a file, those that mean 0 and those whose eighth bit means nothing too.
TEST(Packed, EveryScaleOfNvfp4) {
  for (int code = 0; code < 256; ++code) {
    quant::BlockNVFP4 block;
    std::memset(&block, 0x3a, sizeof(block));
    std::memset(block.scales, code, sizeof(block.scales));
    std::vector<std::byte> bytes(sizeof(block));
    std::memcpy(bytes.data(), &block, sizeof(block));
    const std::vector<std::byte> p = pack_matrix(DType::nvfp4, 1, 64, bytes);
    std::vector<float> got(64), want(64);
    quant::unpack_row(formats::nvfp4_r16, p.data(), 0, 64, got.data());
    quant::dequantize(block, want.data());
    EXPECT_EQ(got, want) << code;
  }
}

TEST(Packed, AffineWeightsUnpackToScaleTimesNumberPlusBias) {
  for (std::uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
    for (std::uint32_t group : {32u, 64u, 128u}) {
      for (DType type : {DType::f32, DType::f16, DType::bf16}) {
        const std::uint32_t rows = 19, cols = 384;
        const AffineMatrix m = random_affine(bits, group, type, rows, cols, bits + group);
        for (const Layout layout : {Layout::r16, Layout::s16}) {
          const Format packed{quant::affine_type(bits, group, type).value(), layout};
          if (!exists(packed)) continue;
          // At most a tenth more than the file's bytes.
          EXPECT_LE(10 * storage_bytes(packed, 16, cols).value() * rows,
                    11 * 16 * (m.weight.size() + m.scales.size() + m.biases.size()))
              << name(packed);
          std::vector<std::byte> p(storage_bytes(packed, rows, cols).value());
          const Status status = quant::pack_affine(m.rows(), packed, rows, cols, p);
          ASSERT_TRUE(status) << status.error().message;
          std::vector<float> got(cols);
          for (std::uint32_t r = 0; r < rows; ++r) {
            quant::unpack_row(packed, p.data(), r, cols, got.data());
            for (std::uint32_t c = 0; c < cols; ++c) {
              ASSERT_EQ(got[c], m.values[std::size_t{r} * cols + c])
                  << name(packed) << " " << r << ", " << c;
            }
          }
        }
      }
    }
  }
}

TEST(Packed, SplitPlanesAreRowsOfWholePieces) {
  const std::uint32_t rows = 16, cols = 96;
  const NativeRows m = random_rows(DType::q4_0, rows, cols, 9);
  const std::vector<std::byte> p = pack_matrix(DType::q4_0, rows, cols, m.bytes, Layout::s16);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t b = 0; b < 3; ++b) {
      const std::byte* block = m.bytes.data() + 18 * (3 * r + b);
      EXPECT_EQ(std::memcmp(p.data() + 48 * r + 16 * b, block + 2, 16), 0);
      EXPECT_EQ(std::memcmp(p.data() + 16 * 48 + 6 * r + 2 * b, block, 2), 0);
    }
  }
}

TEST(Packed, WhatDoesNotFitIsAnError) {
  std::vector<std::byte> src(4096), dst(65536);
  using quant::pack;
  EXPECT_EQ(pack({DType::q2_k, Layout::s16}, 1, 256, src, dst).error().code,
            ErrorCode::unsupported);
  EXPECT_EQ(pack(DType::q4_0, 1, 32, src, dst).error().code, ErrorCode::unsupported);
  EXPECT_EQ(pack(formats::q4_0_r16, 1, 48, src, dst).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pack(formats::f32_r16, 33, 32, src, dst).error().code,
            ErrorCode::invalid_argument);  // src
  EXPECT_EQ(pack(formats::q4_k_r16, 17, 256, src, std::span(dst).first(2 * 2368 - 1)).error().code,
            ErrorCode::invalid_argument);  // dst
  EXPECT_EQ(pack(formats::f32_r16, ~std::uint64_t{0}, 32, src, dst).error().code,
            ErrorCode::invalid_argument);
  quant::AffineRows a{src, src, src, 4, 256, DType::f16};
  EXPECT_EQ(quant::pack_affine(a, formats::a4_f16_r16, 1, 64, dst).error().code,
            ErrorCode::unsupported);
  a.group_size = 128;
  EXPECT_EQ(quant::pack_affine(a, formats::a4_f16_r16, 1, 64, dst).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(quant::pack_affine(a, formats::a8_f16_r16, 1, 128, dst).error().code,
            ErrorCode::unsupported);
  a.scales = {};
  EXPECT_EQ(quant::pack_affine(a, formats::a4_f16_r16, 1, 128, dst).error().code,
            ErrorCode::invalid_argument);
  EXPECT_FALSE(exists({DType::q8a, Layout::r16}));
  EXPECT_FALSE(quant::affine_type(7, 64, DType::f16));
  EXPECT_FALSE(quant::affine_type(4, 64, DType::u32));
  EXPECT_FALSE(quant::affine_type(4, 256, DType::f16));
}

}  // namespace
}  // namespace onepass::test::packed_test
