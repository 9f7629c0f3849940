#include "run/generate.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "common.h"
#include "common/json_writer.h"
#include "common/order_text.h"
#include "common/probabilities.h"
#include "common/terminal.h"
#include "core/os.h"
#include "machine/bandwidth.h"
#include "options/chat_args.h"
#include "options/prompt_args.h"
#include "options/sampling_args.h"
#include "run/chat_session.h"

namespace onepass::tool {
namespace {

struct GenerateArgs {
  ModelArgs model;
  PromptArgs prompt;
  std::string tokens;
  std::vector<std::string> stop;
  std::uint32_t n = 256;
  std::uint32_t context = 0;
  SamplingArgs sampling;
  ChatArgs chat;
  bool is_chat = false;
  bool special = false;
  bool json = false;
  bool jsonl = false;
  bool logprobs = false;
  std::uint32_t n_top = 0;  // of other tokens that might have come, with logprobs

  bool as_text() const { return !json && !jsonl; }
};

// What the model thought of a token that was chosen.
struct TokenLog {
  double logprob = 0.0;
  std::vector<TokenLogprob> top;
};

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }
double rate(double n, std::uint64_t ns) { return ns == 0 ? 0.0 : n / seconds(ns); }

// What the last line and the JSON say.
struct Figures {
  double load_s = 0.0, first_token_s = 0.0, prompt_rate = 0.0, decode_rate = 0.0;
  double used_bandwidth = 0.0;  // bytes per second
  MemoryShare share;
  std::uint64_t peak_bytes = 0;
  PlanReport plan;  // of the pass that each token takes
};

Figures measure(const llm::Generator& g, const llm::GenerateReport& r, double load_s) {
  Figures f;
  f.load_s = load_s;
  f.first_token_s = seconds(r.first_token_ns);
  f.prompt_rate = rate(r.prompt_tokens, r.prefill_ns);
  f.decode_rate = rate(r.decoded, r.decode_ns);
  f.peak_bytes = os::peak_memory_bytes();
  f.plan = g.decoder().decode_plan().report();
  const llm::Model& model = *g.model().model;
  f.used_bandwidth = f.decode_rate * static_cast<double>(model.token_bytes());
  const DeviceInfo& device = model.device().info();
  if (device.name == "cpu" && r.decoded > 0 && !interrupted()) {
    f.share = share_of_memory(f.used_bandwidth, device.compute_units);
  }
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
  if (f.share.roof > 0.0) {
    add(", weights read at %.1f GB/s (%s)", f.used_bandwidth / 1e9, to_string(f.share).c_str());
  }
  if (f.plan.dispatches > 0) {
    add(", %u dispatches and %s per token", f.plan.dispatches, issued_text(f.plan).c_str());
  }
  notes() << line << '\n';
}

void put_top(JsonWriter& json, const TokenLog& log) {
  json.begin_array();
  for (const auto& [id, logprob] : log.top) {
    json.begin_array().value(id).value(logprob).end_array();
  }
  json.end_array();
}

void put_sampling(JsonWriter& json, const SamplingArgs& sampling) {
  const llm::SamplingOptions& s = sampling.options;
  json.begin_object();
  json.key("temp").value(s.temperature).key("top_k").value(s.top_k);
  json.key("top_p").value(s.top_p).key("min_p").value(s.min_p).key("seed").value(s.seed);
  json.key("chain").begin_array();
  for (const SamplingStep& step : sampling.chain()) json.value(step.name);
  json.end_array().end_object();
}

// The first line of --jsonl.
std::string start_line(const GenerateArgs& args, const llm::Generator& g, std::size_t prompt) {
  JsonWriter json;
  json.begin_object().key("event").value("start");
  json.key("model").value(g.model().model->config().name);
  json.key("device").value(g.model().model->device().info().name);
  json.key("prompt_tokens").value(prompt).key("context").value(g.decoder().context());
  json.key("sampling");
  put_sampling(json, args.sampling);
  return json.end_object().text() + "\n";
}

// One line for each piece; the last piece of a text may have no token.
std::string token_line(const llm::Piece& piece, std::size_t index, double time_s, bool has_text,
                       const std::optional<TokenLog>& log) {
  JsonWriter json;
  json.begin_object().key("event").value("token").key("index").value(index).key("token");
  piece.token ? json.value(*piece.token) : json.null();
  json.key("text");
  has_text ? json.value(piece.text) : json.null();
  json.key("time_s").value(time_s);
  if (log) {
    json.key("logprob").value(log->logprob).key("top_logprobs");
    put_top(json, *log);
  }
  return json.end_object().text() + "\n";
}

std::string to_json(const GenerateArgs& args, const llm::Generator& g, const llm::GenerateReport& r,
                    const Figures& f, const std::string& text, const std::vector<TokenLog>& logs) {
  JsonWriter json;
  json.begin_object();
  if (args.jsonl) json.key("event").value("end");
  json.key("model").value(g.model().model->config().name);
  json.key("device").value(g.model().model->device().info().name);
  json.key("prompt").value(args.prompt.text);
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
  if (args.logprobs) {
    json.key("logprobs").begin_array();
    for (const TokenLog& log : logs) json.value(log.logprob);
    json.end_array().key("top_logprobs").begin_array();
    for (const TokenLog& log : logs) put_top(json, log);
    json.end_array();
  }
  json.key("sampling");
  put_sampling(json, args.sampling);
  json.key("timings").begin_object();
  json.key("load_s").value(f.load_s).key("first_token_s").value(f.first_token_s);
  json.key("prompt_s").value(seconds(r.prefill_ns)).key("decode_s").value(seconds(r.decode_ns));
  json.key("prompt_tokens_per_s").value(f.prompt_rate);
  json.key("decode_tokens_per_s").value(f.decode_rate);
  json.end_object();
  json.key("peak_memory_bytes").value(f.peak_bytes);
  json.key("bandwidth").begin_object();
  json.key("used_bytes_per_s").value(f.used_bandwidth);
  json.key("measured_bytes_per_s").value(f.share.roof);
  json.key("in_cache").value(f.share.in_cache);
  json.end_object();
  json.key("dispatches_per_token").value(f.plan.dispatches);
  json.key("barriers_per_token").value(f.plan.barriers);
  json.key("levels_per_token").value(f.plan.levels);
  json.key("edges_per_token").value(f.plan.edges_issued);
  json.key("order").value(order_name(f.plan.order));
  json.end_object();
  return json.text() + "\n";
}

// The prompt as a user's message.
Result<std::string> render_chat(const GenerateArgs& args, const llm::ChatTemplate& chat,
                                const llm::Tokenizer& tokenizer) {
  llm::ChatInput input;
  llm::set_special_tokens(input, tokenizer);
  args.chat.apply_to(input);
  input.messages.push_back({"user", args.prompt.text});
  return chat.render(input);
}

// Nothing unless the prompt is a message. Read before the weights: what is wrong shows at once.
Result<std::optional<llm::ChatTemplate>> open_chat(const GenerateArgs& args) {
  if (!args.is_chat) return std::optional<llm::ChatTemplate>();
  if (args.prompt.text.empty()) refuse("--chat", "needs a message, give it with -p");
  llm::ChatInput ignored;
  args.chat.apply_to(ignored);
  ONEPASS_ASSIGN(const std::string path, args.model.path());
  ONEPASS_ASSIGN(llm::ChatTemplate chat, args.chat.open_template(path));
  return std::optional(std::move(chat));
}

Result<int> show_prompt(const GenerateArgs& args, const llm::ChatTemplate& chat) {
  ONEPASS_ASSIGN(const llm::Tokenizer tokenizer, args.model.open_tokenizer());
  ONEPASS_ASSIGN(const std::string rendered, render_chat(args, chat, tokenizer));
  ONEPASS_TRY(put(rendered));
  return 0;
}

std::uint64_t needed_for(const GenerateArgs& args, std::size_t prompt) {
  constexpr std::uint64_t step = 256;
  return (std::uint64_t{prompt} + args.n + step - 1) / step * step;
}

// As trained, but no more than this run needs.
std::uint32_t context_for(const GenerateArgs& args, std::uint32_t trained, std::size_t prompt) {
  if (args.context != 0) {
    warn_of_context(trained, args.context);
    return args.context;
  }
  return static_cast<std::uint32_t>(std::min(std::uint64_t{trained}, needed_for(args, prompt)));
}

// Before there is a tokenizer: about a token for four letters, and for each byte of other signs.
CacheArgs planned_cache(const GenerateArgs& args, std::size_t ids) {
  if (args.context != 0) return {.context = args.context, .option = "-c"};
  const auto is_other = [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; };
  const auto others = static_cast<std::size_t>(
      std::count_if(args.prompt.text.begin(), args.prompt.text.end(), is_other));
  const std::size_t prompt = ids != 0 ? ids : (args.prompt.text.size() - others) / 4 + others + 1;
  return {.context = needed_for(args, prompt), .up_to_trained = true, .option = "-c"};
}

// Of the token that was chosen last.
Result<TokenLog> log_of(const llm::Decoder& decoder, std::uint32_t token, std::size_t n_top) {
  ONEPASS_ASSIGN(const std::vector<float> logits, decoder.logits());
  return TokenLog{static_cast<double>(logits[token]) - log_sum_exp(logits),
                  top_logprobs(logits, n_top)};
}

// Prints the text, or collects and prints what the JSON has of it, piece by piece.
class Printer {
 public:
  Printer(const GenerateArgs& args, const llm::Decoder& decoder, bool has_text)
      : args_(args),
        decoder_(decoder),
        has_text_(has_text),
        told_prompt_(!args.as_text() || args.is_chat || args.prompt.text.empty() ||
                     !stdout_is_terminal()) {}

