#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "bench_compare.h"
#include "common.h"
#include "core/os.h"
#include "json_writer.h"
#include "llm/decoder.h"
#include "machine.h"
#include "memory_bandwidth.h"
#include "model_facts.h"
#include "terminal.h"

namespace onepass::tool {
namespace {

struct BenchArgs {
  ModelArgs model;
  std::vector<std::uint32_t> prompts{512}, generated{128}, depths{0};
  std::uint32_t repetitions = 5;
  std::string kv = "f16";
  std::string output = "md", output_err = "none";
  bool json = false;
  std::vector<std::string> compare, with;  // files
  double tolerance = 0.0;                  // percent
};

struct Test {
  std::uint32_t prompt = 0, generated = 0, depth = 0;  // one of the first two is 0
  std::uint32_t tokens() const { return prompt + generated; }
  std::string name() const {
    std::string text =
        prompt > 0 ? "pp" + std::to_string(prompt) : "tg" + std::to_string(generated);
    if (depth > 0) text += " @ d" + std::to_string(depth);
    return text;
  }
};

struct Mean {
  double mean = 0.0, deviation = 0.0;
};
Mean mean_of(const std::vector<double>& values) {
  Mean m;
  const auto n = static_cast<double>(values.size());
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  for (const double x : values) m.deviation += (x - m.mean) * (x - m.mean);
  m.deviation = values.size() > 1 ? std::sqrt(m.deviation / (n - 1.0)) : 0.0;
  return m;
}

// The same ids in every run.
std::vector<std::uint32_t> random_tokens(std::size_t n, std::uint32_t vocab) {
  std::vector<std::uint32_t> ids(n);
  std::uint64_t state = 1;
  for (std::uint32_t& id : ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<std::uint32_t>((state >> 33) % vocab);
  }
  return ids;
}

// Nanoseconds of one run behind the first `depth` tokens.
Result<std::uint64_t> run_once(llm::Decoder& decoder, const Test& test,
                               std::span<const std::uint32_t> tokens) {
  ONEPASS_TRY(decoder.truncate(test.depth));
  const std::uint64_t begin = os::now_ns();
  if (test.prompt > 0) {
    ONEPASS_TRY(decoder.append(tokens, &interrupt_flag()));
  } else {
    ONEPASS_TRY(decoder.append(tokens.first(1), &interrupt_flag()));
    // So many are on their way at a time.
    std::array<std::uint32_t, 32> made;
    ONEPASS_TRY(decoder.greedy());
    for (std::size_t left = tokens.size() - 1; left > 0 && !interrupt_flag().load();) {
      const std::size_t n = std::min(left, made.size());
      ONEPASS_TRY(decoder.next(std::span(made).first(n), {}));
      left -= n;
    }
  }
  return os::now_ns() - begin;
}

Result<std::vector<double>> measure(llm::Decoder& decoder, const Test& test,
                                    std::uint32_t repetitions) {
  const std::uint32_t vocab = decoder.model().config().vocab;
  const std::vector<std::uint32_t> ids =
      random_tokens(std::size_t{test.depth} + test.tokens(), vocab);
  const auto tokens = std::span(ids).subspan(test.depth);
  ONEPASS_TRY(decoder.truncate(0));
  ONEPASS_TRY(decoder.append(std::span(ids).first(test.depth), &interrupt_flag()));
  // Warm-up: plans are recorded, memory is touched.
  ONEPASS_TRY(run_once(decoder, test, test.prompt > 0 ? tokens : tokens.first(1)));
  std::vector<double> ns;
  for (std::uint32_t i = 0; i < repetitions; ++i) {
    ONEPASS_ASSIGN(const std::uint64_t one, run_once(decoder, test, tokens));
    ns.push_back(static_cast<double>(std::max<std::uint64_t>(one, 1)));
  }
  return ns;
}

std::string sized(double value, double step, const char* const* units) {
  char text[48];
  int unit = 0;
  for (; value >= step && units[unit + 1] != nullptr; ++unit) value /= step;
  std::snprintf(text, sizeof text, "%.2f %s", value, units[unit]);
  return text;
}
std::string size_text(std::uint64_t bytes) {
  constexpr const char* units[] = {"MiB", "GiB", nullptr};
  return sized(static_cast<double>(bytes) / 1048576.0, 1024.0, units);
}
std::string count_text(std::uint64_t n) {
  constexpr const char* units[] = {"M", "B", nullptr};
  return sized(static_cast<double>(n) * 1e-6, 1000.0, units);
}

// Everything a row can show.
struct Row {
  std::string file;
  ModelFacts model;
  std::string backend, device, driver, kv;
  std::uint32_t threads = 0;
  Test test;
  std::string time;
  std::vector<double> ns;
  double bandwidth = 0.0;  // bytes per second; 0: not known
  std::optional<ComparedTest> compared;

