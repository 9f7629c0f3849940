// What bench --compare prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare.h"

namespace onepass::tool {

struct ComparedTest {
  std::string test;
  double before = 0.0, now = 0.0;  // tokens per second
  Comparison comparison;
  Verdict verdict = Verdict::unclear;
};

class Baseline {
 public:
  Baseline() = default;
  // tolerance: 0.01 is 1 %.
  static Result<Baseline> read(const std::vector<std::string>& paths, double tolerance);

  explicit operator bool() const noexcept { return !tests_.empty(); }
  // None where the baseline has no test of that name. Says on stderr what else differs.
  std::optional<ComparedTest> compare(const StoredTest& now) const;

 private:
  std::vector<StoredTest> tests_;
  double tolerance_ = 0.0;
};

// md, csv, json or jsonl; not empty.
std::string compared_text(const std::vector<ComparedTest>& tests, const std::string& format);

// 1 and a line on stderr when a test is slower, else 0. An error when there is no test.
Result<int> judge(const std::vector<ComparedTest>& tests);

}  // namespace onepass::tool
