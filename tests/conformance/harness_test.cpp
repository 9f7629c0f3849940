// The conformance harness itself: kernels with one mistake each, and what finds it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/reference.h"
#include "conformance/runner.h"

namespace onepass::conformance::harness_test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t n = 19;

// out = 2 x, in two tiles.
void twice(const KernelArgs& a) noexcept {
  const KernelArgs::Part part = a.part(n);
  for (std::uint64_t i = part.begin; i < part.end; ++i) {
    a.ptr<float>(1)[i] = 2.0f * a.ptr<const float>(0)[i];
  }
}
void writes_behind(const KernelArgs& a) noexcept {
  twice(a);
  a.ptr<float>(1)[n] = 1.0f;
}
void writes_before(const KernelArgs& a) noexcept {
  twice(a);
  a.data[1][-1] = std::byte{7};
}
void writes_input(const KernelArgs& a) noexcept {
  twice(a);
  a.ptr<float>(0)[3] = 1.0f;
}
void reads_behind(const KernelArgs& a) noexcept {
  twice(a);
  // Within the bound: only the bits tell.
  const float beyond = a.ptr<const float>(0)[n];
  a.ptr<float>(1)[0] *= beyond == beyond ? 1.0000002f : 1.0f;
}
void reads_output(const KernelArgs& a) noexcept {
  const float before = a.ptr<float>(1)[5];
  twice(a);
  a.ptr<float>(1)[5] *= before == before ? 1.0000002f : 1.0f;
}
void leaves_a_gap(const KernelArgs& a) noexcept {
  const float before = a.ptr<float>(1)[7];
  twice(a);
  a.ptr<float>(1)[7] = before;
}
void slightly_off(const KernelArgs& a) noexcept {
  twice(a);
  a.ptr<float>(1)[11] *= 1.00001f;
}

Prepared twice_case(CpuKernelFn kernel) {
  Random random("twice");
  const Stored x = random_values(random, DType::f32, n, 1.0);
  Prepared p;
  p.add(input(DType::f32, {n}, x.bytes, 4));
  p.add(output(DType::f32, {n}, 12));
  p.encode = [kernel](GraphSession& s, Tensors t) {
    const auto id = s.device().kernels().add({.name = "twice", .slots = "io", .cpu = kernel});
    ASSERT_TRUE(id);
    Dispatch d = make_dispatch(Op::custom);
    d.kernel = *id;
    d.grid = Grid::groups({1, 1, 1}, {1, 1, 1});
    d.bind(t[0].view, Access::read);
    d.bind(t[1].view, Access::write);
    s.encode(d);
  };
  p.expect = [x](bool) {
    Expect e{.operand = 1};
    for (const double v : x.values) {
      e.want.push_back(2.0 * v);
      e.bound.push_back(16 * f32_unit * std::abs(v));
    }
    return std::vector{e};
  };
  return p;
}

// Everything the program does with a case: both poisons, the reference, equal bits.
std::string verdict(CpuKernelFn kernel) {
  const Result<Target> target = Target::open({.path = "base", .forbid = false});
  if (!target) return "no device";
  const Prepared p = twice_case(kernel);
  const std::vector<Expect> expected = p.expect(false);
  Outcome outcomes[2];
  std::string error;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::byte poison = i == 0 ? std::byte{0xff} : std::byte{0x3f};
    outcomes[i] = target->run(p, poison, static_cast<unsigned>(2 * i));
    if (!outcomes[i].error.empty()) return outcomes[i].error;
    check(p, expected, outcomes[i], poison, error);
    if (!error.empty()) return error;
  }
  return compare(p, expected, outcomes[0], outcomes[1], true);
}

TEST(ConformanceHarness, AcceptsACorrectKernel) { EXPECT_EQ(verdict(twice), ""); }

TEST(ConformanceHarness, FindsWritesOutsideTheView) {
  EXPECT_THAT(verdict(writes_behind), HasSubstr("operand 1 (f32): wrote byte"));
  EXPECT_THAT(verdict(writes_before), HasSubstr("operand 1 (f32): wrote byte"));
}

