#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "common.h"
#include "common/base_logits.h"
#include "common/json_writer.h"
#include "common/probabilities.h"
#include "common/terminal.h"
#include "common/text_windows.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

struct PerplexityArgs {
  ModelArgs model;
  std::string file;
  std::string save, kl;  // files of log-probabilities
  std::uint32_t context = 512;
  std::uint32_t chunks = 0;
  std::string kv = "f16";
  bool bos = false;
  bool json = false;
};

struct Estimate {
  std::uint64_t count = 0;
  double sum = 0.0, squares = 0.0;

  void add(double x) {
    ++count;
    sum += x;
    squares += x * x;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double error_of_mean() const {
    if (count < 2) return 0.0;
    const auto n = static_cast<double>(count);
    const double variance = squares / n - mean() * mean();
    return variance > 0.0 ? std::sqrt(variance / (n - 1.0)) : 0.0;
  }
  // Of surprises: minus the logarithms of the probabilities of tokens.
  double perplexity() const { return std::exp(mean()); }
  double standard_error() const { return error_of_mean() * perplexity(); }
};

// This model against the reference, position by position.
class Divergence {
 public:
  void add(std::span<const float> base, std::span<const float> logits, std::uint32_t token) {
    const double all = log_sum_exp(logits);
    double kl = 0.0;
    std::size_t top = 0, base_top = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > logits[top]) top = i;
      if (base[i] > base[base_top]) base_top = i;
      if (base[i] <= least) continue;
      const auto log_base = static_cast<double>(base[i]);
      kl += std::exp(log_base) * (log_base - (static_cast<double>(logits[i]) - all));
    }
    const auto log_base = static_cast<double>(base[token]);
    each_.push_back(kl);
    kl_.add(kl);
    base_.add(-log_base);
    change_.add(std::exp(static_cast<double>(logits[token]) - all) - std::exp(log_base));
    same_top_ += top == base_top ? 1 : 0;
  }
  void finish() { std::sort(each_.begin(), each_.end()); }

  const Estimate& base() const { return base_; }
  const Estimate& kl() const { return kl_; }
  double same_top() const {
    return static_cast<double>(same_top_) / static_cast<double>(each_.size());
  }
  double mean_change() const { return change_.mean(); }
  double rms_change() const {
    return std::sqrt(change_.squares / static_cast<double>(change_.count));
  }
  double quantile(double share) const {
    const double at = share * static_cast<double>(each_.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, each_.size() - 1);
    return each_[low] + (at - static_cast<double>(low)) * (each_[high] - each_[low]);
  }

 private:
  static constexpr float least = -16.0f;  // what is stored as less has no value of its own
  std::vector<double> each_;
  Estimate base_, kl_, change_;
  std::uint64_t same_top_ = 0;
};

struct Outcome {
  PerplexityArgs& args;
  std::size_t windows = 0;
  Estimate surprise;
  std::optional<Divergence> divergence = std::nullopt;
};

std::string to_json(const Outcome& o) {
  JsonWriter json;
  json.begin_object().key("perplexity").value(o.surprise.perplexity());
  json.key("standard_error").value(o.surprise.standard_error());
  json.key("context").value(o.args.context).key("windows").value(o.windows);
  json.key("scored_tokens").value(o.surprise.count);
  if (const auto& d = o.divergence) {
    json.key("base_perplexity").value(d->base().perplexity());
    json.key("perplexity_ratio").value(o.surprise.perplexity() / d->base().perplexity());
    json.key("kl_divergence").begin_object().key("mean").value(d->kl().mean());
    json.key("standard_error").value(d->kl().error_of_mean());
    json.key("median").value(d->quantile(0.5)).key("p90").value(d->quantile(0.9));
    json.key("p95").value(d->quantile(0.95)).key("p99").value(d->quantile(0.99));
    json.key("p999").value(d->quantile(0.999)).key("max").value(d->quantile(1.0)).end_object();
    json.key("same_top").value(d->same_top());
    json.key("probability_change").begin_object().key("mean").value(d->mean_change());
    json.key("rms").value(d->rms_change()).end_object();
  }
  return json.end_object().text() + "\n";
}

std::string to_text(const Outcome& o) {
  std::string text;
  char line[192];
  const auto add = [&](const char* format, auto... values) {
    std::snprintf(line, sizeof line, format, values...);
    text += line;
  };
  add("perplexity %.4f +/- %.5f\n", o.surprise.perplexity(), o.surprise.standard_error());
  if (const auto& d = o.divergence) {
    const double base = d->base().perplexity();
    add("reference  %.4f +/- %.5f, ratio %.5f\n", base, d->base().standard_error(),
        o.surprise.perplexity() / base);
    add("KL divergence %.6f +/- %.6f, median %.6f, 90 %% %.6f, 99 %% %.6f, largest %.6f\n",
        d->kl().mean(), d->kl().error_of_mean(), d->quantile(0.5), d->quantile(0.9),
        d->quantile(0.99), d->quantile(1.0));
    add("same most likely token %.3f %%, probability of the right one %+.4f %% (rms %.4f %%)\n",
        100.0 * d->same_top(), 100.0 * d->mean_change(), 100.0 * d->rms_change());
  }
  return text;
}

