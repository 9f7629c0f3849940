#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include "common.h"
#include "io/safetensors_file.h"
#include "json_writer.h"
#include "llm/decoder.h"
#include "terminal.h"

namespace onepass::tool {
namespace {

struct PerplexityArgs {
  ModelArgs model;
  std::string file;
  std::uint32_t context = 512;
  std::uint32_t chunks = 0;
  std::string kv = "f16";
  bool json = false;
};

// Minus the logarithm of the probability that softmax gives a token.
double surprise(std::span<const float> logits, std::uint32_t token) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float x : logits) largest = std::max(largest, static_cast<double>(x));
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[token]);
}

struct Estimate {
  std::uint64_t count = 0;
  double sum = 0.0, squares = 0.0;

  void add(double x) {
    ++count;
    sum += x;
    squares += x * x;
  }
  double perplexity() const { return std::exp(sum / static_cast<double>(count)); }
  double standard_error() const {
    if (count < 2) return 0.0;
    const auto n = static_cast<double>(count);
    const double mean = sum / n, variance = squares / n - mean * mean;
    return variance > 0.0 ? std::sqrt(variance / (n - 1.0)) * perplexity() : 0.0;
  }
};

// Each window starts with the begin token where texts of this vocabulary do.
std::optional<std::uint32_t> begin_token(const llm::Tokenizer& tokenizer) {
  const auto bos = tokenizer.special_ids().bos;
  const auto empty = tokenizer.encode("");
  return bos && empty && !empty->empty() && empty->front() == *bos ? bos : std::nullopt;
}

Status run_perplexity(PerplexityArgs& args) {
  std::string text;
  if (args.file == "-") {
    ONEPASS_ASSIGN(text, read_stdin());
  } else {
    ONEPASS_ASSIGN(text, io::read_text(args.file, max_input_bytes));
  }
  llm::DecoderOptions options;
  options.context = args.context;
  options.kv = args.kv == "f32" ? DType::f32 : DType::f16;
  ONEPASS_ASSIGN(
      const llm::TextModel opened,
      args.model.open(true, {.context = args.context, .kv = options.kv, .option = "-c"}));
  ONEPASS_TRY(opened.tokenizer);
  const llm::Tokenizer& tokenizer = *opened.tokenizer;
  llm::EncodeOptions encode;
  encode.max_bytes = max_input_bytes;
  encode.max_tokens = max_input_bytes;
  ONEPASS_ASSIGN(std::vector<std::uint32_t> tokens, tokenizer.encode(text, encode));
  const std::size_t window = args.context;
  if (tokens.size() < 2 * window) {
    return fail(ErrorCode::invalid_argument,
                "perplexity: the text has " + std::to_string(tokens.size()) +
                    " tokens, two windows of " + std::to_string(window) + " are needed");
  }
  std::size_t chunks = tokens.size() / window;
  if (args.chunks != 0) chunks = std::min(chunks, std::size_t{args.chunks});
  ONEPASS_ASSIGN(llm::Decoder decoder, llm::Decoder::create(opened.model, options));
  const auto begin = begin_token(tokenizer);
  const std::size_t half = window / 2;
  Estimate e;
  ProgressBar bar("perplexity");
  for (std::size_t i = 0; i < chunks; ++i) {
    bar.show(i, chunks);
    ONEPASS_TRY(decoder.truncate(0));
    const std::span<std::uint32_t> part = std::span(tokens).subspan(i * window, window);
    if (begin) part[0] = *begin;
    // The last token has nothing after it that could be scored.
    ONEPASS_TRY(decoder.append(part.first(half), &interrupt_flag()));
    ONEPASS_TRY(decoder.score(
        part.subspan(half, window - half - 1),
        [&](std::size_t k, std::span<const float> logits) -> Status {
          e.add(surprise(logits, part[half + k + 1]));
          return {};
        },
        &interrupt_flag()));
  }
  bar.erase();
  if (!std::isfinite(e.sum)) {
    return fail(ErrorCode::internal, "perplexity: the model gave logits that are not numbers");
  }
  if (args.json) {
    JsonWriter json;
    json.begin_object().key("perplexity").value(e.perplexity());
    json.key("standard_error").value(e.standard_error()).key("context").value(args.context);
    json.key("windows").value(chunks).key("scored_tokens").value(e.count).end_object();
    return put(json.text() + "\n");
  }
  char line[128];
  std::snprintf(line, sizeof line, "perplexity %.4f +/- %.5f\n", e.perplexity(),
                e.standard_error());
  return put(line);
}

}  // namespace

void add_perplexity(CLI::App& app, Run& run) {
  const auto args = std::make_shared<PerplexityArgs>();
  CLI::App* command = app.add_subcommand(
      "perplexity", "how well a model predicts a text: windows, the second half of each scored");
  args->model.add_to(*command);
  command->add_option("-f,--file", args->file, "the text; - for stdin")->required();
  command->add_option("-c,--context", args->context, "tokens of a window")
      ->check(CLI::Range(4u, llm::max_context))
      ->capture_default_str();
  command->add_option("--chunks", args->chunks, "at most so many windows, 0: all")
      ->capture_default_str();
  command->add_option("--kv", args->kv, "cache: f16 or f32")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  command->add_flag("--json", args->json, "as JSON");
  command->footer("Example:\n  onepass perplexity -f text.txt -c 256");
  command->callback([&run, args] { run = [args] { return exit_code(run_perplexity(*args)); }; });
}

}  // namespace onepass::tool
