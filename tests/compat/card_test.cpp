// The ancestor's names on the emulated card: its ops, encode forms and finish forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "support/compat_forms.h"
#include "support/cuda_emu/backend.h"
#include "support/norm_product.h"
#include "support/session_op_cases.h"

namespace onepass::card_compat_test {
namespace {

using compat::GraphExecutor;
using compat::GraphSession;
using ::testing::ElementsAre;
using Clock = std::chrono::steady_clock;

template <class T>
std::string name_of(const ::testing::TestParamInfo<T>& info) {
  return info.param.name;
}

class CardOps : public ::testing::TestWithParam<test::SessionOpCase> {};

TEST_P(CardOps, DirectRecordedAndAsAPlan) {
  const Device device = *emu::open_cuda_emulator();
  const GraphExecutor executor(device);
  for (const bool recorded : {false, true}) {
    GraphSession s = recorded ? executor.begin_recorded() : executor.begin();
    test::OpRun run{.device = device, .s = s};
    GetParam().record(run);
    ASSERT_TRUE(test::is_ok(s.finish_with_fusion_and_reorder()));
    run.expect_output();
  }
  GraphSession s = executor.begin_recorded();
  test::OpRun run{.device = device, .s = s};
  GetParam().record(run);
  const Result<Plan> plan = s.compile();
  ASSERT_TRUE(test::is_ok(plan));
  const std::vector<std::byte> poison(run.out.view.bytes, std::byte{0xff});
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(device.write(run.out.view, poison));
    ASSERT_TRUE(test::is_ok(plan->run()));
    run.expect_output();
  }
}

INSTANTIATE_TEST_SUITE_P(All, CardOps, ::testing::ValuesIn(test::session_op_cases()),
                         name_of<test::SessionOpCase>);

class CardEncodeForms : public ::testing::TestWithParam<test::EncodeForm> {};

TEST_P(CardEncodeForms, GiveTheKernelWhatTheySay) {
  const test::EncodeForm& form = GetParam();
  const Device device = *emu::open_cuda_emulator();
  const auto kernel = device.kernels().add(
      {.name = "seen", .cuda = {.image = "compiled as C++", .entry = "test_seen"}});
  ASSERT_TRUE(test::is_ok(kernel));
  const Buffer in = *device.allocate(48), out = *device.allocate(28);
  compat::CommandEncoder encoder(device);
  form.encode(encoder, *kernel, in.view(), out.view());
  ASSERT_TRUE(test::is_ok(encoder.commit_and_wait()));
  std::vector<std::uint32_t> seen(7);
  ASSERT_TRUE(device.read_as<std::uint32_t>(out.view(), seen));
  const bool threads = form.kind == DispatchKind::threads, shares = form.shared_bytes != 0;
  EXPECT_THAT(seen, ElementsAre(threads ? 6u : 24u, 4u, threads ? 2u : 6u, 48u, shares ? 100u : 0u,
                                shares ? 28u : 0u, form.blocks == 0 ? 0u : 7u));
}

INSTANTIATE_TEST_SUITE_P(All, CardEncodeForms, ::testing::ValuesIn(test::encode_forms()),
                         name_of<test::EncodeForm>);

class CardFinishForms : public ::testing::TestWithParam<test::FinishForm> {};

TEST_P(CardFinishForms, RunThePassesTheyNameAndGiveTheSameBits) {
  const test::FinishForm& form = GetParam();
  const Device device = *emu::open_cuda_emulator();
  test::Program direct(device), recorded(device);
  GraphSession a = GraphExecutor(device).begin();
  direct.record(a);
  const auto plain = form.finish(a, Clock::now());
  ASSERT_TRUE(test::is_ok(plain));
  EXPECT_EQ(plain->fused.count, 0u);
  EXPECT_EQ(plain->moved, 0u);
  direct.expect_results();
  GraphSession b = GraphExecutor(device).begin_recorded();
  recorded.record(b);
  const auto report = form.finish(b, Clock::now());
  ASSERT_TRUE(test::is_ok(report));
  EXPECT_EQ(report->fused.count, form.fuses ? 1u : 0u);
  EXPECT_EQ(report->moved != 0, form.reorders);
  EXPECT_EQ(report->submissions, form.command_buffers);
  recorded.expect_results();
  EXPECT_EQ(recorded.normed(), direct.normed());
}

TEST(CardFusion, ANormAndItsProductInCallersBuffersAreOneDispatch) {
  test::expect_norm_product_fuses(*emu::open_cuda_emulator());
}

INSTANTIATE_TEST_SUITE_P(All, CardFinishForms, ::testing::ValuesIn(test::finish_forms()),
                         name_of<test::FinishForm>);

}  // namespace
}  // namespace onepass::card_compat_test