  std::vector<double> speeds() const {
    std::vector<double> list;
    for (const double x : ns) list.push_back(static_cast<double>(test.tokens()) * 1e9 / x);
    return list;
  }
};

using Sink = Status (*)(std::string_view);
Status put_err(std::string_view text) {
  std::cerr << text << std::flush;
  return {};
}

class Printer {
 public:
  // "none" prints nothing.
  Printer(std::string format, bool compares, Sink sink)
      : format_(std::move(format)), compares_(compares), put_(sink) {}

  Status begin() const {
    if (format_ == "json") return put_("[");
    if (format_ == "none" || format_ == "jsonl") return {};
    if (format_ == "sql") {
      std::string columns;
      for_each_field({}, [&](const char* name, const auto& value) {
        columns += std::string(columns.empty() ? "\n  " : ",\n  ") + name + " " + sql_type(value);
      });
      return put_(std::string("CREATE TABLE IF NOT EXISTS ") + sql_table + " (" + columns +
                  "\n);\n");
    }
    if (format_ == "csv") {
      std::string line;
      for_each_field({}, [&](const char* name, const auto&) {
        line += std::string(line.empty() ? "" : ",") + name;
      });
      return put_(line + "\n");
    }
    return put_(
        markdown({"model", "size", "params", "backend", "threads", "test", "t/s"}) +
        "| ------------------------------ | ---------: | ---------: | ---------- | ------: | "
        "--------------: | -------------------: |\n");
  }
  Status row(const Row& r) {
    if (format_ == "none") return {};
    if (format_ == "json" || format_ == "jsonl") {
      JsonWriter json;
      json.begin_object();
      for_each_field(r, [&](const char* name, const auto& value) { add(json.key(name), value); });
      for (const bool in_ns : {true, false}) {
        json.key(in_ns ? "samples_ns" : "samples_ts").begin_array();
        for (const double x : in_ns ? r.ns : r.speeds()) json.value(x);
        json.end_array();
      }
      json.end_object();
      if (format_ == "jsonl") return put_(json.text() + "\n");
      return put_(std::string(std::exchange(first_, false) ? "\n  " : ",\n  ") + json.text());
    }
    if (format_ == "sql") {
      std::string names, values;
      for_each_field(r, [&](const char* name, const auto& value) {
        names += std::string(names.empty() ? "" : ", ") + name;
        values += (values.empty() ? "" : ", ") + sql(value);
      });
      return put_(std::string("INSERT INTO ") + sql_table + " (" + names + ") VALUES (" + values +
                  ");\n");
    }
    if (format_ == "csv") {
      std::string line;
      for_each_field(r, [&](const char*, const auto& value) {
        line += (line.empty() ? "" : ",") + csv(value);
      });
      return put_(line + "\n");
    }
    const Mean speed = mean_of(r.speeds());
    char text[64];
    std::snprintf(text, sizeof text, "%.2f ± %.2f", speed.mean, speed.deviation);
    return put_(markdown({r.model.type, size_text(r.model.bytes), count_text(r.model.parameters),
                          r.backend, std::to_string(r.threads), r.test.name(), text}));
  }
  Status end() const { return format_ == "json" ? put_("\n]\n") : Status{}; }

 private:
  static std::string markdown(const std::vector<std::string>& cells) {
    constexpr int widths[] = {-30, 10, 10, -10, 7, 15, 20};
    std::string line = "|";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      // The sign ± is two bytes and one column.
      const auto columns = static_cast<std::size_t>(std::count_if(
          cells[i].begin(), cells[i].end(), [](char c) { return (c & 0xc0) != 0x80; }));
      const auto width = static_cast<std::size_t>(std::abs(widths[i]));
      const std::string gap(width > columns ? width - columns : 0, ' ');
      line += widths[i] < 0 ? " " + cells[i] + gap + " |" : " " + gap + cells[i] + " |";
    }
    return line + "\n";
  }
  // The text between two such marks; a mark in it is written twice.
  static std::string quoted(const std::string& text, char mark) {
    std::string out(1, mark);
    for (const char c : text) out += std::string(c == mark ? 2 : 1, c);
    return out + mark;
  }
  static constexpr const char* sql_table = "onepass_bench";
  static const char* sql_type(const std::string&) { return "TEXT"; }
  static const char* sql_type(std::uint64_t) { return "INTEGER"; }
  static const char* sql_type(double) { return "REAL"; }
  static std::string sql(const std::string& text) { return quoted(text, '\''); }
  static std::string sql(std::uint64_t n) { return csv(n); }
  static std::string sql(double n) { return is_known(n) ? csv(n) : "NULL"; }
  static std::string csv(const std::string& text) { return quoted(text, '"'); }
  static std::string csv(std::uint64_t n) { return std::to_string(n); }
  static std::string csv(double n) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", n);
    return is_known(n) ? text : "";
  }
  static void add(JsonWriter& json, const std::string& text) { json.value(text); }
  static void add(JsonWriter& json, std::uint64_t n) { json.value(n); }
  static void add(JsonWriter& json, double n) { is_known(n) ? json.value(n) : json.null(); }
  static bool is_known(double n) { return n >= 0.0; }

