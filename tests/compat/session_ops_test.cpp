// The fifteen session ops, direct, recorded and as a plan replayed twice, against float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/session_op_cases.h"

namespace onepass::session_ops_test {
namespace {

using compat::GraphSession;
using ::testing::HasSubstr;

class SessionOps : public ::testing::TestWithParam<test::SessionOpCase> {
 protected:
  Device device_ = test::open_cpu();
  compat::GraphExecutor executor_{device_};
};

TEST_P(SessionOps, Direct) {
  GraphSession s = executor_.begin();
  test::OpRun run{.device = device_, .s = s};
  GetParam().record(run);
  ASSERT_TRUE(test::is_ok(s.finish()));
  run.expect_output();
}

TEST_P(SessionOps, Recorded) {
  GraphSession s = executor_.begin_recorded();
  test::OpRun run{.device = device_, .s = s};
  GetParam().record(run);
  EXPECT_EQ(test::read_floats(device_, run.out.view)[0], 0.0f);  // nothing ran yet
  ASSERT_TRUE(test::is_ok(s.finish_with_fusion_and_reorder()));
  run.expect_output();
}

TEST_P(SessionOps, PlanReplayedTwice) {
  GraphSession s = executor_.begin_recorded();
  test::OpRun run{.device = device_, .s = s};
  GetParam().record(run);
  const Result<Plan> plan = s.compile();
  ASSERT_TRUE(test::is_ok(plan));
  EXPECT_TRUE(plan->report().validated);
  const std::vector<std::byte> poison(run.out.view.bytes, std::byte{0xff});
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(device_.write(run.out.view, poison));
    ASSERT_TRUE(test::is_ok(plan->run()));
    run.expect_output();
  }
}

INSTANTIATE_TEST_SUITE_P(All, SessionOps, ::testing::ValuesIn(test::session_op_cases()),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

class SessionOpErrors : public ::testing::Test {
 protected:
  Tensor tensor(Shape shape, DType type = DType::f32) {
    kept_.push_back(*device_.allocate(4096));
    return kept_.back().tensor(type, shape);
  }
  void expect(ErrorCode code, const std::function<void(GraphSession&)>& op) {
    GraphSession s = compat::GraphExecutor(device_).begin_recorded();
    op(s);
    const Result<FinishReport> report = s.finish();
    ASSERT_FALSE(report);
    const Error& e = report.error();
    EXPECT_EQ(e.code, code) << e.message;
    EXPECT_THAT(e.file, HasSubstr("session_ops_test.cpp"));
    EXPECT_GT(e.line, 0);
  }
  Device device_ = *Device::open("null");
  std::vector<Buffer> kept_;
};

TEST_F(SessionOpErrors, CountsMustAgree) {
  const Tensor x = tensor({3, 7}), w = tensor({7}), y = tensor({3, 7});
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) { s.rms_norm(x, w, y, 1e-5f, 3, 8); });
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) { s.softmax(x, y, 2, 7); });
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) { s.rope(x, y, 1e4f, w.view, 3, 6); });
  expect(ErrorCode::invalid_argument,
         [&](GraphSession& s) { s.elementwise_add(x.view, x.view, y.view, 2000, DType::f32); });
}

TEST_F(SessionOpErrors, TypesMustAgree) {
  const Tensor f16 = tensor({4, 4}, DType::f16), f32 = tensor({4, 4});
  expect(ErrorCode::unsupported,
         [&](GraphSession& s) { s.rms_norm_no_scale_f32(f16, f16, 1e-5f, 4, 4); });
  expect(ErrorCode::unsupported,
         [&](GraphSession& s) { s.rope_neox_f32(f16, f32, 1e4f, f32.view, {}, 4, 1, 4, 4); });
}

TEST_F(SessionOpErrors, BadGeometryIsRefused) {
  const Tensor q = tensor({1, 3, 2, 4}), k = tensor({1, 2, 4, 4}), o = tensor({1, 3, 2, 4});
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) {
    s.sdpa(q, k, k, o, {3, 2, 4, 2, 4, 1.0f, 4}, 1);  // 3 heads over 2 kv heads
  });
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) {
    s.sdpa(q, k, k, o, {3, 0, 4, 2, 4, 1.0f, 4}, 1);
  });
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) {
    s.sdpa(q, k, k, o, {3, 3, 4, 2, 1, 1.0f, 4}, 1);  // more queries than keys
  });
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) {
    s.sdpa(q, k, k, o, {3, 3, 4, 2, 4, 1.0f, 4}, 100);  // beyond the buffers
  });
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) {
    s.flash_attn_vec(q, k, k, o, {}, {6, 2, 4, 4, 4, 1.0f, 3, 0, 0.0f});
  });
  expect(ErrorCode::invalid_argument, [&](GraphSession& s) {
    s.flash_attn_vec(q, k, k, o, {}, {6, 2, 4, 9, 4, 1.0f, 0, 0, 0.0f});  // beyond capacity
  });
}

TEST_F(SessionOpErrors, ExpertsMustLieOneBehindTheOther) {
  const Tensor x = tensor({2, 32}), ids = tensor({2, 2}, DType::u32), o = tensor({2, 2, 3});
  expect(ErrorCode::unsupported, [&](GraphSession& s) {
    s.quantized_matmul_id_ggml(x, x.view, ids, o, {2, 2, 3, 32, 3, 64, DType::q4_0});
  });
}

TEST_F(SessionOpErrors, AFailedMatmulReturnsNoBuffer) {
  GraphSession s = compat::GraphExecutor(device_).begin_recorded();
  const Tensor x = tensor({2, 64}), w = tensor({3, 8}, DType::u32), g = tensor({3, 2});
  const auto out = s.quantized_matmul(x, w.view, g, g, {2, 64, 3, 32, 5});
  EXPECT_EQ(out.error().code, ErrorCode::invalid_argument);
  const auto none = s.quantized_matmul(x, w.view, g, g, {2, 64, 3, 32, 4});
  EXPECT_EQ(none.error().code, ErrorCode::invalid_argument);  // the session's first error
}

}  // namespace
}  // namespace onepass::session_ops_test
