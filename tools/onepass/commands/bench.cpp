#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "bench/bench_compare.h"
#include "bench/dispatch.h"
#include "bench/subject.h"
#include "bench/table.h"
#include "common.h"
#include "common/terminal.h"
#include "core/os.h"
#include "machine/bandwidth.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

constexpr std::uint32_t least_repetitions = 5, most_repetitions = 200;
constexpr double least_ns = 1e9;

struct BenchArgs {
  ModelArgs model;
  std::vector<std::uint32_t> prompts{512}, generated{128}, depths{0};
  std::uint32_t repetitions = 0;  // 0: least_repetitions or more, for least_ns
  std::string kv = "f16";
  std::string output = "md", output_err = "none";
  bool json = false;
  std::vector<std::string> compare, with;  // files
  double tolerance = 1.0;                  // percent
  std::vector<std::string> dispatch, fuse{"exact"}, policies{"exact"};

  std::string format() const { return json ? "json" : output; }
  llm::DecoderOptions decoder_options(std::uint64_t context) const {
    llm::DecoderOptions options;
    options.context = static_cast<std::uint32_t>(context);
    options.kv = kv == "f32" ? DType::f32 : DType::f16;
    return options;
  }
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
  ProgressBar bar("bench " + test.name());
  std::vector<double> ns;
  double total = 0.0;
  const auto goes_on = [&] {
    if (repetitions != 0) return ns.size() < repetitions;
    return ns.size() < least_repetitions || (total < least_ns && ns.size() < most_repetitions);
  };
  while (goes_on()) {
    bar.show(ns.size(), repetitions != 0 ? repetitions : least_repetitions);
    ONEPASS_ASSIGN(const std::uint64_t one, run_once(decoder, test, tokens));
    ns.push_back(static_cast<double>(std::max<std::uint64_t>(one, 1)));
    total += ns.back();
  }
  return ns;
}

// Everything a row can show.
struct Row {
  Test test;
  std::string time;
  std::vector<double> ns;
  double bandwidth = 0.0;  // bytes per second; 0: not known
  std::optional<ComparedTest> compared;
};

const std::vector<TableWriter::Column> columns = {{"model", -30},   {"size", 10},   {"params", 10},
                                                  {"backend", -10}, {"threads", 7}, {"test", 15},
                                                  {"t/s", 20}};

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

TableRow shown(const Subject& subject, const Row& r, bool compares) {
  const std::vector<double> speeds = speeds_of(r.test.tokens(), r.ns);
  const Mean ns = mean_of(r.ns), speed = mean_of(speeds);
  constexpr double unknown = -1.0;
  const double read = r.test.generated > 0
                          ? static_cast<double>(subject.model.bytes_per_token) * speed.mean
                          : unknown;
  const MemoryShare share =
      r.bandwidth > 0.0 && read > 0.0 ? share_of_memory(read, subject.threads) : MemoryShare{};
  TableRow row{.fields = fields_of(subject)};
  const auto add = [&](const char* name, auto value) { row.fields.push_back({name, value}); };
  add("n_prompt", std::uint64_t{r.test.prompt});
  add("n_gen", std::uint64_t{r.test.generated});
  add("n_depth", std::uint64_t{r.test.depth});
  add("test", r.test.name());
  add("test_time", r.time);
  add("avg_ns", ns.mean);
  add("stddev_ns", ns.deviation);
  add("avg_ts", speed.mean);
  add("stddev_ts", speed.deviation);
  add("bytes_per_token", subject.model.bytes_per_token);
  add("read_bytes_per_second", read);
  add("memory_bytes_per_second", share.roof > 0.0    ? share.roof
                                 : r.bandwidth > 0.0 ? r.bandwidth
                                                     : unknown);
  add("read_share", share.share > 0.0 ? share.share : unknown);
  add("in_cache", std::uint64_t{share.in_cache});
  if (compares) {
    const bool known = r.compared.has_value();
    const Comparison c = known ? r.compared->comparison : Comparison{unknown, unknown, unknown};
    add("baseline_ts", known ? r.compared->before : unknown);
    add("speed_ratio", c.ratio);
    add("speed_ratio_low", c.low);
    add("speed_ratio_high", c.high);
    add("verdict", std::string(known ? name(r.compared->verdict) : "not compared"));
  }
  row.samples = {{"samples_ns", r.ns}, {"samples_ts", speeds}};
  row.cells = {
      subject.model.type, size_text(subject.model.bytes),  count_text(subject.model.parameters),
      subject.backend,    std::to_string(subject.threads), r.test.name(),
      speed.text()};
  return row;
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
  ONEPASS_TRY(put(compared_text(compared, args.format())));
  return code;
}

