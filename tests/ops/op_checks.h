// What the host ops accept and refuse, with which words, and at which line.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "onepass/device.h"
#include "onepass/ops.h"
#include "onepass/session.h"
#include "onepass/step_state.h"

namespace onepass::test {

class OpChecks : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<Device> device = Device::open("null");
    ASSERT_TRUE(device.has_value()) << device.error().to_string();
    executor_.emplace(*device);
  }

  using Pass = std::function<void(GraphSession&)>;

  void expect_accepted(const Pass& pass) {
    GraphSession s = executor_->begin_recorded();
    pass(s);
    const Status status = s.status();
    EXPECT_TRUE(status.has_value()) << status.error().to_string();
  }

  void expect_refused(ErrorCode code, const std::string& words, const Pass& pass) {
    GraphSession s = executor_->begin_recorded();
    pass(s);
    const Status status = s.status();
    ASSERT_FALSE(status.has_value()) << "accepted, expected: " << words;
    EXPECT_EQ(status.error().code, code) << status.error().to_string();
    EXPECT_NE(status.error().message.find(words), std::string::npos) << status.error().message;
    EXPECT_NE(std::string(status.error().file).find("op_checks"), std::string::npos);
    EXPECT_GT(status.error().line, 0);
  }
  void expect_invalid(const std::string& words, const Pass& pass) {
    expect_refused(ErrorCode::invalid_argument, words, pass);
  }
  void expect_unsupported(const std::string& words, const Pass& pass) {
    expect_refused(ErrorCode::unsupported, words, pass);
  }

  static Tensor f32(GraphSession& s, Shape shape) { return s.scratch(DType::f32, shape); }
  static View step(GraphSession& s, std::uint32_t rows = 1, std::uint32_t slots = 1) {
    return s.scratch(DType::u8, {static_cast<std::uint32_t>(StepState::size_bytes(rows, slots))})
        .view;
  }
  // A part of a tensor's memory under another shape.
  static Tensor part(const Tensor& t, std::uint64_t offset, Shape shape) {
    return tensor(View{t.view.buffer, t.view.offset + offset, t.view.bytes - offset}, t.dtype,
                  shape);
  }

  std::optional<GraphExecutor> executor_;
};

}  // namespace onepass::test