  template <class F>
  void for_each_field(const Row& r, F&& f) const {
    const Mean ns = r.ns.empty() ? Mean{} : mean_of(r.ns);
    const Mean speed = r.ns.empty() ? Mean{} : mean_of(r.speeds());
    constexpr double unknown = -1.0;
    const double read =
        r.test.generated > 0 ? static_cast<double>(r.model.bytes_per_token) * speed.mean : unknown;
    const bool share_known = r.bandwidth > 0.0 && r.test.generated > 0;
    f("build_version", std::string(version()));
    f("build_commit", commit_name());
    f("build_type", build_name());
    f("compiler", compiler_name());
    f("system", system_name());
    f("backend", r.backend);
    f("device", r.device);
    f("driver", r.driver);
    f("model_filename", r.file);
    f("model_type", r.model.type);
    f("model_size", r.model.bytes);
    f("model_n_params", r.model.parameters);
    f("n_threads", std::uint64_t{r.threads});
    f("type_kv", r.kv);
    f("n_prompt", std::uint64_t{r.test.prompt});
    f("n_gen", std::uint64_t{r.test.generated});
    f("n_depth", std::uint64_t{r.test.depth});
    f("test", r.test.name());
    f("test_time", r.time);
    f("avg_ns", ns.mean);
    f("stddev_ns", ns.deviation);
    f("avg_ts", speed.mean);
    f("stddev_ts", speed.deviation);
    f("bytes_per_token", r.model.bytes_per_token);
    f("read_bytes_per_second", read);
    f("memory_bytes_per_second", r.bandwidth > 0.0 ? r.bandwidth : unknown);
    f("read_share", share_known ? read / r.bandwidth : unknown);
    if (!compares_) return;
    const bool known = r.compared.has_value();
    const Comparison c = known ? r.compared->comparison : Comparison{unknown, unknown, unknown};
    f("baseline_ts", known ? r.compared->before : unknown);
    f("speed_ratio", c.ratio);
    f("speed_ratio_low", c.low);
    f("speed_ratio_high", c.high);
    f("verdict", std::string(known ? name(r.compared->verdict) : "not compared"));
  }

  std::string format_;
  bool compares_;
  Sink put_;
  bool first_ = true;
};

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::vector<Test> tests_of(const BenchArgs& args) {
  std::vector<Test> tests;
  for (const std::uint32_t depth : args.depths) {
    for (const std::uint32_t n : args.prompts) tests.push_back({n, 0, depth});
    for (const std::uint32_t n : args.generated) tests.push_back({0, n, depth});
  }
  std::erase_if(tests, [](const Test& t) { return t.tokens() == 0; });
  return tests;
}

// Two stored sets of runs.
Result<int> compare_stored(const BenchArgs& args, const Baseline& baseline) {
  if (args.output == "sql") refuse("-o", "sql, expected md, csv, json or jsonl with --with");
  ONEPASS_ASSIGN(const std::vector<StoredTest> now, read_bench(args.with));
  std::vector<ComparedTest> compared;
  for (const StoredTest& test : now) {
    if (auto one = baseline.compare(test)) compared.push_back(std::move(*one));
  }
  ONEPASS_ASSIGN(const int code, judge(compared));
  ONEPASS_TRY(put(compared_text(compared, args.json ? "json" : args.output)));
  return code;
}

// The row as the file of a run would have it.
StoredTest stored(const Row& row) {
  return {row.test.name(), row.model.type, row.backend,       row.device,
          row.kv,          row.threads,    row.test.tokens(), {row.ns}};
}

