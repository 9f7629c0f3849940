#include "compare.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/os.h"
#include "io/json.h"

namespace onepass::tool {
namespace {

class Random {
 public:
  std::size_t below(std::size_t n) noexcept {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state_ >> 33) % n);
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15u;
};

// Of the faster half: what disturbs a machine only makes times longer.
double undisturbed(TimesOfRun& times) {
  const std::size_t n = (times.size() + 1) / 2;
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(n - 1), times.end());
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += times[i];
  return sum / static_cast<double>(n);
}

double mean_of_runs(std::vector<TimesOfRun> runs) {
  double total = 0.0;
  for (TimesOfRun& run : runs) total += undisturbed(run);
  return total / static_cast<double>(runs.size());
}

double resampled_mean(const std::vector<TimesOfRun>& runs, bool draw_runs, Random& random) {
  double total = 0.0;
  TimesOfRun drawn;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const TimesOfRun& run = runs[draw_runs ? random.below(runs.size()) : i];
    drawn.clear();
    for (std::size_t k = 0; k < run.size(); ++k) drawn.push_back(run[random.below(run.size())]);
    total += undisturbed(drawn);
  }
  return total / static_cast<double>(runs.size());
}

tl::unexpected<Error> bad(const std::string& path, const io::Json& at, const std::string& message,
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return fail(ErrorCode::parse, path + ": byte " + std::to_string(at.at()) + ": " + message, file,
              line);
}

Result<std::string> text_of(const std::string& path, const io::Json& row, const char* key) {
  const auto text = row[key].text();
  if (!text) return bad(path, row, std::string("there is no text '") + key + "'");
  return std::string(*text);
}
Result<std::uint64_t> integer_of(const std::string& path, const io::Json& row, const char* key) {
  const auto value = row[key].integer();
  if (!value) return bad(path, row, std::string("there is no whole number '") + key + "'");
  return *value;
}

Status read_row(const std::string& path, const io::Json& row, std::vector<StoredTest>& out) {
  StoredTest test;
  ONEPASS_ASSIGN(test.test, text_of(path, row, "test"));
  ONEPASS_ASSIGN(test.model, text_of(path, row, "model_type"));
  ONEPASS_ASSIGN(test.backend, text_of(path, row, "backend"));
  ONEPASS_ASSIGN(test.device, text_of(path, row, "device"));
  ONEPASS_ASSIGN(test.kv, text_of(path, row, "type_kv"));
  ONEPASS_ASSIGN(test.threads, integer_of(path, row, "n_threads"));
  ONEPASS_ASSIGN(const std::uint64_t prompt, integer_of(path, row, "n_prompt"));
  ONEPASS_ASSIGN(const std::uint64_t generated, integer_of(path, row, "n_gen"));
  test.tokens = prompt + generated;
  const io::Json samples = row["samples_ns"];
  if (!samples.is(io::JsonKind::array) || samples.size() == 0) {
    return bad(path, row, "there are no 'samples_ns'");
  }
  TimesOfRun run;
  for (const io::Json item : samples.items()) {
    const auto ns = item.number();
    if (!ns || !(*ns > 0.0) || !std::isfinite(*ns)) {
      return bad(path, item, "a time is no number above 0");
    }
    run.push_back(*ns);
  }
  const auto known = std::find_if(out.begin(), out.end(),
                                  [&](const StoredTest& t) { return t.test == test.test; });
  if (known == out.end()) {
    test.runs.push_back(std::move(run));
    out.push_back(std::move(test));
  } else {
    known->runs.push_back(std::move(run));
  }
  return {};
}

// A test on each line.
Status read_lines(const std::string& path, std::string_view text, std::vector<StoredTest>& out) {
  for (std::size_t n = 1; !text.empty(); ++n) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string where = path + ", line " + std::to_string(n);
    Result<io::JsonDocument> parsed = io::JsonDocument::parse(line);
    if (!parsed) {
      Error error = std::move(parsed).error();
      error.message = where + ": " + error.message;
      return error;
    }
    const io::Json row = parsed->root();
    if (row["test"].is_missing()) {
      return bad(where, row, "no test; onepass bench -o jsonl writes one on each line");
    }
    ONEPASS_TRY(read_row(where, row, out));
  }
  return {};
}

}  // namespace

const char* name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::slower:
      return "slower";
    case Verdict::faster:
      return "faster";
    default:
      return "no difference";
  }
}

Verdict Comparison::verdict(double tolerance) const noexcept {
  if (high < 1.0 - tolerance) return Verdict::slower;
  if (low > 1.0 + tolerance) return Verdict::faster;
  return Verdict::unclear;
}

Comparison compare_times(const std::vector<TimesOfRun>& before,
                         const std::vector<TimesOfRun>& now) {
  Comparison c;
  c.ratio = mean_of_runs(before) / mean_of_runs(now);
  const bool draw_runs = before.size() > 1 && now.size() > 1;
  Random random;
  std::vector<double> ratios(resamples);
  for (double& r : ratios) {
    const double a = resampled_mean(before, draw_runs, random);
    r = a / resampled_mean(now, draw_runs, random);
  }
  std::sort(ratios.begin(), ratios.end());
  c.low = ratios[resamples / 40];
  c.high = ratios[resamples - 1 - resamples / 40];
  return c;
}

Result<std::vector<StoredTest>> read_bench(const std::vector<std::string>& paths) {
  std::vector<StoredTest> out;
  for (const std::string& path : paths) {
    ONEPASS_ASSIGN(const os::File file, os::File::open(path));
    if (file.bytes() > max_bench_bytes) {
      return fail(ErrorCode::limit, path + ": " + std::to_string(file.bytes()) +
                                        " bytes, at most " + std::to_string(max_bench_bytes) +
                                        " are read");
    }
    std::string text(static_cast<std::size_t>(file.bytes()), '\0');
    ONEPASS_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
    if (text.find_first_not_of(" \t\r\n") != text.npos &&
        text[text.find_first_not_of(" \t\r\n")] == '{') {
      ONEPASS_TRY(read_lines(path, text, out));
      continue;
    }
    Result<io::JsonDocument> parsed = io::JsonDocument::parse(text);
    if (!parsed) {
      Error error = std::move(parsed).error();
      error.message = path + ": " + error.message;
      return error;
    }
    const io::Json root = parsed->root();
    if (!root.is(io::JsonKind::array)) {
      return bad(path, root, "no list of tests; onepass bench -o json writes one");
    }
    for (const io::Json row : root.items()) ONEPASS_TRY(read_row(path, row, out));
  }
  return out;
}

}  // namespace onepass::tool