  Status put_piece(const llm::Piece& piece) {
    // Seen on a terminal, but not part of the data.
    if (!std::exchange(told_prompt_, true)) notes() << args_.prompt.text << std::flush;
    if (args_.as_text()) {
      if (has_text_) return put(piece.text);
      return put((index_++ == 0 ? "" : " ") + std::to_string(*piece.token));
    }
    text += piece.text;
    std::optional<TokenLog> log;
    if (args_.logprobs && piece.token) {
      ONEPASS_ASSIGN(log, log_of(decoder_, *piece.token, args_.n_top));
      logs.push_back(*log);
    }
    if (!args_.jsonl) return {};
    return put(token_line(piece, index_++, seconds(os::now_ns() - start_), has_text_, log));
  }

  std::string text;            // as JSON
  std::vector<TokenLog> logs;  // likewise

 private:
  const GenerateArgs& args_;
  const llm::Decoder& decoder_;
  const bool has_text_;
  bool told_prompt_;
  std::size_t index_ = 0;
  const std::uint64_t start_ = os::now_ns();
};

// The prompt as ids: those given, a message in the model's template, or a text.
Result<std::vector<std::uint32_t>> prompt_ids(const GenerateArgs& args,
                                              const std::optional<llm::ChatTemplate>& chat,
                                              const llm::TextModel& model,
                                              std::vector<std::uint32_t> given) {
  if (!given.empty()) return given;
  ONEPASS_TRY(model.tokenizer);
  if (chat) {
    ONEPASS_ASSIGN(const std::string rendered, render_chat(args, *chat, *model.tokenizer));
    ONEPASS_ASSIGN(given, llm::encode_chat(*model.tokenizer, rendered));
    if (given.empty()) refuse("--chat", "the template gives no text");
    return given;
  }
  ONEPASS_ASSIGN(given, llm::encode_prompt(*model.tokenizer, args.prompt.text,
                                           {.parse_special = args.special}));
  if (given.empty()) refuse("-p", "the prompt is empty and the model has no begin token");
  return given;
}

// Reads the prompt; the ids of --tokens.
Result<std::vector<std::uint32_t>> take_input(GenerateArgs& args) {
  args.sampling.check();
  check_stop_texts(args.stop);
  args.model.banner_end = args.sampling.short_text();
  ONEPASS_TRY(args.prompt.take(args.model.model, !args.tokens.empty()));
  if (args.tokens.empty()) return std::vector<std::uint32_t>{};
  if (!args.prompt.text.empty()) refuse("--tokens", "there is a prompt as well");
  auto parsed = parse_ids(args.tokens);
  if (!parsed) refuse("--tokens", parsed.error());
  if (parsed->empty()) refuse("--tokens", "there is no id");
  return parsed;
}

void tell_stop(const llm::Generator& generator, const llm::GenerateReport& report) {
  if (report.stop == llm::StopReason::end_of_text && report.tokens.empty()) {
    notes() << "the model ended the text at once; one made for chats needs its template, see "
               "--chat\n";
  }
  if (report.stop == llm::StopReason::context_full) {
    std::cerr << "stopped: the context of " << generator.decoder().context()
              << " tokens is full (-c for more)\n";
  }
}

Result<int> run_generate(GenerateArgs& args) {
  ONEPASS_ASSIGN(std::vector<std::uint32_t> ids, take_input(args));
  ONEPASS_ASSIGN(const std::optional<llm::ChatTemplate> chat, open_chat(args));
  if (args.chat.show_prompt) return show_prompt(args, *chat);

  const std::uint64_t start = os::now_ns();
  ONEPASS_ASSIGN(llm::TextModel model, args.model.open(true, planned_cache(args, ids.size())));
  const bool has_text = model.tokenizer.has_value();
  ONEPASS_ASSIGN(ids, prompt_ids(args, chat, model, std::move(ids)));
  llm::DecoderOptions decoder;
  decoder.context = context_for(args, model.model->config().context, ids.size());
  decoder.sampling = args.sampling.options;
  ONEPASS_ASSIGN(llm::Generator generator, llm::Generator::create(std::move(model), decoder));
  const double load_s = seconds(os::now_ns() - start);

  args.sampling.tell();
  ProgressBar bar("prompt");
  llm::GenerateOptions options;
  options.max_tokens = args.n;
  options.sampling = args.sampling.options;
  options.stop_texts = args.stop;
  if (args.logprobs || args.jsonl) options.ahead = 1;
  options.cancel = &interrupt_flag();
  options.prefill_progress = [&](std::size_t done, std::size_t total) { bar.show(done, total); };
  if (args.jsonl) ONEPASS_TRY(put(start_line(args, generator, ids.size())));
  if (args.logprobs && args.as_text()) {
    notes() << "note: --logprobs shows with --json or --jsonl only\n";
  }
  Printer printer(args, generator.decoder(), has_text);
  ONEPASS_ASSIGN(const llm::GenerateReport report,
                 generator.run(ids, options, [&](const llm::Piece& piece) {
                   bar.erase();
                   return printer.put_piece(piece);
                 }));
  bar.erase();
  if (args.as_text()) ONEPASS_TRY(put("\n"));

  // Figures that are not printed are not measured.
  const bool tells = !quiet() || !args.as_text();
  const Figures figures = tells ? measure(generator, report, load_s) : Figures{};
  if (!args.as_text()) {
    ONEPASS_TRY(put(to_json(args, generator, report, figures, printer.text, printer.logs)));
  }
  tell_stop(generator, report);
  print_line(report, figures);
  return report.stop == llm::StopReason::cancelled ? exit_interrupted : 0;
}

}  // namespace

