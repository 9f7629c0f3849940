#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "backends/cpu/cpu.h"
#include "core/features.h"
#include "onepass/device.h"
#include "ops/shared/scalar.h"
#include "simd16_cases.h"

#define ISA(isa, ...)                    \
  namespace onepass::ops::isa {          \
  test::RunSimd simd16_cases() noexcept; \
  }
#include "ops/shared/isa.def"
#undef ISA

namespace onepass::test {
namespace {

std::uint32_t word(float x) { return ops::op_to_bits(x); }
bool is_nan_word(std::uint32_t w) { return (w & 0x7fffffffu) > 0x7f800000u; }

SimdInput random_input(std::mt19937& g) {
  constexpr float special[] = {0.0f,
                               -0.0f,
                               1.0f,
                               0.5f,
                               -2.5f,
                               8388609.0f,
                               -4194303.5f,
                               65519.0f,
                               65520.0f,
                               1e-41f,
                               3e-8f,
                               3e38f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  SimdInput in{};
  std::uniform_real_distribution<float> unit(-1.0f, 1.0f);
  const auto any = [&] {
    switch (g() % 4) {
      case 0:
        return special[g() % std::size(special)];
      case 1:
        return ops::op_from_bits(static_cast<std::uint32_t>(g()) & 0xff7fffffu);
      default:
        return unit(g) * 20.0f;
    }
  };
  for (int i = 0; i < 16; ++i) {
    in.a[i] = any();
    in.b[i] = g() % 4 == 0 ? in.a[i] : any();
    in.c[i] = any();
    in.small[i] = g() % 8 == 0 ? std::round(unit(g) * 16) + 0.5f : unit(g) * 120.0f;
    in.ints[i] = static_cast<std::int32_t>(g()) / 16;
    // Signaling NaNs are left out: conversions may quiet them.
    in.halves[i] = static_cast<std::uint16_t>(g());
    if ((in.halves[i] & 0x7c00u) == 0x7c00u) in.halves[i] |= 0x200u;
    if ((in.halves[i] & 0x7f80u) == 0x7f80u) in.halves[i] |= 0x40u;
    in.x[i] = static_cast<std::int8_t>(static_cast<int>(g() % 255) - 127);
  }
  if (g() % 8 == 0) std::memset(in.x, g() % 2 ? 127 : -127, sizeof(in.x));
  for (std::uint8_t& w : in.w) w = static_cast<std::uint8_t>(g());
  for (std::uint16_t& w : in.words) w = static_cast<std::uint16_t>(g());
  if (g() % 8 == 0) std::memset(in.w, 0xff, sizeof(in.w));
  for (auto& block : in.blocks) {
    block.d = unit(g);
    block.s0 = static_cast<std::int16_t>(static_cast<int>(g() % 4065) - 2032);
    block.s1 = static_cast<std::int16_t>(static_cast<int>(g() % 4065) - 2032);
  }
  in.n = g() % 16;
  return in;
}

void expect_equal(const SimdOutput& got, const SimdOutput& want, const std::string& isa) {
  ASSERT_EQ(got.count, want.count);
  for (int i = 0; i < got.count; ++i) {
    for (int lane = 0; lane < 16; ++lane) {
      if (is_nan_word(got.lanes[i][lane]) && is_nan_word(want.lanes[i][lane])) continue;
      ASSERT_EQ(got.lanes[i][lane], want.lanes[i][lane])
          << isa << ": " << got.names[i] << " lane " << lane;
    }
  }
}

TEST(Simd16, EveryInstructionSetGivesTheSameBits) {
  const struct {
    const char* name;
    RunSimd run;  // null: not for this processor
    std::uint32_t needs;
  } sets[] = {
#define ISA(isa, condition, feature, ...) \
  {#isa, ops::isa::simd16_cases(), feature_bits(Feature::feature)},
#include "ops/shared/isa.def"
#undef ISA
  };
  std::mt19937 g(1);
  int compared = 0;
  for (int round = 0; round < 5000; ++round) {
    const SimdInput in = random_input(g);
    SimdOutput want;
    ops::base::simd16_cases()(in, want);
    ASSERT_LT(want.count, SimdOutput::max);
    for (const auto& set : sets) {
      if (set.run == nullptr || (set.needs & ~cpu_features()) != 0) continue;
      SimdOutput got;
      set.run(in, got);
      ASSERT_NO_FATAL_FAILURE(expect_equal(got, want, set.name));
      ++compared;
    }
  }
  EXPECT_GE(compared, 5000);
}

// What the base set computes, from the definitions.
TEST(Simd16, LanesAreTheScalarFunctions) {
  std::mt19937 g(2);
  for (int round = 0; round < 2000; ++round) {
    const SimdInput in = random_input(g);
    SimdOutput out;
    ops::base::simd16_cases()(in, out);
    const auto expect = [&](const char* name, auto&& f) {
      bool found = false;
      for (int k = 0; k < out.count; ++k) {
        if (std::strcmp(out.names[k], name) != 0) continue;
        found = true;
        for (int i = 0; i < 16; ++i) {
          const std::uint32_t want = f(i);
          if (is_nan_word(want) && is_nan_word(out.lanes[k][i])) continue;
          ASSERT_EQ(out.lanes[k][i], want) << name << " lane " << i;
        }
        break;
      }
      ASSERT_TRUE(found) << name;
    };
    expect("exp", [&](int i) { return word(ops::op_exp(in.small[i])); });
    expect("exp wide", [&](int i) { return word(ops::op_exp(in.a[i])); });
    expect("tanh", [&](int i) { return word(ops::op_tanh(in.small[i])); });
    expect("tanh wide", [&](int i) { return word(ops::op_tanh(in.a[i])); });
    expect("silu", [&](int i) { return word(ops::op_silu(in.small[i])); });
    expect("silu wide", [&](int i) { return word(ops::op_silu(in.a[i])); });
    expect("gelu", [&](int i) { return word(ops::op_gelu(in.small[i])); });
    expect("gelu wide", [&](int i) { return word(ops::op_gelu(in.a[i])); });
    expect("gelu_erf", [&](int i) { return word(ops::op_gelu_erf(in.small[i])); });
    expect("gelu_erf wide", [&](int i) { return word(ops::op_gelu_erf(in.a[i])); });
    expect("softcap", [&](int i) { return word(ops::op_softcap(in.small[i], 30.0f)); });
    expect("fma", [&](int i) { return word(std::fma(in.a[i], in.b[i], in.c[i])); });
    expect("round_even", [&](int i) { return word(std::nearbyint(in.a[i])); });
    expect("round_even small", [&](int i) { return word(std::nearbyint(in.small[i])); });
    expect("load_f16", [&](int i) { return word(ops::op_f16_to_f32(in.halves[i])); });
    expect("load_bf16", [&](int i) { return word(ops::op_bf16_to_f32(in.halves[i])); });
    expect("load_part",
           [&](int i) { return static_cast<std::size_t>(i) < in.n ? word(in.a[i]) : 0u; });
    expect("store_part",
           [&](int i) { return word(static_cast<std::size_t>(i) < in.n ? in.a[i] : in.b[i]); });
    expect("halves", [&](int i) {
      return (static_cast<std::uint32_t>(in.ints[i]) & 0xffffu) |
             (static_cast<std::uint32_t>(in.ints[7]) & 0xffff0000u);
    });
    expect("words_at 512", [&](int i) {
      const auto both = static_cast<std::uint32_t>(in.ints[i]);
      return in.words[both & 511u] | std::uint32_t{in.words[both >> 16 & 511u]} << 16;
    });
    expect("dot16 8", [&](int i) {
      std::int32_t sum = in.ints[i];
      for (int v = 0; v < 4; ++v) {
        for (int j = 0; j < 4; ++j) {
          const int w = in.w[64 * v + 4 * i + j] | (v == 3 ? 0x11 : 0);
          sum += w * in.x[4 * v + j];
        }
      }
      return static_cast<std::uint32_t>(sum);
    });
    expect("dot16 4", [&](int i) {
      std::int32_t sum = in.ints[i];
      for (int v = 0; v < 4; ++v) {
        for (int j = 0; j < 4; ++j) {
          sum += (in.w[64 * (v / 2) + 4 * i + j] >> 4 * (v % 2) & 15) * in.x[4 * v + j];
        }
      }
      return static_cast<std::uint32_t>(sum);
    });
    expect("sum", [&](int) {
      float t[16];
      std::memcpy(t, in.small, sizeof(t));
      for (int i = 0; i < 8; ++i) t[i] = in.small[i] + in.small[i + 8];
      for (int i = 0; i < 4; ++i) t[i] += t[i + 4];
      return word((t[0] + t[2]) + (t[1] + t[3]));
    });
  }
}

}  // namespace
}  // namespace onepass::test