// The row as the file of a run would have it.
StoredTest stored(const Subject& s, const Row& row) {
  return {row.test.name(), s.model.type,      s.backend, s.device, s.kv,
          s.threads,       row.test.tokens(), {row.ns}};
}

// Tokens that the longest test has in the cache.
std::uint64_t context_of(const std::vector<Test>& tests) {
  std::uint64_t context = 0;
  for (const Test& t : tests) context = std::max(context, std::uint64_t{t.depth} + t.tokens());
  if (context > llm::max_context) {
    refuse("-d", std::to_string(context) + " tokens with those of a test, at most " +
                     std::to_string(llm::max_context) + " are allowed");
  }
  return context;
}

Result<int> run_bench(BenchArgs& args) {
  ONEPASS_ASSIGN(const Baseline baseline, Baseline::read(args.compare, args.tolerance / 100.0));
  if (!args.with.empty()) return compare_stored(args, baseline);
  const std::vector<Test> tests = tests_of(args);
  if (tests.empty()) refuse("-p", "0, as is -n: there is nothing to measure");
  const std::uint64_t context = context_of(tests);
  const llm::DecoderOptions options = args.decoder_options(context);
  ONEPASS_ASSIGN(const std::string file, args.model.path());
  ONEPASS_ASSIGN(const llm::TextModel opened,
                 args.model.open(false, {.context = context, .kv = options.kv}));
  warn_of_context(opened.model->config().context, context);
  ONEPASS_ASSIGN(llm::Decoder decoder, llm::Decoder::create(opened.model, options));
  const Subject subject = subject_of(file, *opened.model, args.kv);
  const std::string format = args.format();
  const auto tells_more = [](const std::string& f) { return f != "md" && f != "none"; };
  Row row;
  if ((tells_more(format) || tells_more(args.output_err)) && subject.backend == "CPU") {
    row.bandwidth = memory_bandwidth(subject.threads);
  }
  const bool compares = bool(baseline);
  TableWriter table(format, "onepass_bench", columns, put);
  TableWriter second(args.output_err, "onepass_bench", columns, put_err);
  std::vector<ComparedTest> compared;
  ONEPASS_TRY(table.begin(shown(subject, row, compares)));
  ONEPASS_TRY(second.begin(shown(subject, row, compares)));
  for (const Test& test : tests) {
    row.test = test;
    row.time = time_text();
    ONEPASS_ASSIGN(row.ns, measure(decoder, test, args.repetitions));
    if (compares) row.compared = baseline.compare(stored(subject, row));
    if (row.compared) compared.push_back(*row.compared);
    const TableRow line = shown(subject, row, compares);
    ONEPASS_TRY(table.row(line));
    ONEPASS_TRY(second.row(line));
  }
  ONEPASS_TRY(table.end());
  ONEPASS_TRY(second.end());
  if (!compares) return 0;
  ONEPASS_ASSIGN(const int code, judge(compared));
  if (format == "md") ONEPASS_TRY(put("\n" + compared_text(compared, format)));
  return code;
}

// ---- --dispatch ----

const std::vector<TableWriter::Column> dispatch_columns = {
    {"test", -8},        {"dispatch", -11}, {"fuse", -5},   {"policy", -8},
    {"t/s", 20},         {"µs/token", 9},   {"outside", 8}, {"dispatches", 10},
    {"submissions", 11}, {"waits", 5},      {"order", -13}};

struct DispatchRow {
  Test test;
  std::string time;
  DispatchWay way;
  DispatchTimes times;
  KernelShare share;
  std::uint64_t other_tokens = 0;
};

