// Models on a card that runs nothing: what reading a token costs on the host's side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/cuda.h"
#include "backends/fake_cuda_driver.h"
#include "core/device_state.h"
#include "onepass/ops.h"
#include "run/decoder.h"
#include "support/random_model.h"

namespace onepass::cuda_tokens_test {
namespace {

using llm::Decoder;
using llm::Model;
using testing::FakeDriver;

class CudaTokens : public ::testing::Test {
 protected:
  void SetUp() override {
    fake().reset();
    static const cuda::Driver driver = FakeDriver::table();
    auto backend = cuda::open_device(driver, cuda::kernel_images(), 0, {});
    ASSERT_TRUE(backend) << backend.error().to_string();
    device_ = Device(DeviceState::create(std::move(*backend), {}).value());
  }
  void TearDown() override {
    device_.reset();
    EXPECT_EQ(fake().live(), 0u);
    fake().reset();
  }
  static FakeDriver& fake() { return FakeDriver::get(); }

  std::optional<Device> device_;
};

TEST_F(CudaTokens, ADecodedTokenIsOneWaitOfTheDriver) {
  const test::RandomModel random({.layers = 2, .vocab = 64, .context = 40}, 3);
  const test::TempFile path(random.writer.finish());
  const auto file = io::GgufFile::open(path.path());
  ASSERT_TRUE(file);
  const auto model = Model::load(*device_, *file);
  ASSERT_TRUE(model) << model.error().to_string();
  auto decoder = Decoder::create(*model);
  ASSERT_TRUE(decoder) << decoder.error().to_string();
  const std::vector<std::uint32_t> prompt{3, 1, 4};
  ASSERT_TRUE(decoder->append(prompt));
  ASSERT_TRUE(decoder->greedy());

  for (const std::size_t n : {1u, 1u, 8u}) {
    fake().hold();
    const std::size_t waits = fake().waits, syncs = fake().syncs;
    fake().stream_work.clear();
    std::vector<std::uint32_t> tokens(n);
    const Status made = decoder->next(tokens, {});
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_EQ(fake().waits - waits, 1u);
    EXPECT_EQ(fake().syncs, syncs);
    EXPECT_THAT(fake().stream_work, ::testing::Not(::testing::Contains("copy out")))
        << "kernels write tokens where the host reads them";
  }
}

TEST_F(CudaTokens, OnlyMemoryThatTheHostSeesIsReadThroughASubmission) {
  const Buffer seen = device_->allocate(64, {.kind = MemoryKind::readback}).value();
  const Buffer unseen = device_->allocate(64).value();
  GraphSession s = GraphExecutor(*device_).begin_recorded();
  for (const Buffer* b : {&seen, &unseen}) {
    const Tensor t = b->tensor(DType::f32, {16});
    ops::add(s, {t, t, t});
  }
  const Plan plan = s.compile().value();
  const Submission submission = plan.run_async().value();
  std::array<float, 16> values{};
  EXPECT_TRUE(submission.read_as<float>(seen.view(), values));
  const Status refused = submission.read_as<float>(unseen.view(), values);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("expected readback memory"));
  EXPECT_TRUE(device_->read_as<float>(unseen.view(), values));
}

// The one wait is that of the layer above.
TEST_F(CudaTokens, HostAccessOfMemoryThatTheHostSeesAsksTheDriverForNothing) {
  const Buffer b = device_->allocate(64, {.kind = MemoryKind::readback}).value();
  std::array<float, 16> values{};
  const std::size_t waits = fake().waits, syncs = fake().syncs, work = fake().stream_work.size();
  EXPECT_TRUE(device_->write_as<float>(b.view(), values));
  EXPECT_TRUE(device_->read_as<float>(b.view(), values));
  EXPECT_TRUE(device_->map(b.view()));
  EXPECT_EQ(fake().waits, waits);
  EXPECT_EQ(fake().syncs, syncs);
  EXPECT_EQ(fake().stream_work.size(), work);
}

}  // namespace
}  // namespace onepass::cuda_tokens_test
