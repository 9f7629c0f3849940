#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <memory>
#include <random>

#include "bandwidth.h"
#include "common.h"
#include "core/os.h"
#include "json_writer.h"
#include "llm/generate.h"
#include "terminal.h"

namespace onepass::tool {
namespace {

struct GenerateArgs {
  ModelArgs model;
  std::string prompt;
  std::string tokens;
  std::uint32_t n = 256;
  std::uint32_t context = 0;
  llm::SamplingOptions sampling{.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
  std::string seed = "1";
  bool special = false;
  bool json = false;
};

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }
double rate(double n, std::uint64_t ns) { return ns == 0 ? 0.0 : n / seconds(ns); }

// What the last line and the JSON say.
struct Figures {
  double load_s = 0.0, first_token_s = 0.0, prompt_rate = 0.0, decode_rate = 0.0;
  double used_bandwidth = 0.0, read_bandwidth = 0.0;  // bytes per second
  std::uint64_t peak_bytes = 0;
  std::uint32_t dispatches = 0, barriers = 0;
};

Figures measure(const llm::Generator& g, const llm::GenerateReport& r, double load_s) {
  Figures f;
  f.load_s = load_s;
  f.first_token_s = seconds(r.first_token_ns);
  f.prompt_rate = rate(r.prompt_tokens, r.prefill_ns);
  f.decode_rate = rate(r.decoded, r.decode_ns);
  f.peak_bytes = os::peak_memory_bytes();
  if (const Plan& plan = g.decoder().decode_plan()) {
    f.dispatches = plan.report().dispatches;
    f.barriers = plan.report().barriers;
  }
  const llm::Model& model = *g.model().model;
  f.used_bandwidth = f.decode_rate * static_cast<double>(model.token_bytes());
  if (r.decoded > 0 && !interrupted()) f.read_bandwidth = read_bandwidth(model);
  return f;
}

void print_line(const llm::GenerateReport& r, const Figures& f) {
  std::string line;
  char part[160];
  const auto add = [&](const char* format, auto... values) {
    std::snprintf(part, sizeof part, format, values...);
    line += part;
  };
  add("loaded in %.3f s, first token after %.3f s, prompt %u tokens at %.0f tok/s", f.load_s,
      f.first_token_s, r.prompt_tokens, f.prompt_rate);
  add(", then %u tokens at %.1f tok/s", r.decoded, f.decode_rate);
  add(", peak memory %s", show_bytes(f.peak_bytes).c_str());
  if (f.read_bandwidth > 0.0) {
    add(", weights read at %.1f GB/s (%.0f %% of %.1f GB/s measured)", f.used_bandwidth / 1e9,
        100.0 * f.used_bandwidth / f.read_bandwidth, f.read_bandwidth / 1e9);
  }
  if (f.dispatches > 0) {
    add(", %u dispatches and %u barriers per token", f.dispatches, f.barriers);
  }
  std::cerr << line << '\n';
}

std::string to_json(const GenerateArgs& args, const llm::Generator& g, const llm::GenerateReport& r,
                    const Figures& f, const std::string& text) {
  const llm::SamplingOptions& s = args.sampling;
  JsonWriter json;
  json.begin_object();
  json.key("model").value(g.model().model->config().name);
  json.key("device").value(g.model().model->device().info().name);
  json.key("prompt").value(args.prompt);
  if (g.model().tokenizer) {
    json.key("text").value(text);
  } else {
    json.key("text").null();
  }
  json.key("tokens").begin_array();
  for (const std::uint32_t id : r.tokens) json.value(id);
  json.end_array();
  json.key("prompt_tokens").value(r.prompt_tokens);
  json.key("stop").value(llm::name(r.stop));
  json.key("context").value(g.decoder().context());
  json.key("sampling").begin_object();
  json.key("temp").value(s.temperature).key("top_k").value(s.top_k);
  json.key("top_p").value(s.top_p).key("min_p").value(s.min_p).key("seed").value(s.seed);
  json.end_object();
  json.key("timings").begin_object();
  json.key("load_s").value(f.load_s).key("first_token_s").value(f.first_token_s);
  json.key("prompt_s").value(seconds(r.prefill_ns)).key("decode_s").value(seconds(r.decode_ns));
  json.key("prompt_tokens_per_s").value(f.prompt_rate);
  json.key("decode_tokens_per_s").value(f.decode_rate);
  json.end_object();
  json.key("peak_memory_bytes").value(f.peak_bytes);
  json.key("bandwidth").begin_object();
  json.key("used_bytes_per_s").value(f.used_bandwidth);
  json.key("measured_bytes_per_s").value(f.read_bandwidth);
  json.end_object();
  json.key("dispatches_per_token").value(f.dispatches);
  json.key("barriers_per_token").value(f.barriers);
  json.end_object();
  return json.text() + "\n";
}

void check_usage(GenerateArgs& args) {
  llm::SamplingOptions& s = args.sampling;
  if (args.seed == "random") {
    std::random_device random;
    s.seed = std::uint64_t{random()} << 32 | random();
  } else {
    const char* end = args.seed.data() + args.seed.size();
    const auto [at, error] = std::from_chars(args.seed.data(), end, s.seed);
    if (error != std::errc() || at != end) {
      refuse("--seed", "'" + args.seed + "', expected a number from 0 to 2^64 - 1 or 'random'");
    }
  }
  if (const Status status = llm::check(s); !status) refuse("sampling", status.error());
}

// As trained, but no more than this run needs.
std::uint32_t context_for(const GenerateArgs& args, std::uint32_t trained, std::size_t prompt) {
  constexpr std::uint64_t step = 256;
  if (args.context != 0) {
    if (args.context > trained) {
      std::cerr << "note: the model was trained on " << trained << " tokens, -c asks for "
                << args.context << '\n';
    }
    return args.context;
  }
  const std::uint64_t needed = (prompt + args.n + step - 1) / step * step;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(trained, needed));
}

Result<int> run_generate(GenerateArgs& args) {
  check_usage(args);
  std::vector<std::uint32_t> ids;
  if (!args.tokens.empty()) {
    const auto parsed = parse_ids(args.tokens);
    if (!parsed) refuse("--tokens", parsed.error());
    ids = *parsed;
  } else if (args.prompt == "-") {
    ONEPASS_ASSIGN(args.prompt, read_stdin());
  }

  const std::uint64_t start = os::now_ns();
  ONEPASS_ASSIGN(llm::TextModel model, args.model.open());
  const bool has_text = model.tokenizer.has_value();
  if (args.tokens.empty()) {
    ONEPASS_TRY(model.tokenizer);
    ONEPASS_ASSIGN(
        ids, llm::encode_prompt(*model.tokenizer, args.prompt, {.parse_special = args.special}));
    if (ids.empty()) refuse("-p", "the prompt is empty and the model has no begin token");
  }
  llm::DecoderOptions decoder;
  decoder.context = context_for(args, model.model->config().context, ids.size());
  decoder.sampling = args.sampling;
  ONEPASS_ASSIGN(llm::Generator generator, llm::Generator::create(std::move(model), decoder));
  const double load_s = seconds(os::now_ns() - start);

  const llm::SamplingOptions& s = args.sampling;
  if (s.is_greedy()) {
    std::cerr << "sampling: the most likely token\n";
  } else {
    std::cerr << "sampling: temp " << s.temperature << ", top-k " << s.top_k << ", top-p "
              << s.top_p << ", min-p " << s.min_p << ", seed " << s.seed << '\n';
  }
  ProgressBar bar("prompt");
  bool told_prompt = args.json || args.prompt.empty() || !stdout_is_terminal();
  std::string text;
  bool first = true;
  const auto each = [&](const llm::Piece& piece) -> Status {
    bar.erase();
    // Seen on a terminal, but not part of the data.
    if (!std::exchange(told_prompt, true)) std::cerr << args.prompt << std::flush;
    if (args.json) {
      text += piece.text;
      return {};
    }
    if (has_text) return put(piece.text);
    return put((std::exchange(first, false) ? "" : " ") + std::to_string(*piece.token));
  };
  llm::GenerateOptions options;
  options.max_tokens = args.n;
  options.sampling = s;
  options.cancel = &interrupt_flag();
  options.prefill_progress = [&](std::size_t done, std::size_t total) { bar.show(done, total); };
  ONEPASS_ASSIGN(const llm::GenerateReport report, generator.run(ids, options, each));
  bar.erase();
  if (!args.json) ONEPASS_TRY(put("\n"));

  const Figures figures = measure(generator, report, load_s);
  if (args.json) ONEPASS_TRY(put(to_json(args, generator, report, figures, text)));
  if (report.stop == llm::StopReason::end_of_text && report.tokens.empty()) {
    std::cerr << "the model ended the text at once; one made for chats needs its template, see "
                 "--special\n";
  }
  if (report.stop == llm::StopReason::context_full) {
    std::cerr << "stopped: the context of " << generator.decoder().context()
              << " tokens is full (-c for more)\n";
  }
  print_line(report, figures);
  return report.stop == llm::StopReason::cancelled ? exit_interrupted : 0;
}

}  // namespace

