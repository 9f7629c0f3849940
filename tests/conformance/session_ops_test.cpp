// The fifteen session ops on every CPU path and number of threads: the same bits, whichever way
// they are run.
#include <gtest/gtest.h>

#include "conformance/runner.h"
#include "onepass/backends/cpu.h"
#include "support/session_op_cases.h"

namespace onepass::conformance::session_ops_test {
namespace {

enum class Way { direct, recorded, plan };

// What the op wrote, after two runs where it is a plan.
Bytes run(const Device& device, const test::SessionOpCase& op, Way way) {
  compat::GraphExecutor executor(device);
  compat::GraphSession s = way == Way::direct ? executor.begin() : executor.begin_recorded();
  test::OpRun r{.device = device, .s = s};
  op.record(r);
  if (way == Way::plan) {
    const Result<Plan> plan = s.compile();
    EXPECT_TRUE(test::is_ok(plan));
    for (int i = 0; plan && i < 2; ++i) {
      const Bytes poison(r.out.view.bytes, std::byte{0xff});
      EXPECT_TRUE(device.write(r.out.view, poison));
      EXPECT_TRUE(plan->run());
    }
  } else {
    EXPECT_TRUE(test::is_ok(s.finish_with_fusion_and_reorder()));
  }
  r.expect_output();
  Bytes out(r.out.view.bytes);
  EXPECT_TRUE(device.read(r.out.view, out));
  return out;
}

class SessionOpPaths : public ::testing::TestWithParam<test::SessionOpCase> {};

TEST_P(SessionOpPaths, SameBitsOnEveryPathAndWay) {
  const Device base = test::open_cpu({.backend = {CpuOptions{.threads = 1, .features = 0}}});
  const Bytes want = run(base, GetParam(), Way::direct);
  for (const std::string& path : present_paths()) {
    for (const std::uint32_t threads : {1u, 2u, 3u, 8u}) {
      const Device device = test::open_cpu(
          {.backend = {CpuOptions{.threads = threads, .features = *cpu_path_features(path)}}});
      for (const Way way : {Way::direct, Way::recorded, Way::plan}) {
        EXPECT_EQ(run(device, GetParam(), way), want)
            << path << ", " << threads << " threads, way " << static_cast<int>(way);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SessionOpPaths, ::testing::ValuesIn(test::session_op_cases()),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

}  // namespace
}  // namespace onepass::conformance::session_ops_test
