// Which kernel a weight gets, and that slow ones are named.
#include "model/weight_kernel.h"

#include <gtest/gtest.h>

#include "core/device_state.h"
#include "support/random_model.h"

namespace onepass::test::weight_kernel_test {
namespace {

using llm::weight_kernel;

TEST(WeightKernel, EveryTypeHasItsOwnOnTheCpu) {
  const auto device = Device::open("cpu");
  for (std::size_t i = 0; i < static_cast<std::size_t>(DType::count_); ++i) {
    const auto type = static_cast<DType>(i);
    if (info(type).ggml_id < 0 || type == DType::i32) continue;
    for (const Op op : {Op::matmul, Op::matmul_id}) {
      const auto kernel = weight_kernel(*device, op, type, 512);
      ASSERT_TRUE(kernel) << name(type);
      EXPECT_FALSE(kernel->generic) << kernel->name;
      EXPECT_TRUE(is_packed(kernel->format)) << kernel->name;
      EXPECT_NE(std::string(kernel->name).find(name(type)), std::string::npos) << kernel->name;
      // It is the one that a product of such weights runs.
      EXPECT_EQ(device->state().find_row(op, kernel->format)->name, kernel->name);
    }
  }
}

TEST(WeightKernel, RowsThatAreNoWholeBlocksGoThroughTheGenericOne) {
  const auto device = Device::open("cpu");
  const auto kernel = weight_kernel(*device, Op::matmul, DType::f16, 80);
  ASSERT_TRUE(kernel);
  EXPECT_TRUE(kernel->generic);
  EXPECT_STREQ(kernel->name, "matmul_f16_f32");
  EXPECT_FALSE(weight_kernel(*device, Op::matmul, DType::q4_0, 80));
}

// Of two layers, what the feed-forward network of 80 takes in its last product.
TEST(WeightKernel, AModelNamesItsSlowWeights) {
  const auto device = Device::open("cpu");
  const auto generic_of = [&](std::uint32_t ffn) {
    const RandomModel random({.layers = 2, .ffn = ffn});
    const TempFile path(random.writer.finish());
    return llm::generic_weights(**llm::Model::open(*device, path.path()));
  };
  const llm::GenericWeights none = generic_of(96);
  EXPECT_EQ(none.weights, 0u);
  EXPECT_EQ(none.share(), 0.0);
  EXPECT_EQ(none.text(*device), "");
  const llm::GenericWeights some = generic_of(80);
  EXPECT_EQ(some.weights, 2u);
  EXPECT_EQ(some.bytes, std::uint64_t{2} * 64 * 80 * 4);
  EXPECT_EQ(some.first, "blk.0.ffn_down");
  EXPECT_GT(some.share(), 0.05);
  EXPECT_LT(some.share(), 0.5);
  const std::string text = some.text(*device);
  EXPECT_NE(text.find("blk.0.ffn_down and 1 more"), std::string::npos) << text;
  EXPECT_NE(text.find("matmul_f32_f32"), std::string::npos) << text;
  EXPECT_NE(text.find("cpu"), std::string::npos) << text;
}

}  // namespace
}  // namespace onepass::test::weight_kernel_test