void add_generate(CLI::App& app, Run& run) {
  const auto args = std::make_shared<GenerateArgs>();
  CLI::App* command =
      app.add_subcommand("generate", "continue a text; the model in the box by default");
  args->model.add_to(*command);
  CLI::Option* prompt =
      command->add_option("-p,--prompt", args->prompt, "text to continue, - for stdin");
  command->add_option("--tokens", args->tokens, "token ids to continue, as 1,2,3")
      ->excludes(prompt);
  command->add_flag("--special", args->special,
                    "read special tokens written in the prompt as such");
  command->add_option("-n,--predict", args->n, "most tokens to generate")->capture_default_str();
  llm::SamplingOptions& s = args->sampling;
  command->add_option("--temp", s.temperature, "0: the most likely token")->capture_default_str();
  command->add_option("--top-k", s.top_k, "keep the k most likely tokens, 0: all")
      ->capture_default_str();
  command->add_option("--top-p", s.top_p, "keep the most likely tokens up to this probability")
      ->capture_default_str();
  command->add_option("--min-p", s.min_p, "drop tokens below this share of the most likely one")
      ->capture_default_str();
  command->add_option("--seed", args->seed, "equal seeds give equal texts; or 'random'")
      ->capture_default_str();
  command
      ->add_option("-c,--context", args->context, "tokens, 0: what is needed, at most as trained")
      ->capture_default_str();
  command->add_flag("--json", args->json, "text, tokens and times as one JSON object");
  command->footer(
      "Text goes to stdout, everything else to stderr.\nExamples:\n"
      "  onepass generate\n"
      "  onepass generate -p \"Tom had a red ball.\" -n 100 --seed 7\n"
      "  echo \"Once upon a time\" | onepass generate -m model.gguf -p - --temp 0");
  command->callback([&run, args] {
    run = [args] {
      const Result<int> code = run_generate(*args);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace onepass::tool
