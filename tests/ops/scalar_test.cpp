#include "ops/shared/scalar.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "kernel_harness.h"

namespace onepass::test::scalar_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// From the definition of the format.
double f16_value(std::uint32_t h) {
  const int exponent = static_cast<int>(h >> 10 & 31), mantissa = static_cast<int>(h & 1023);
  const double sign = (h & 0x8000u) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryValueDecodesAndReturns) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float x = ops::op_f16_to_f32(h);
    const double want = f16_value(h);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(x)) << h;
      const std::uint32_t back = ops::op_f32_to_f16(x);
      EXPECT_TRUE((back & 0x7c00u) == 0x7c00u && (back & 0x3ffu) != 0) << h;
      EXPECT_EQ(back & 0x8000u, h & 0x8000u);
      continue;
    }
    ASSERT_EQ(f64(x), want) << h;
    ASSERT_EQ(std::signbit(x), (h & 0x8000u) != 0) << h;
    ASSERT_EQ(ops::op_f32_to_f16(x), h);
  }
}

TEST(F16, RoundsToNearestEvenBetweenAllNeighbours) {
  for (std::uint32_t h = 0; h < 0x7c00u; ++h) {
    const double lo = f16_value(h);
    const double hi = h + 1 == 0x7c00u ? 65536.0 : f16_value(h + 1);
    const auto middle = static_cast<float>((lo + hi) / 2);  // exact: 12 bits at most
    const std::uint32_t even = (h & 1u) == 0 ? h : h + 1;
    ASSERT_EQ(ops::op_f32_to_f16(middle), even) << h;
    ASSERT_EQ(ops::op_f32_to_f16(std::nextafter(middle, 0.0f)), h) << h;
    ASSERT_EQ(ops::op_f32_to_f16(std::nextafter(middle, infinity)), h + 1) << h;
    ASSERT_EQ(ops::op_f32_to_f16(-middle), even | 0x8000u) << h;
  }
  EXPECT_EQ(ops::op_f32_to_f16(infinity), 0x7c00u);
  EXPECT_EQ(ops::op_f32_to_f16(-1e30f), 0xfc00u);
}

TEST(BF16, EveryValueReturnsAndMiddlesRoundToEven) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float x = ops::op_bf16_to_f32(h);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(ops::op_bf16_to_f32(ops::op_f32_to_bf16(x)))) << h;
      continue;
    }
    ASSERT_EQ(ops::op_f32_to_bf16(x), h);
    if ((h & 0x7f80u) == 0x7f80u) continue;
    const std::uint32_t bits = h << 16;
    ASSERT_EQ(ops::op_f32_to_bf16(ops::op_from_bits(bits | 0x8000u)), h + (h & 1u));
    ASSERT_EQ(ops::op_f32_to_bf16(ops::op_from_bits(bits | 0x7fffu)), h);
    ASSERT_EQ(ops::op_f32_to_bf16(ops::op_from_bits(bits | 0x8001u)), h + 1);
  }
}