TableRow shown(const Subject& subject, const DispatchRow& r) {
  const std::string way[] = {std::string(r.way.mode_name()), std::string(r.way.fuse_name()),
                             std::string(r.way.policy_name())};
  const DispatchTimes& t = r.times;
  const std::vector<double> speeds = speeds_of(r.test.tokens(), t.ns);
  const Mean ns = mean_of(t.ns), speed = mean_of(speeds);
  const double us = median_of(t.ns) * 1e-3 / std::max(r.test.tokens(), 1u);
  TableRow row{.fields = fields_of(subject)};
  const auto add = [&](const char* name, auto value) { row.fields.push_back({name, value}); };
  add("n_prompt", std::uint64_t{0});
  add("n_gen", std::uint64_t{r.test.generated});
  add("n_depth", std::uint64_t{r.test.depth});
  add("test", r.test.name() + " " + way[0] + " " + way[1] + " " + way[2]);
  add("test_time", r.time);
  add("dispatch", way[0]);
  add("fuse", way[1]);
  add("policy", way[2]);
  add("avg_ns", ns.mean);
  add("stddev_ns", ns.deviation);
  add("avg_ts", speed.mean);
  add("stddev_ts", speed.deviation);
  add("us_per_token", us);
  add("timed_us_per_token", r.share.us);
  add("outside_us_per_token", r.share.outside_us);
  add("dispatches", r.share.dispatches);
  add("submissions", t.submissions);
  add("waits", t.waits);
  add("barriers", t.barriers);
  add("edges", t.edges);
  add("other_tokens", r.other_tokens);
  row.samples = {{"samples_ns", t.ns}, {"samples_ts", speeds}};
  const auto text = [](double n, const char* form) {
    char out[32];
    std::snprintf(out, sizeof out, form, n);
    return std::string(n >= 0.0 ? out : "-");
  };
  row.cells = {r.test.name(),
               way[0],
               way[1],
               way[2],
               speed.text(),
               text(us, "%.1f"),
               text(r.share.outside_us, "%.1f"),
               text(r.share.dispatches, "%.0f"),
               text(t.submissions, "%.0f"),
               text(t.waits, "%.0f"),
               t.edges >= 0.0 ? text(t.edges, "%.0f edges") : text(t.barriers, "%.0f barriers")};
  return row;
}

// Every way of every test, the tests one after the other. Opens the model twice: the times of
// kernels come from a device that does nothing else.
Result<std::vector<DispatchRow>> measure_dispatch(BenchArgs& args, const std::vector<Test>& tests,
                                                  const std::vector<DispatchWay>& ways,
                                                  Subject& subject) {
  const std::uint64_t context = context_of(tests);
  const llm::DecoderOptions options = args.decoder_options(context);
  std::vector<DispatchRow> rows;
  ONEPASS_ASSIGN(const std::string file, args.model.path());
  for (const bool timed : {false, true}) {
    args.model.device.profile = timed;
    const bool was_quiet = std::exchange(quiet(), quiet() || timed);
    auto opened = args.model.open(false, {.context = context, .kv = options.kv});
    quiet() = was_quiet;
    ONEPASS_TRY(opened);
    if (!timed) warn_of_context(opened->model->config().context, context);
    ONEPASS_ASSIGN(llm::Decoder decoder, llm::Decoder::create(opened->model, options));
    if (!timed) subject = subject_of(file, *opened->model, args.kv);
    for (std::size_t i = 0; i < tests.size(); ++i) {
      const DispatchTest test{tests[i].generated, tests[i].depth};
      if (timed) {
        ONEPASS_ASSIGN(const std::vector<KernelShare> shares, time_kernels(decoder, ways, test));
        for (std::size_t k = 0; k < ways.size(); ++k) rows[i * ways.size() + k].share = shares[k];
        continue;
      }
      const std::string time = time_text();
      ONEPASS_ASSIGN(std::vector<DispatchTimes> times,
                     time_tokens(decoder, ways, test,
                                 args.repetitions != 0 ? args.repetitions : least_repetitions));
      for (std::size_t k = 0; k < ways.size(); ++k) {
        const std::uint64_t other = count_other_tokens(ways, times, k);
        rows.push_back({tests[i], time, ways[k], times[k], {}, other});
      }
    }
  }
  return rows;
}

