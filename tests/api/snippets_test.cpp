// The examples of the public headers do what they say, and every header has one.
#include "../examples/snippets/snippets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>

#include "onepass/backends/cpu.h"

namespace onepass::test::snippets_test {
namespace {

std::vector<snippets::Snippet> all_snippets() {
  std::vector<snippets::Snippet> all;
  for (const auto& part :
       {snippets::core(), snippets::graph(), snippets::ops(), snippets::compat()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class HeaderExample : public testing::TestWithParam<snippets::Snippet> {};

TEST_P(HeaderExample, Runs) {
  const Result<Device> device = Device::open("cpu", {.backend = {CpuOptions{.threads = 2}}});
  ASSERT_TRUE(device) << device.error().to_string();
  const Status status = GetParam().run(*device);
  EXPECT_TRUE(status) << status.error().to_string();
}

INSTANTIATE_TEST_SUITE_P(Snippets, HeaderExample, testing::ValuesIn(all_snippets()),
                         [](const auto& test) {
                           std::string name = test.param.header;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(HeaderExamples, AreThereForEveryHeader) {
  namespace fs = std::filesystem;
  const fs::path include = fs::path(ONEPASS_SOURCE_DIR) / "include" / "onepass";
  std::set<std::string> headers, examples;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(include)) {
    const std::string kind = entry.path().extension().string();
    if (kind != ".h" && kind != ".hpp") continue;
    headers.insert(entry.path().lexically_relative(include).generic_string());
  }
  for (const snippets::Snippet& snippet : all_snippets()) examples.insert(snippet.header);
  EXPECT_EQ(headers.erase("ops/common.h"), 1u);   // nothing to call
  EXPECT_EQ(headers.erase("onepass.h"), 1u);      // example.c_api
  EXPECT_EQ(headers.erase("cuda_kernel.h"), 1u);  // CallersKernels.TheHeadersExampleRuns
  EXPECT_EQ(examples, headers);
}

}  // namespace
}  // namespace onepass::test::snippets_test