// Distance in units of the last place of the exact result, subnormals included.
double ulps(float got, double want) {
  const double magnitude = std::max(std::abs(want), 0x1p-126);
  return std::abs(f64(got) - want) / std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

TEST(Scalar, ExpStaysWithinTwoUlps) {
  for (float x = -104.0f; x < 88.72f; x += 0.0007f) {
    ASSERT_LE(ulps(ops::op_exp(x), std::exp(f64(x))), 2.0) << x;
  }
  EXPECT_EQ(ops::op_exp(0.0f), 1.0f);
  EXPECT_EQ(ops::op_exp(89.0f), infinity);
  EXPECT_EQ(ops::op_exp(infinity), infinity);
  EXPECT_EQ(ops::op_exp(-infinity), 0.0f);
  EXPECT_EQ(ops::op_exp(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(ops::op_exp(nan_value)));
}

TEST(Scalar, TanhStaysWithinFourUlps) {
  for (float x = -12.0f; x < 12.0f; x += 0.00031f) {
    ASSERT_LE(ulps(ops::op_tanh(x), std::tanh(f64(x))), 4.0) << x;
  }
  for (float x = 1e-30f; x < 0.1f; x *= 1.37f) {
    ASSERT_LE(ulps(ops::op_tanh(x), std::tanh(f64(x))), 4.0) << x;
    ASSERT_EQ(ops::op_tanh(-x), -ops::op_tanh(x));
  }
  EXPECT_EQ(ops::op_tanh(infinity), 1.0f);
  EXPECT_EQ(ops::op_tanh(-infinity), -1.0f);
  EXPECT_EQ(ops::op_tanh(0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(ops::op_tanh(nan_value)));
}

TEST(Scalar, SiluOfLargeNegativeNumbersIsZero) {
  EXPECT_EQ(ops::op_silu(-200.0f), -0.0f);
  EXPECT_EQ(ops::op_silu(200.0f), 200.0f);
  EXPECT_TRUE(std::isnan(ops::op_gelu(nan_value)));
  EXPECT_TRUE(std::isnan(ops::op_silu(nan_value)));
}

TEST(Scalar, CosSinCoverTheCircle) {
  for (int i = -5000; i <= 5000; ++i) {
    const float turns = static_cast<float>(i) / 10000.0f;
    const ops::OpPair p = ops::op_cos_sin_turns(turns);
    ASSERT_NEAR(f64(p.hi), std::cos(2 * M_PI * f64(turns)), 2e-7) << turns;
    ASSERT_NEAR(f64(p.lo), std::sin(2 * M_PI * f64(turns)), 2e-7) << turns;
  }
}

// long double keeps 64 bits: enough for the reference at every position.
TEST(Scalar, RopeAngleIsExactAtLongContexts) {
  for (double theta : {10000.0, 500000.0, 1e7}) {
    for (std::uint32_t dim : {64u, 128u, 512u}) {
      const double ratio = std::pow(theta, -2.0 / dim);
      const auto hi = static_cast<float>(ratio);
      const auto lo = static_cast<float>(ratio - f64(hi));
      for (std::uint32_t i = 0; i < dim / 2; i += 3) {
        for (std::uint32_t position : {0u, 1u, 77u, 4096u, 131071u, 1048575u, 10000019u}) {
          for (float factor : {1.0f, 8.0f, 3.7f}) {
            const long double frequency = powl(static_cast<long double>(theta), -2.0L * i / dim) /
                                          static_cast<long double>(factor);
            const long double angle = position * frequency;
            const ops::OpPair p =
                ops::op_cos_sin_turns(ops::op_rope_turns(position, i, hi, lo, factor));
            // 3e-7 for the result, 2^-40 of the angle for the frequency.
            const double bound = 3e-7 + static_cast<double>(angle) * 0x1p-40;
            ASSERT_NEAR(f64(p.hi), static_cast<double>(cosl(angle)), bound)
                << theta << " " << dim << " " << i << " " << position << " " << factor;
            ASSERT_NEAR(f64(p.lo), static_cast<double>(sinl(angle)), bound);
          }
        }
      }
    }
  }
}

TEST(Scalar, RopeAngleOfOddInputsIsFinite) {
  for (float factor : {0.0f, -1.0f, 1e-30f, infinity, nan_value}) {
    const float turns = ops::op_rope_turns(0xffffffffu, 3, 0.9f, 0.0f, factor);
    EXPECT_LE(std::abs(turns), 0.5f) << factor;
  }
}

TEST(Q4_0, GoldenBlock) {
  quant::BlockQ4_0 block{};
  block.d = 0x3800;  // 0.5
  for (int j = 0; j < 16; ++j) block.qs[j] = static_cast<std::uint8_t>(j | (15 - j) << 4);
  float out[32];
  quant::dequantize(block, out);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(out[j], static_cast<float>(j - 8) * 0.5f);
    EXPECT_EQ(out[j + 16], static_cast<float>(7 - j) * 0.5f);
  }
}

TEST(Q4_0, GoldenRounding) {
  float x[32] = {3.4f, 7.9f, -8.0f};
  quant::BlockQ4_0 block{};
  quant::quantize(x, block);
  EXPECT_EQ(block.d, 0x3c00);  // 1.0
  float out[32];
  quant::dequantize(block, out);
  EXPECT_EQ(out[0], 3.0f);
  EXPECT_EQ(out[1], 7.0f);
  EXPECT_EQ(out[2], -8.0f);
  EXPECT_EQ(out[3], 0.0f);
}

template <class Block>
void expect_quantized_within(double steps, double levels) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    const std::vector<float> x = random_floats(32, seed, static_cast<float>(seed) * 0.1f);
    Block block{};
    float out[32];
    quant::quantize(x.data(), block);
    quant::dequantize(block, out);
    double largest = 0;
    for (float v : x) largest = std::max(largest, std::abs(f64(v)));
    // The scale is rounded to f16, which moves the ends by up to 2^-11.
    const double bound = largest / levels * steps + largest * 0x1p-11;
    for (std::size_t i = 0; i < 32; ++i) {
      ASSERT_NEAR(f64(out[i]), f64(x[i]), bound) << seed << " at " << i;
    }
  }
}

TEST(Q4_0, ErrorIsAtMostOneStep) { expect_quantized_within<quant::BlockQ4_0>(1.0, 8.0); }
TEST(Q8_0, ErrorIsHalfAStep) { expect_quantized_within<quant::BlockQ8_0>(0.501, 127.0); }

TEST(Quant, BlocksThatAreNotNumbersStayDefined) {
  for (float odd : {nan_value, infinity, -infinity, 1e-45f, -1e-40f, 0.0f}) {
    float x[32] = {};
    x[3] = odd;
    x[4] = -odd;
    quant::BlockQ4_0 four{};
    quant::BlockQ8_0 eight{};
    quant::quantize(x, four);
    quant::quantize(x, eight);
    float out[32];
    quant::dequantize(four, out);
    quant::dequantize(eight, out);
    if (odd == 0.0f) {
      for (float v : out) EXPECT_EQ(v, 0.0f);
    }
  }
}

}  // namespace
}  // namespace onepass::test::scalar_test
