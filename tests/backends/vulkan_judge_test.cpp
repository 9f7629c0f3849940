// Khronos synchronization validation finds nothing in our orders, in either recording form, and
// every barrier that is taken away: one form or the other reports it.
#include "backends/vulkan_judge.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "graph/plan_state.h"
#include "model/synthetic.h"
#include "onepass/ops.h"
#include "onepass/session.h"
#include "run/decoder.h"
#include "support/full_run.h"
#include "support/random.h"

namespace onepass::test::vulkan_judge_test {
namespace {

constexpr std::uint32_t cells = 6, rows = 4, dim = 64;
constexpr std::uint64_t cell_bytes = std::uint64_t{rows} * dim * sizeof(float);

// Sums of rows of cells, which are one buffer; each row is 256 bytes, where any device can bind.
Plan random_plan(const Device& device, const Buffer& memory, std::uint64_t seed) {
  Random random(seed);
  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  const auto part = [&](std::uint32_t first, std::uint32_t n) {
    const std::uint32_t cell = random.in(0, cells - 1);
    return memory.tensor(DType::f32, {n, dim},
                         cell * cell_bytes + std::uint64_t{first} * dim * sizeof(float));
  };
  for (std::uint32_t left = random.in(8, 24); left > 0; --left) {
    const std::uint32_t first = random.in(0, rows - 1), n = random.in(1, rows - first);
    ops::add(s, {.a = part(first, n), .b = part(first, n), .out = part(first, n)});
  }
  Result<Plan> plan = s.compile({.fuse = false});
  EXPECT_TRUE(plan) << plan.error().to_string();
  return plan ? *plan : Plan();
}

class VulkanJudge : public testing::Test {
 protected:
  void SetUp() override {
    whole_ = Judge::open(false);
    if (!whole_) GTEST_SKIP() << "no Vulkan device with validation layer";
    split_ = Judge::open(true);
    ASSERT_TRUE(split_);
  }
  // Nothing is reported on the plans as they are; every barrier that goes, by one of them.
  void check_all(const Plan& whole, const Plan& split) {
    const RecordedPass& a = *whole.state().pass;
    const RecordedPass& b = *split.state().pass;
    ASSERT_EQ(a.order.level_offsets, b.order.level_offsets);
    ASSERT_EQ(whole_->run(a, a.order), 0u) << whole_->first_message();
    ASSERT_EQ(split_->run(b, b.order), 0u) << split_->first_message();
    for (std::uint32_t k = 1; k < a.order.n_levels(); k += stride_) {
      const bool by_whole = whole_->run(a, without_barrier(a.order, k)) != 0;
      const bool by_split = split_->run(b, without_barrier(b.order, k)) != 0;
      ++removed_;
      found_whole_ += by_whole ? 1 : 0;
      found_split_ += by_split ? 1 : 0;
      found_ += by_whole || by_split ? 1 : 0;
      EXPECT_TRUE(by_whole || by_split) << "barrier " << k << " of " << a.order.n_levels();
    }
  }
  void print(const char* what) const {
    std::printf("%s: %u barriers taken away, %u found in one command buffer, %u in several, %u\n",
                what, removed_, found_whole_, found_split_, found_);
  }

  std::unique_ptr<Judge> whole_, split_;
  std::uint32_t stride_ = 1;
  std::uint32_t removed_ = 0, found_whole_ = 0, found_split_ = 0, found_ = 0;
};

TEST_F(VulkanJudge, AgreesOnRandomProgramsBarrierByBarrier) {
  const Buffer a = *whole_->device().allocate(cells * cell_bytes);
  const Buffer b = *split_->device().allocate(cells * cell_bytes);
  const std::uint64_t programs = count(20, 250);
  for (std::uint64_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE("program " + std::to_string(seed));
    check_all(random_plan(whole_->device(), a, seed), random_plan(split_->device(), b, seed));
  }
  print("random programs");
  EXPECT_GT(removed_, 100u);
}

TEST_F(VulkanJudge, AgreesOnDecodeAndPrefillOfModels) {
  stride_ = static_cast<std::uint32_t>(count(5, 1));
  for (const char* name : {"synthetic:tiny:q4_0", "synthetic:tiny-moe:q8_0"}) {
    SCOPED_TRACE(name);
    const auto a = llm::Model::open(whole_->device(), name);
    const auto b = llm::Model::open(split_->device(), name);
    if (!a) continue;  // no such preset
    ASSERT_TRUE(b);
    const auto da = llm::Decoder::create(*a, {.context = 256});
    const auto db = llm::Decoder::create(*b, {.context = 256});
    ASSERT_TRUE(da && db);
    for (const std::uint32_t n : {1u, 16u}) {
      const auto pa = da->inspect(n), pb = db->inspect(n);
      ASSERT_TRUE(pa && pb) << pa.error().to_string();
      check_all(*pa, *pb);
    }
  }
  print("models");
  EXPECT_GT(removed_, 10u);
}

}  // namespace
}  // namespace onepass::test::vulkan_judge_test