void add_generate(CLI::App& app, Run& run) {
  const auto args = std::make_shared<GenerateArgs>();
  CLI::App* command =
      app.add_subcommand("generate", "continue a text; the model in the box by default");
  args->model.add_to(*command);
  args->prompt.add_to(*command);
  command->add_option("--tokens", args->tokens, "token ids to continue, as 1,2,3")
      ->excludes("--prompt")
      ->excludes("--file");
  command->add_flag("--special", args->special,
                    "read special tokens written in the prompt as such");
  CLI::Option* chat = command->add_flag("--chat", args->is_chat,
                                        "the prompt is a message, written as the model's "
                                        "chat template wants it");
  chat->excludes("--tokens")->excludes("--special");
  args->chat.add_to(*command, "print the prompt with its template and stop", chat);
  command->add_option("-n,--predict", args->n, "most tokens to generate")->capture_default_str();
  add_stop_to(*command, args->stop);
  args->sampling.add_to(*command);
  add_context_to(*command, args->context, "tokens; auto or 0: what is needed, at most as trained");
  CLI::Option* json =
      command->add_flag("--json", args->json, "text, tokens and times as one JSON object");
  CLI::Option* jsonl = command->add_flag(
      "--jsonl", args->jsonl,
      "JSON lines: one at the start, one for each token as it comes, and as --json");
  jsonl->excludes(json);
  command->get_option("--show-prompt")->excludes(json)->excludes(jsonl);
  CLI::Option* logprobs =
      command
          ->add_option("--logprobs", args->n_top,
                       "in JSON the log-probability of each token, by the model before sampling, "
                       "and of the N most likely ones")
          ->check(CLI::Range(0u, 1000u));
  command->footer(
      "Text goes to stdout, everything else to stderr.\nExamples:\n"
      "  onepass generate model.gguf \"Once upon a time\"\n"
      "  onepass generate -p \"Tom had a red ball.\" -n 100 --seed 7\n"
      "  onepass generate --chat -m model.gguf -p \"Why is the sky blue?\"\n"
      "  onepass generate model.gguf -f prompt.txt --stop \"The end\"\n"
      "  echo \"Once upon a time\" | onepass generate -m model.gguf --temp 0\n"
      "  onepass generate -q -n 20 --jsonl --logprobs 3");
  command->callback([&run, args, logprobs] {
    args->logprobs = logprobs->count() > 0;
    run = [args] {
      const Result<int> code = run_generate(*args);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace onepass::tool
