#include "../../tools/onepass/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace onepass {
namespace {

using ::testing::HasSubstr;
using tool::find_device;

const std::vector<DeviceListing> listed = {
    {"cpu", "Intel(R) Xeon(R) CPU", true, ""},
    {"cuda:0", "NVIDIA H200 (GPU-00aa11bb-0000-0000-0000-000000000001)", true, ""},
    {"cuda:1", "NVIDIA A100 (GPU-00aa22cc-0000-0000-0000-000000000002)", true, ""},
    {"cuda:2", "NVIDIA T4 (GPU-ffff0000-0000-0000-0000-000000000003)", false, "no kernels"},
    {"null", "runs nothing on this CPU", true, ""},
};

TEST(DeviceChoice, ByPartOfTheVendorsNameInEitherCase) {
  EXPECT_EQ(*find_device("xeon", listed), "cpu");
  EXPECT_EQ(*find_device("h200", listed), "cuda:0");
  EXPECT_EQ(*find_device("NVIDIA A", listed), "cuda:1");
}

TEST(DeviceChoice, ByUuidOrItsStart) {
  EXPECT_EQ(*find_device("GPU-00aa22cc-0000-0000-0000-000000000002", listed), "cuda:1");
  EXPECT_EQ(*find_device("gpu-00aa1", listed), "cuda:0");
}

TEST(DeviceChoice, SeveralAreAnErrorThatNamesThem) {
  const auto found = find_device("NVIDIA", listed);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::invalid_argument);
  for (const char* name : {"cuda:0", "cuda:1", "cuda:2"}) {
    EXPECT_THAT(found.error().message, HasSubstr(name));
  }
}

TEST(DeviceChoice, ARefusedOneIsAnErrorWithTheReason) {
  const auto found = find_device("NVIDIA T4", listed);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("no kernels"));
}

TEST(DeviceChoice, NothingFitsAndNullIsNeverMeant) {
  EXPECT_EQ(*find_device("abacus", listed), "");
  EXPECT_EQ(*find_device("nothing", listed), "");
  EXPECT_EQ(*find_device("on", listed), "");  // too short
  EXPECT_EQ(*find_device("", listed), "");
}

}  // namespace
}  // namespace onepass
