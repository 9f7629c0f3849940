#include "bench_compare.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "common/json_writer.h"

namespace onepass::tool {
namespace {

double speed_of(const StoredTest& t) {
  double ns = 0.0;
  for (const TimesOfRun& run : t.runs) {
    double sum = 0.0;
    for (const double x : run) sum += x;
    ns += sum / static_cast<double>(run.size());
  }
  return static_cast<double>(t.tokens) * 1e9 * static_cast<double>(t.runs.size()) / ns;
}

}  // namespace

Result<Baseline> Baseline::read(const std::vector<std::string>& paths, double tolerance) {
  Baseline b;
  b.tolerance_ = tolerance;
  if (paths.empty()) return b;
  ONEPASS_ASSIGN(b.tests_, read_bench(paths));
  if (b.tests_.empty()) {
    return fail(ErrorCode::not_found, "bench: " + paths.front() + " has no test to compare with");
  }
  return b;
}

std::optional<ComparedTest> Baseline::compare(const StoredTest& now) const {
  const auto before = std::find_if(tests_.begin(), tests_.end(),
                                   [&](const StoredTest& t) { return t.test == now.test; });
  if (before == tests_.end()) return std::nullopt;
  const auto differs = [&](const char* what, const std::string& a, const std::string& b) {
    if (a == b) return;
    std::cerr << "onepass: " << now.test << ": " << what << " was " << a << ", is " << b << '\n';
  };
  differs("the model", before->model, now.model);
  differs("the backend", before->backend, now.backend);
  differs("the device", before->device, now.device);
  differs("the number of threads", std::to_string(before->threads), std::to_string(now.threads));
  differs("the cache", before->kv, now.kv);
  ComparedTest out;
  out.test = now.test;
  out.before = speed_of(*before);
  out.now = speed_of(now);
  out.comparison = compare_times(before->runs, now.runs);
  out.verdict = out.comparison.verdict(tolerance_);
  return out;
}

std::string compared_text(const std::vector<ComparedTest>& tests, const std::string& format) {
  if (format == "json" || format == "jsonl") {
    std::string rows;
    for (const ComparedTest& t : tests) {
      JsonWriter json;
      json.begin_object().key("test").value(t.test).key("baseline_ts").value(t.before);
      json.key("avg_ts").value(t.now).key("speed_ratio").value(t.comparison.ratio);
      json.key("speed_ratio_low").value(t.comparison.low);
      json.key("speed_ratio_high").value(t.comparison.high);
      json.key("verdict").value(name(t.verdict)).end_object();
      if (format == "jsonl") {
        rows += json.text() + "\n";
      } else {
        rows += (rows.empty() ? "[" : ",") + json.text();
      }
    }
    return format == "jsonl" ? rows : rows + "]\n";
  }
  const bool csv = format == "csv";
  std::string out =
      csv ? "test,baseline_ts,avg_ts,speed_ratio,speed_ratio_low,speed_ratio_high,verdict\n"
          : "| test            |   before t/s |      now t/s |  speed |   95 % interval | verdict  "
            " "
            "    |\n"
            "| --------------- | -----------: | -----------: | -----: | --------------: | "
            "------------- |\n";
  for (const ComparedTest& t : tests) {
    char line[256];
    std::snprintf(line, sizeof line,
                  csv ? "\"%s\",%.9g,%.9g,%.9g,%.9g,%.9g,\"%s\"\n"
                      : "| %-15s | %12.2f | %12.2f | %6.3f | %6.3f to %5.3f | %-13s |\n",
                  t.test.c_str(), t.before, t.now, t.comparison.ratio, t.comparison.low,
                  t.comparison.high, name(t.verdict));
    out += line;
  }
  return out;
}

Result<int> judge(const std::vector<ComparedTest>& tests) {
  if (tests.empty()) {
    return fail(ErrorCode::not_found, "bench: no test of this run is in the file to compare with");
  }
  std::string slower;
  for (const ComparedTest& t : tests) {
    if (t.verdict == Verdict::slower) slower += (slower.empty() ? "" : ", ") + t.test;
  }
  if (slower.empty()) return 0;
  std::cerr << "onepass: slower than before: " << slower << '\n';
  return 1;
}

}  // namespace onepass::tool
