#include "../../tools/onepass/machine/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/null/null.h"
#include "core/device_state.h"
#include "onepass/backends/cpu.h"

namespace onepass::device_choice_test {
namespace {

using ::testing::ElementsAre;
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

// Backends as `auto` meets them. The one that plays a card is the null backend.
std::vector<DeviceListing> list_two_cards() {
  return {{"gpu:0", "old card", false, "no kernels for it"}, {"gpu:1", "new card", true, ""}};
}
std::vector<DeviceListing> list_no_driver() { return {{"gpu", "", false, "no driver"}}; }
std::vector<DeviceListing> list_cpu() { return {{"cpu", "some CPU", true, ""}}; }
Result<std::unique_ptr<Backend>> open_second(std::uint32_t index, const DeviceOptions& options) {
  if (index != 1) return fail(ErrorCode::not_found, "opened index " + std::to_string(index));
  return make_null_backend(options);
}
Result<std::unique_ptr<Backend>> open_lost(std::uint32_t, const DeviceOptions&) {
  return fail(ErrorCode::device_lost, "fell off the bus");
}
Result<std::unique_ptr<Backend>> open_cpu(std::uint32_t, const DeviceOptions& options) {
  return make_cpu_backend(options);
}
constexpr BackendEntry cpu_entry{"cpu", list_cpu, open_cpu};
constexpr BackendEntry null_entry{"null", list_cpu, open_cpu};

struct Opened {
  std::string name;  // or the error
  std::vector<std::string> told;
};
Opened open_auto(const std::vector<BackendEntry>& entries) {
  Opened result;
  DeviceOptions options;
  options.backend = {CpuOptions{.threads = 1}};
  options.log = [&](std::string_view, std::string_view text) { result.told.emplace_back(text); };
  const auto backend = open_best(entries, options);
  result.name = backend ? (*backend)->info().name : backend.error().message;
  return result;
}

TEST(AutoDevice, IsACardBeforeTheCpuWhateverTheOrder) {
  const Opened opened = open_auto({cpu_entry, {"gpu", list_two_cards, open_second, true}});
  EXPECT_EQ(opened.name, "null");
  EXPECT_THAT(opened.told, ElementsAre("passed over gpu:0: no kernels for it"));
}

TEST(AutoDevice, IsTheCpuWhereNoCardOpensAndTellsWhy) {
  const Opened opened = open_auto({{"gpu", list_two_cards, open_lost, true}, cpu_entry});
  EXPECT_EQ(opened.name, "cpu");
  EXPECT_THAT(opened.told, ElementsAre("passed over gpu:0: no kernels for it",
                                       "passed over gpu:1: fell off the bus"));
}

TEST(AutoDevice, SaysNothingWhereThereIsNoCard) {
  const Opened opened = open_auto({{"gpu", list_no_driver, open_lost, true}, cpu_entry});
  EXPECT_EQ(opened.name, "cpu");
  EXPECT_THAT(opened.told, ElementsAre());
}

TEST(AutoDevice, IsNeverNull) {
  const Opened opened = open_auto({null_entry, {"gpu", list_two_cards, open_lost, true}});
  EXPECT_EQ(opened.name,
            "no device can be used; gpu:0: no kernels for it; gpu:1: fell off the bus");
}

}  // namespace
}  // namespace onepass::device_choice_test