Status run_perplexity(PerplexityArgs& args) {
  if (args.file.empty() == args.kl.empty()) {
    refuse("--file", "is required: the text, or with --kl the file of a reference");
  }
  std::optional<BaseLogits> base;
  std::string text;
  if (!args.kl.empty()) {
    ONEPASS_ASSIGN(base, BaseLogits::open(args.kl));
    args.context = base->shape().context;
  } else {
    ONEPASS_ASSIGN(text, read_input(args.file));
  }
  llm::DecoderOptions options;
  options.context = args.context;
  options.kv = args.kv == "f32" ? DType::f32 : DType::f16;
  ONEPASS_ASSIGN(
      const llm::TextModel opened,
      args.model.open(true, {.context = args.context, .kv = options.kv, .option = "-c"}));
  ONEPASS_TRY(opened.tokenizer);
  ONEPASS_ASSIGN(const std::optional<std::uint32_t> begin,
                 begin_token(*opened.tokenizer, args.bos, "perplexity"));
  const std::uint32_t vocab = opened.model->config().vocab;
  if (base && base->shape().vocab != vocab) {
    return fail(ErrorCode::invalid_argument, "perplexity: " + args.kl + " is of a model with " +
                                                 std::to_string(base->shape().vocab) +
                                                 " tokens, this one has " + std::to_string(vocab));
  }
  std::vector<std::uint32_t> tokens;
  if (base) {
    tokens = base->tokens();
  } else {
    ONEPASS_ASSIGN(tokens, read_windows(text, args.context, *opened.tokenizer, "perplexity"));
  }
  const std::size_t window = args.context, half = window / 2;
  Outcome outcome{args, tokens.size() / window, {}};
  if (args.chunks != 0) outcome.windows = std::min(outcome.windows, std::size_t{args.chunks});
  tokens.resize(outcome.windows * window);
  if (base) outcome.divergence.emplace();
  std::optional<BaseLogitsWriter> writer;
  if (!args.save.empty()) {
    ONEPASS_ASSIGN(
        writer,
        BaseLogitsWriter::create(
            args.save, {args.context, vocab, static_cast<std::uint32_t>(outcome.windows)}, tokens));
  }
  ONEPASS_ASSIGN(llm::Decoder decoder, llm::Decoder::create(opened.model, options));
  std::vector<float> base_row(base ? vocab : 0);
  ProgressBar bar("perplexity");
  for (std::size_t i = 0; i < outcome.windows; ++i) {
    bar.show(i, outcome.windows);
    ONEPASS_TRY(decoder.truncate(0));
    const std::span<std::uint32_t> part = std::span(tokens).subspan(i * window, window);
    if (begin) part[0] = *begin;
    const auto each = [&](std::size_t k, std::span<const float> logits) -> Status {
      const std::uint32_t token = part[half + k + 1];
      outcome.surprise.add(log_sum_exp(logits) - static_cast<double>(logits[token]));
      if (writer) ONEPASS_TRY(writer->add(logits));
      if (!base) return {};
      ONEPASS_TRY(
          base->read(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(k), base_row));
      outcome.divergence->add(base_row, logits, token);
      return {};
    };
    // The last token has nothing after it that could be scored.
    ONEPASS_TRY(decoder.append(part.first(half), &interrupt_flag()));
    ONEPASS_TRY(decoder.score(part.subspan(half, window - half - 1), each, &interrupt_flag()));
  }
  bar.erase();
  if (!std::isfinite(outcome.surprise.sum)) {
    return fail(ErrorCode::internal, "perplexity: the model gave logits that are not numbers");
  }
  if (writer) {
    ONEPASS_TRY(writer->commit());
    notes() << "wrote " << args.save << '\n';
  }
  if (outcome.divergence) outcome.divergence->finish();
  return put(args.json ? to_json(outcome) : to_text(outcome));
}

}  // namespace

void add_perplexity(CLI::App& app, Run& run) {
  const auto args = std::make_shared<PerplexityArgs>();
  CLI::App* command = app.add_subcommand(
      "perplexity", "how well a model predicts a text: windows, the second half of each scored");
  args->model.add_to(*command);
  CLI::Option* file =
      command->add_option("-f,--file", args->file, "the text; - for stdin")->type_name(file_value);
  CLI::Option* save =
      command
          ->add_option("--save-logits", args->save,
                       "write the log-probabilities of every scored token to this file")
          ->type_name(file_value);
  CLI::Option* kl = command
                        ->add_option("--kl", args->kl,
                                     "compare with the file of a reference: KL divergence, changes "
                                     "of probabilities. The text and "
                                     "the windows are those of the file")
                        ->type_name(file_value);
  kl->excludes(file)->excludes(save);
  command->add_option("-c,--context", args->context, "tokens of a window; with --kl as in its file")
      ->check(CLI::Range(4u, llm::max_context))
      ->capture_default_str()
      ->excludes(kl);
  command->add_option("--chunks", args->chunks, "at most so many windows, 0: all")
      ->capture_default_str();
  command->add_option("--kv", args->kv, "cache: f16 or f32")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  command->add_flag("--bos", args->bos,
                    "start every window with the token that begins a text, also where the model "
                    "does not ask for it");
  command->add_flag("--json", args->json, "as JSON");
  command->footer(
      "Files of log-probabilities are those of llama-perplexity --kl-divergence-base, either way.\n"
      "Examples:\n  onepass perplexity -f text.txt -c 256\n"
      "  onepass perplexity -m model-f16.gguf -f text.txt -c 64 --chunks 4 --save-logits base.kld\n"
      "  onepass perplexity -m model.gguf --kl base.kld");
  command->callback([&run, args] { run = [args] { return exit_code(run_perplexity(*args)); }; });
}

}  // namespace onepass::tool