Result<int> run_dispatch(BenchArgs& args) {
  args.prompts = {0};
  const std::vector<Test> tests = tests_of(args);
  if (tests.empty()) refuse("--n-gen", "0 with --dispatch: there is nothing to measure");
  const std::vector<DispatchWay> ways = dispatch_ways(args.dispatch, args.fuse, args.policies);
  Subject subject;
  ONEPASS_ASSIGN(const std::vector<DispatchRow> rows, measure_dispatch(args, tests, ways, subject));
  TableWriter table(args.format(), "onepass_dispatch", dispatch_columns, put);
  TableWriter second(args.output_err, "onepass_dispatch", dispatch_columns, put_err);
  ONEPASS_TRY(table.begin(shown(subject, rows.front())));
  ONEPASS_TRY(second.begin(shown(subject, rows.front())));
  for (const DispatchRow& row : rows) {
    const TableRow line = shown(subject, row);
    ONEPASS_TRY(table.row(line));
    ONEPASS_TRY(second.row(line));
  }
  ONEPASS_TRY(table.end());
  ONEPASS_TRY(second.end());
  for (const DispatchRow& row : rows) {
    if (row.other_tokens == 0) continue;
    notes() << row.test.name() << ", " << row.way.mode_name()
            << " with close fusions: " << row.other_tokens << " of " << row.test.generated
            << " tokens are others than without\n";
  }
  return 0;
}

void add_dispatch_options(CLI::App& command, BenchArgs& args, CLI::Option& prompts,
                          CLI::Option& compare) {
  const auto one_of = [](const auto& names) {
    return std::vector<std::string>(std::begin(names), std::end(names));
  };
  std::vector<std::string> modes = one_of(dispatch_modes);
  modes.push_back("all");
  CLI::Option* dispatch =
      command
          .add_option("--dispatch", args.dispatch,
                      "decode token by token in these ways, several by comma: per-op, session, "
                      "two-buffers, recorded, plan or all")
          ->delimiter(',')
          ->check(CLI::IsMember(modes))
          ->excludes(&prompts)
          ->excludes(&compare);
  command.add_option("--fuse", args.fuse, "of --dispatch: fusions, several by comma")
      ->delimiter(',')
      ->check(CLI::IsMember(one_of(fuse_levels)))
      ->needs(dispatch)
      ->capture_default_str();
  command
      .add_option("--policy", args.policies, "of --dispatch: order of the ops, several by comma")
      ->delimiter(',')
      ->check(CLI::IsMember(one_of(order_policies)))
      ->needs(dispatch)
      ->capture_default_str();
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  const auto args = std::make_shared<BenchArgs>();
  CLI::App* command = app.add_subcommand("bench", "tokens per second of prompt and decode");
  args->model.add_to(*command);
  const CLI::Range tokens(0u, llm::max_context);
  CLI::Option* prompts =
      command
          ->add_option("-p,--n-prompt", args->prompts, "prompt tokens, several: 128,512; 0: none")
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
  command
      ->add_option("-r,--repetitions", args->repetitions,
                   "of each test; 0: 5 or more, for a second")
      ->check(CLI::Range(0u, 10000u))
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
          ->type_name(file_value)
          ->delimiter(',');
  command->add_option("--with", args->with, "run nothing: compare those files with these")
      ->type_name(file_value)
      ->delimiter(',')
      ->needs(compare);
  command->add_option("--tolerance", args->tolerance, "percent that count as no difference")
      ->check(number_from(0.0, 100.0))
      ->capture_default_str();
  add_dispatch_options(*command, *args, *prompts, *compare);
  command->footer(
      "With --dispatch the same tokens are decoded, greedily and one after the other, in several "
      "ways: per-op submits and waits for every op by itself; session runs a direct session for "
      "every token, recorded a recorded one, and two-buffers submits its first tenth while the "
      "rest is encoded; plan runs one compiled plan again and again. per-op and session take the "
      "ops as they are recorded, so --fuse and --policy are of the others. All ways of one --fuse, "
      "and those of off and exact together, must choose equal tokens.\n"
      "µs/token is of the median run. outside: µs of the median token in which no kernel ran, "
      "which is its time less what the spans of its dispatches cover; from another run, with every "
      "dispatch timed, which takes the host a little longer; all else from runs without. "
      "dispatches, submissions, waits and order are those of one token; order says barriers, or "
      "edges where the device is given those.\n"
      "Examples:\n"
      "  onepass bench -m synthetic:llama-1b:q4_0 -p 128 -n 64 -t 2\n"
      "  onepass bench -r 20 -o json --output-err md > before.json\n"
      "  onepass bench -r 20 --compare before.json\n"
      "  onepass bench --dispatch all --fuse off,exact -n 32");
  command->callback([&run, args] {
    run = [args] {
      const Result<int> code = args->dispatch.empty() ? run_bench(*args) : run_dispatch(*args);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace onepass::tool