TEST(ConformanceHarness, FindsWritesToAnInput) {
  EXPECT_THAT(verdict(writes_input), HasSubstr("operand 0 (f32): wrote byte"));
  EXPECT_THAT(verdict(writes_input), HasSubstr("only read"));
}

TEST(ConformanceHarness, FindsReadsOutsideTheDeclaredRanges) {
  EXPECT_THAT(verdict(reads_behind), HasSubstr("differs"));
  EXPECT_THAT(verdict(reads_output), HasSubstr("differs"));
}

TEST(ConformanceHarness, FindsElementsThatAreNotWritten) {
  EXPECT_THAT(verdict(leaves_a_gap), HasSubstr("element 7"));
}

TEST(ConformanceHarness, FindsErrorsAboveTheBound) {
  EXPECT_THAT(verdict(slightly_off), HasSubstr("element 11"));
}

TEST(ConformanceHarness, RowsAloneAreCompared) {
  const Result<Target> target = Target::open({"cpu", "base", 1});
  ASSERT_TRUE(target);
  Prepared all;
  all.add(input(DType::f32, {2, 2}, store(DType::f32, {1, 2, 3, 4}).bytes));
  all.add(output(DType::f32, {2, 2}));
  all.encode = [](GraphSession& s, Tensors t) { ops::softmax(s, {.x = t[0], .out = t[1]}); };
  const std::size_t per_row[] = {0, 1};
  const Prepared second = take_row(all, 1, per_row);
  const Outcome among = target->run(all, std::byte{0xff}, 0);
  const Outcome alone = target->run(second, std::byte{0x3f}, 0);
  ASSERT_EQ(among.error + alone.error, "");
  EXPECT_EQ(compare_row(all, among, second, alone, 1, 2), "");
  Outcome other = alone;
  other.views[1][0] ^= std::byte{1};
  EXPECT_THAT(compare_row(all, among, second, other, 1, 2), HasSubstr("row 1 alone"));
}

TEST(ConformanceHarness, NarrowFloatsAreThoseOfIeee) {
  EXPECT_EQ(to_f16(1.0), 0x3c00);
  EXPECT_EQ(to_f16(65504.0), 0x7bff);
  EXPECT_EQ(to_f16(65520.0), 0x7c00);
  EXPECT_EQ(to_f16(-0x1p-24), 0x8001);
  EXPECT_EQ(to_f16(0x1p-25), 0x0000);        // a tie, to even
  EXPECT_EQ(to_f16(1.0 + 0x1p-11), 0x3c00);  // likewise
  EXPECT_EQ(to_f16(1.0 + 3 * 0x1p-11), 0x3c02);
  EXPECT_EQ(to_bf16(1.0 + 0x1p-8), 0x3f80);
  EXPECT_EQ(to_bf16(1.0 + 3 * 0x1p-8), 0x3f82);
  EXPECT_EQ(to_bf16(3.4e38), 0x7f80);
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    EXPECT_TRUE(std::isnan(from_f16(b)) || to_f16(from_f16(b)) == b) << bits;
    EXPECT_TRUE(std::isnan(from_bf16(b)) || to_bf16(from_bf16(b)) == b) << bits;
  }
}

TEST(ConformanceHarness, QuantizedRowsCheckTheirSums) {
  Random random("q8a");
  const Doubles x = random_values(random, DType::f32, 128, 1.0).values;
  Bytes bytes = store_q8a(x, 64);
  ASSERT_EQ(bytes.size(), 160u);
  EXPECT_EQ(load_q8a(bytes, 64), quantize_activations(x).values);
  bytes[64 + 4] ^= std::byte{1};
  EXPECT_TRUE(std::isnan(load_q8a(bytes, 64)[31]));
}

}  // namespace
}  // namespace onepass::conformance::harness_test
