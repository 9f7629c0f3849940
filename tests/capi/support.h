// Handles that close themselves, for tests of the C API.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <vector>

#include "onepass/onepass.h"

namespace onepass::test {

template <class T, void (*close)(T*)>
struct Closer {
  void operator()(T* handle) const noexcept { close(handle); }
};
template <class T, void (*close)(T*)>
using Handle = std::unique_ptr<T, Closer<T, close>>;

using DeviceHandle = Handle<onepass_device, onepass_device_close>;
using BufferHandle = Handle<onepass_buffer, onepass_buffer_close>;
using RecorderHandle = Handle<onepass_recorder, onepass_recorder_close>;
using PlanHandle = Handle<onepass_plan, onepass_plan_close>;
using SubmissionHandle = Handle<onepass_submission, onepass_submission_close>;
using ModelHandle = Handle<onepass_model, onepass_model_close>;
using SequenceHandle = Handle<onepass_sequence, onepass_sequence_close>;

#define ASSERT_OK(call) ASSERT_EQ((call), ONEPASS_OK) << onepass_error_message()
#define EXPECT_OK(call) EXPECT_EQ((call), ONEPASS_OK) << onepass_error_message()
// An error that says something.
#define EXPECT_FAILS(call, result, text)                              \
  do {                                                                \
    EXPECT_EQ((call), (result)) << onepass_error_message();           \
    EXPECT_THAT(onepass_error_message(), ::testing::HasSubstr(text)); \
  } while (false)

// A struct of the API, empty but for its size.
template <class T>
T sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}

inline DeviceHandle open_cpu(std::uint32_t threads = 2) {
  auto options = sized<onepass_device_options>();
  options.threads = threads;
  onepass_device* device = nullptr;
  EXPECT_OK(onepass_device_open("cpu", &options, &device));
  return DeviceHandle(device);
}

inline BufferHandle create(const DeviceHandle& device, std::uint64_t bytes) {
  onepass_buffer* buffer = nullptr;
  EXPECT_OK(onepass_buffer_create(device.get(), bytes, &buffer));
  return BufferHandle(buffer);
}

// A buffer with these values in it.
template <class T>
BufferHandle filled(const DeviceHandle& device, const std::vector<T>& values) {
  BufferHandle buffer = create(device, values.size() * sizeof(T));
  EXPECT_OK(onepass_buffer_write(buffer.get(), 0, values.data(), values.size() * sizeof(T)));
  return buffer;
}

template <class T>
std::vector<T> read(const BufferHandle& buffer, std::size_t n) {
  std::vector<T> values(n);
  EXPECT_OK(onepass_buffer_read(buffer.get(), 0, values.data(), n * sizeof(T)));
  return values;
}

inline onepass_tensor tensor(const BufferHandle& buffer, std::initializer_list<std::uint32_t> shape,
                             onepass_dtype dtype = ONEPASS_F32, std::uint64_t offset = 0) {
  onepass_tensor t{};
  t.buffer = buffer.get();
  t.offset = offset;
  t.dtype = dtype;
  t.rank = static_cast<std::uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), t.shape);
  return t;
}

inline RecorderHandle begin(const DeviceHandle& device) {
  onepass_recorder* recorder = nullptr;
  EXPECT_OK(onepass_recorder_begin(device.get(), &recorder));
  return RecorderHandle(recorder);
}

inline onepass_result op(const RecorderHandle& recorder, const char* name,
                         const std::vector<onepass_tensor>& tensors,
                         const onepass_op_options* options = nullptr) {
  return onepass_op(recorder.get(), name, tensors.data(), tensors.size(), options);
}

inline PlanHandle compile(const RecorderHandle& recorder) {
  onepass_plan* plan = nullptr;
  EXPECT_OK(onepass_recorder_compile(recorder.get(), nullptr, &plan));
  return PlanHandle(plan);
}

inline std::vector<float> counting(std::size_t n, float first = 0.0f) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace onepass::test