Result<int> run_bench(BenchArgs& args) {
  ONEPASS_ASSIGN(const Baseline baseline, Baseline::read(args.compare, args.tolerance / 100.0));
  if (!args.with.empty()) return compare_stored(args, baseline);
  const std::vector<Test> tests = tests_of(args);
  std::uint64_t context = 0;
  for (const Test& t : tests) {
    context = std::max(context, std::uint64_t{t.depth} + t.tokens());
  }
  if (tests.empty()) refuse("-p", "0, as is -n: there is nothing to measure");
  if (context > llm::max_context) {
    refuse("-d", std::to_string(context) + " tokens with those of a test, at most " +
                     std::to_string(llm::max_context) + " are allowed");
  }
  Row row;
  ONEPASS_ASSIGN(row.file, args.model.path());
  llm::DecoderOptions options;
  options.context = static_cast<std::uint32_t>(context);
  options.kv = args.kv == "f32" ? DType::f32 : DType::f16;
  ONEPASS_ASSIGN(const llm::TextModel opened,
                 args.model.open(false, {.context = context, .kv = options.kv}));
  warn_of_context(opened.model->config().context, context);
  const DeviceInfo& device = opened.model->device().info();
  ONEPASS_ASSIGN(llm::Decoder decoder, llm::Decoder::create(opened.model, options));
  row.model = facts_of(*opened.model);
  row.device = device.description;
  row.backend = device.name.substr(0, device.name.find(':'));
  for (char& c : row.backend) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  row.kv = args.kv;
  row.threads = device.compute_units;
  if (row.backend != "CPU") {
    for (const std::string& line : driver_versions()) {
      row.driver += (row.driver.empty() ? "" : "; ") + line;
    }
  }
  const std::string format = args.json ? "json" : args.output;
  const auto tells_more = [](const std::string& f) { return f != "md" && f != "none"; };
  if ((tells_more(format) || tells_more(args.output_err)) && row.backend == "CPU") {
    row.bandwidth = memory_bandwidth(row.threads);
  }
  Printer printer(format, bool(baseline), put), second(args.output_err, bool(baseline), put_err);
  std::vector<ComparedTest> compared;
  ONEPASS_TRY(printer.begin());
  ONEPASS_TRY(second.begin());
  for (const Test& test : tests) {
    row.test = test;
    row.time = now_text();
    ONEPASS_ASSIGN(row.ns, measure(decoder, test, args.repetitions));
    if (baseline) row.compared = baseline.compare(stored(row));
    if (row.compared) compared.push_back(*row.compared);
    ONEPASS_TRY(printer.row(row));
    ONEPASS_TRY(second.row(row));
  }
  ONEPASS_TRY(printer.end());
  ONEPASS_TRY(second.end());
  if (!baseline) return 0;
  ONEPASS_ASSIGN(const int code, judge(compared));
  if (format == "md") ONEPASS_TRY(put("\n" + compared_text(compared, format)));
  return code;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  const auto args = std::make_shared<BenchArgs>();
  CLI::App* command = app.add_subcommand("bench", "tokens per second of prompt and decode");
  args->model.add_to(*command);
  const CLI::Range tokens(0u, llm::max_context);
  command->add_option("-p,--n-prompt", args->prompts, "prompt tokens, several: 128,512; 0: none")
      ->delimiter(',')
      ->check(tokens)
      ->capture_default_str();
  command->add_option("-n,--n-gen", args->generated, "decoded tokens, several by comma; 0: none")
      ->delimiter(',')
      ->check(tokens)
      ->capture_default_str();
  command->add_option("-d,--n-depth", args->depths, "tokens in the cache before, several by comma")
      ->delimiter(',')
      ->check(tokens)
      ->capture_default_str();
  command->add_option("-r,--repetitions", args->repetitions)
      ->check(CLI::Range(1u, 10000u))
      ->capture_default_str();
  command->add_option("--kv", args->kv, "cache: f16 or f32")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  CLI::Option* output =
      command
          ->add_option(
              "-o,--output", args->output,
              "md, csv, json, jsonl (a line for each test) or sql; all but the first tell more")
          ->check(CLI::IsMember({"md", "csv", "json", "jsonl", "sql"}))
          ->capture_default_str();
  command->add_option("--output-err", args->output_err, "the same rows on stderr, as -o")
      ->check(CLI::IsMember({"none", "md", "csv", "json", "jsonl", "sql"}))
      ->capture_default_str();
  command->add_flag("--json", args->json, "as -o json")->excludes(output);
  CLI::Option* compare =
      command
          ->add_option("--compare", args->compare,
                       "files of earlier runs with -o json or jsonl: exit 1 if this one is slower")
          ->delimiter(',');
  command->add_option("--with", args->with, "run nothing: compare those files with these")
      ->delimiter(',')
      ->needs(compare);
  command->add_option("--tolerance", args->tolerance, "percent that count as no difference")
      ->check(number_from(0.0, 100.0))
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  onepass bench -m synthetic:llama-1b:q4_0 -p 128 -n 64 -t 2\n"
      "  onepass bench -r 20 -o json --output-err md > before.json\n"
      "  onepass bench -r 20 --compare before.json");
  command->callback([&run, args] {
    run = [args] {
      const Result<int> code = run_bench(*args);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace onepass::tool
