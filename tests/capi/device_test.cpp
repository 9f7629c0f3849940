// Versions, devices, buffers and what goes wrong with them.
#include <gmock/gmock.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "capi/support.h"

namespace onepass::test {
namespace {

using testing::HasSubstr;

TEST(CApiVersion, IsThatOfTheHeader) {
  EXPECT_STREQ(onepass_version(), ONEPASS_PROJECT_VERSION);
  EXPECT_EQ(onepass_api_version(), static_cast<std::uint32_t>(ONEPASS_API_VERSION));
}

TEST(CApiErrors, HaveNames) {
  std::set<std::string> names;
  for (int i = ONEPASS_OK; i <= ONEPASS_INTERNAL; ++i) {
    names.insert(onepass_result_name(static_cast<onepass_result>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(ONEPASS_INTERNAL) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_STREQ(onepass_result_name(ONEPASS_STALE), "stale");
  EXPECT_STREQ(onepass_result_name(static_cast<onepass_result>(99)), "unknown");
}

TEST(CApiErrors, MessagesAreTheThreads) {
  onepass_device* device = nullptr;
  EXPECT_FAILS(onepass_device_open("toaster", nullptr, &device), ONEPASS_NOT_FOUND, "toaster");
  EXPECT_EQ(device, nullptr);
  std::string of_other_thread = "not called";
  std::thread([&] { of_other_thread = onepass_error_message(); }).join();
  EXPECT_EQ(of_other_thread, "");
  std::size_t count = 0;
  EXPECT_OK(onepass_device_count(&count));
  EXPECT_THAT(onepass_error_message(), HasSubstr("toaster"));  // success keeps the last error
}

TEST(CApiErrors, LongMessagesAreCutBetweenCodePoints) {
  std::string name = "x";
  for (int i = 0; i < 3000; ++i) name += "\xc3\xa9";
  onepass_device* device = nullptr;
  EXPECT_NE(onepass_device_open(name.c_str(), nullptr, &device), ONEPASS_OK);
  const std::string message = onepass_error_message();
  EXPECT_LT(message.size(), 2048u);
  ASSERT_GT(message.size(), 2000u);
  EXPECT_NE(static_cast<unsigned char>(message.back()), 0xc3u);  // not half a letter
}

TEST(CApiDevices, ListNamesTheCpu) {
  std::size_t count = 0;
  ASSERT_OK(onepass_device_count(&count));
  ASSERT_GE(count, 1u);
  bool found = false;
  for (std::size_t i = 0; i < count; ++i) {
    auto info = sized<onepass_device_info>();
    ASSERT_OK(onepass_device_list_entry(i, &info));
    EXPECT_EQ(info.size, sizeof(info));
    EXPECT_EQ(info.available != 0, std::string(info.reason).empty());
    found = found || std::string(info.name) == "cpu";
  }
  EXPECT_TRUE(found);
  auto info = sized<onepass_device_info>();
  EXPECT_FAILS(onepass_device_list_entry(count, &info), ONEPASS_NOT_FOUND,
               "device " + std::to_string(count));
}

TEST(CApiDevices, TellWhatWasOpened) {
  const DeviceHandle device = open_cpu(3);
  auto info = sized<onepass_device_info>();
  ASSERT_OK(onepass_device_get_info(device.get(), &info));
  EXPECT_STREQ(info.name, "cpu");
  EXPECT_EQ(info.compute_units, 3u);
  EXPECT_EQ(info.unified_memory, 1u);
  EXPECT_EQ(info.available, 1u);
  EXPECT_STREQ(info.reason, "");
  EXPECT_OK(onepass_device_wait(device.get()));
}

// A caller compiled against an older header has shorter structs, one against a newer header longer
// ones.
TEST(CApiStructs, OfOtherVersions) {
  const DeviceHandle device = open_cpu(3);
  onepass_device_info old{};
  old.size = offsetof(onepass_device_info, available);
  old.compute_units = 77;
  ASSERT_OK(onepass_device_get_info(device.get(), &old));
  EXPECT_STREQ(old.name, "cpu");
  EXPECT_EQ(old.compute_units, 77u);  // beyond what the caller knows
  EXPECT_EQ(old.size, offsetof(onepass_device_info, available));

  struct {
    onepass_device_info known;
    std::uint64_t later;
  } longer{};
  longer.known.size = sizeof(longer);
  longer.later = 5;
  ASSERT_OK(onepass_device_get_info(device.get(), &longer.known));
  EXPECT_EQ(longer.known.compute_units, 3u);
  EXPECT_EQ(longer.later, 0u);

  struct {
    onepass_device_options known;
    std::uint32_t later;
  } options{};
  options.known.size = sizeof(options);
  onepass_device* opened = nullptr;
  ASSERT_OK(onepass_device_open("cpu", &options.known, &opened));
  onepass_device_close(opened);
  opened = nullptr;
  options.later = 1;
  EXPECT_FAILS(onepass_device_open("cpu", &options.known, &opened), ONEPASS_UNSUPPORTED,
               "onepass_device_options");
  EXPECT_EQ(opened, nullptr);

  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{1} << 20}) {
    options.known.size = size;
    EXPECT_FAILS(onepass_device_open("cpu", &options.known, &opened), ONEPASS_INVALID_ARGUMENT,
                 "onepass_device_options.size is " + std::to_string(size));
    old.size = size;
    EXPECT_FAILS(onepass_device_get_info(device.get(), &old), ONEPASS_INVALID_ARGUMENT,
                 "onepass_device_info.size is");
  }
}

TEST(CApiBuffers, ReadWhatWasWritten) {
  const DeviceHandle device = open_cpu();
  const BufferHandle buffer = create(device, 64);
  std::uint64_t bytes = 0;
  ASSERT_OK(onepass_buffer_size(buffer.get(), &bytes));
  EXPECT_EQ(bytes, 64u);
  EXPECT_EQ(read<std::uint8_t>(buffer, 64), std::vector<std::uint8_t>(64, 0));

  const char text[] = "onepass";
  ASSERT_OK(onepass_buffer_write(buffer.get(), 56, text, sizeof(text)));
  void* memory = nullptr;
  ASSERT_OK(onepass_buffer_map(buffer.get(), &memory));
  EXPECT_STREQ(static_cast<const char*>(memory) + 56, "onepass");
  std::memcpy(memory, "ONE", 3);
  char back[3];
  ASSERT_OK(onepass_buffer_read(buffer.get(), 0, back, 3));
  EXPECT_EQ(std::string(back, 3), "ONE");
}

TEST(CApiBuffers, RefuseWhatDoesNotFit) {
  const DeviceHandle device = open_cpu();
  const BufferHandle buffer = create(device, 64);
  char bytes[64] = {};
  EXPECT_FAILS(onepass_buffer_write(buffer.get(), 1, bytes, 64), ONEPASS_INVALID_ARGUMENT, "64");
  EXPECT_FAILS(onepass_buffer_read(buffer.get(), 65, bytes, 1), ONEPASS_INVALID_ARGUMENT, "64");
  EXPECT_FAILS(onepass_buffer_read(buffer.get(), ~std::uint64_t{0}, bytes, 2),
               ONEPASS_INVALID_ARGUMENT, "64");
  EXPECT_OK(onepass_buffer_write(buffer.get(), 64, nullptr, 0));
  onepass_buffer* made = nullptr;
  EXPECT_NE(onepass_buffer_create(device.get(), std::uint64_t{1} << 60, &made), ONEPASS_OK);
  EXPECT_EQ(made, nullptr);
  EXPECT_NE(onepass_buffer_wrap(device.get(), bytes, ~std::uint64_t{0}, &made), ONEPASS_OK);
  EXPECT_EQ(made, nullptr);
}

TEST(CApiBuffers, WrapTheCallersMemory) {
  const DeviceHandle device = open_cpu();
  std::vector<float> a = counting(32), b(32, 100.0f), sum(32);
  std::vector<BufferHandle> wrapped;
  for (std::vector<float>* values : {&a, &b, &sum}) {
    onepass_buffer* buffer = nullptr;
    ASSERT_OK(onepass_buffer_wrap(device.get(), values->data(), 32 * sizeof(float), &buffer));
    wrapped.emplace_back(buffer);
  }
  const RecorderHandle recorder = begin(device);
  ASSERT_OK(op(recorder, "add",
               {tensor(wrapped[0], {32}), tensor(wrapped[1], {32}), tensor(wrapped[2], {32})}));
  const PlanHandle plan = compile(recorder);
  ASSERT_OK(onepass_plan_run(plan.get()));
  EXPECT_EQ(sum, counting(32, 100.0f));
}

}  // namespace
}  // namespace onepass::test
