// What is fused where intermediates lie in buffers of the caller's, and what is said about the
// rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/elementwise/params.h"
#include "support/norm_product.h"

namespace onepass::fuse_callers_test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StrEq;

TEST(FuseInCallersBuffers, ANormAndItsProductAreOneDispatch) {
  test::expect_norm_product_fuses(test::open_cpu());
}

// A product with a residual: no row writes the sum without it.
FinishReport product_and_residual(bool discard, std::uint32_t times) {
  const Device device = test::open_cpu();
  const Buffer x = test::floats(device, std::vector<float>(32, 1.0f)),
               w = test::floats(device, std::vector<float>(128, 0.5f)),
               product = test::floats(device, std::vector<float>(4, -7.0f)),
               residual = test::floats(device, {1, 2, 3, 4}),
               out = test::floats(device, std::vector<float>(4));
  GraphSession s = GraphExecutor(device).begin_recorded();
  const Tensor p = product.tensor(DType::f32, {1, 4});
  for (std::uint32_t i = 0; i < times; ++i) {
    ops::matmul(
        s, {.x = x.tensor(DType::f32, {1, 32}), .weight = w.tensor(DType::f32, {4, 32}), .out = p});
    ops::add(
        s,
        {.a = p, .b = residual.tensor(DType::f32, {1, 4}), .out = out.tensor(DType::f32, {1, 4})});
  }
  if (discard) s.discard(p.view);
  const FinishReport report = *s.finish();
  EXPECT_EQ(test::read_floats(device, out.view()), (std::vector<float>{17, 18, 19, 20}));
  EXPECT_EQ(test::read_floats(device, product.view())[0], discard ? -7.0f : 16.0f);
  return report;
}

TEST(FuseInCallersBuffers, WhatStaysApartIsToldWithItsReason) {
  const FinishReport apart = product_and_residual(false, 1);
  EXPECT_EQ(apart.fused.count, 0u);
  ASSERT_THAT(apart.fused.kept, SizeIs(1));
  EXPECT_EQ(apart.fused.kept[0].count, 1u);
  EXPECT_THAT(apart.fused.kept[0].reason, StrEq("in a caller's buffer; use scratch or discard"));
  const FinishReport discarded = product_and_residual(true, 1);
  EXPECT_EQ(discarded.fused.count, 1u);
  EXPECT_THAT(discarded.fused.kept, IsEmpty());
}

TEST(FuseInCallersBuffers, ABufferThatIsUsedAgainIsWrittenOnceMore) {
  const FinishReport report = product_and_residual(false, 3);
  EXPECT_EQ(report.fused.count, 2u);
  ASSERT_THAT(report.fused.kept, SizeIs(1));
  EXPECT_EQ(report.fused.kept[0].count, 1u);
}

// Writes the first two of four floats.
Dispatch half_writer(KernelId kernel, const Buffer& t, const Buffer& f, bool by_kernel) {
  Dispatch d = make_dispatch(by_kernel ? Op::custom : Op::mul);
  if (by_kernel) {
    d.kernel = kernel;
    d.grid = Grid::groups({1, 1, 1}, {1, 1, 1});
  } else {
    d.set_params(ops::ElementwiseParams{2, 0, 0.0f, 0});
    d.bind(f.view());
    d.bind(f.view());
  }
  d.bind(t.view(), Access::write);
  return d;
}

// A caller's kernel may write less than the view it declares, and a view made by hand may be larger
// than what an op writes.
TEST(FuseInCallersBuffers, AnotherWriterMayLeaveBytes) {
  const Device device = test::open_cpu();
  const KernelId half =
      *device.kernels().add({.name = "half", .slots = "o", .cpu = [](const KernelArgs& a) noexcept {
                               a.ptr<float>(0)[0] = a.ptr<float>(0)[1] = 4.0f;
                             }});
  for (const bool by_kernel : {false, true}) {
    const Buffer x = test::floats(device, {3, 4, 3, 4}), f = test::floats(device, {2, 2, 2, 2}),
                 t = test::floats(device, {0, 0, 0, 0}), out = test::floats(device, {0, 0, 0, 0});
    GraphSession s = GraphExecutor(device).begin_recorded();
    const auto rows = [](const Buffer& b) { return b.tensor(DType::f32, {2, 2}); };
    ops::rms_norm(s, {.x = rows(x), .weight = f.tensor(DType::f32, {2}), .out = rows(t)});
    ops::mul(s, {.a = rows(t), .b = rows(f), .out = rows(out)});
    s.encode(half_writer(half, t, f, by_kernel));
    const FinishReport report = *s.finish();
    EXPECT_EQ(report.fused.count, 1u);
    const std::vector<float> got = test::read_floats(device, t.view());
    EXPECT_EQ(got[1], 4.0f);
    EXPECT_NEAR(got[3], 8.0f / std::sqrt(12.5f), 1e-5);
  }
}

}  // namespace
}  // namespace onepass::fuse_callers_test
