#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "common.h"
#include "common/json_writer.h"
#include "common/terminal.h"
#include "core/os.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

constexpr std::size_t n_top = 10;

struct LogitsArgs {
  ModelArgs model;
  std::string tokens;
  std::string out;
  std::string kv = "f16";
  bool all = false;
  bool json = false;
};

struct Summary {
  double mean = 0.0, rms = 0.0;
  std::vector<std::uint32_t> top;  // largest first, on ties the lower id
};

Summary summarize(std::span<const float> logits) {
  Summary s;
  for (const float x : logits) {
    s.mean += static_cast<double>(x);
    s.rms += static_cast<double>(x) * static_cast<double>(x);
  }
  s.mean /= static_cast<double>(logits.size());
  s.rms = std::sqrt(s.rms / static_cast<double>(logits.size()));
  s.top.resize(logits.size());
  std::iota(s.top.begin(), s.top.end(), 0u);
  const std::size_t n = std::min(n_top, s.top.size());
  // What is not a number comes last, so that this is an order.
  const auto key = [&](std::uint32_t id) {
    return std::isnan(logits[id]) ? -INFINITY : logits[id];
  };
  std::partial_sort(
      s.top.begin(), s.top.begin() + static_cast<std::ptrdiff_t>(n), s.top.end(),
      [&](std::uint32_t a, std::uint32_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  s.top.resize(n);
  return s;
}

Status print(const Summary& s, std::span<const float> logits, bool as_json) {
  if (as_json) {
    JsonWriter json;
    json.begin_object().key("n_vocab").value(logits.size());
    json.key("mean").value(s.mean).key("rms").value(s.rms).key("top").begin_array();
    for (const std::uint32_t id : s.top) {
      json.begin_array().value(id).value(logits[id]).end_array();
    }
    json.end_array().end_object();
    return put(json.text() + "\n");
  }
  char line[96];
  std::snprintf(line, sizeof line, "n_vocab %zu\nmean    %.6f\nrms     %.6f\n", logits.size(),
                s.mean, s.rms);
  std::string text = line;
  for (const std::uint32_t id : s.top) {
    std::snprintf(line, sizeof line, "%10u %12.6f\n", id, static_cast<double>(logits[id]));
    text += line;
  }
  return put(text);
}

Status run_logits(LogitsArgs& args) {
  const auto parsed = parse_ids(args.tokens);
  if (!parsed) refuse("--tokens", parsed.error());
  const std::vector<std::uint32_t>& tokens = *parsed;
  if (tokens.empty()) refuse("--tokens", "there are none, expected ids: 1,2,3");
  llm::DecoderOptions options;
  options.kv = args.kv == "f32" ? DType::f32 : DType::f16;
  const CacheArgs cache{.context = tokens.size(), .up_to_trained = true, .kv = options.kv};
  ONEPASS_ASSIGN(const llm::TextModel opened, args.model.open(false, cache));
  options.context = std::max(opened.model->config().context, 1u);
  if (tokens.size() <= options.context) options.context = static_cast<std::uint32_t>(tokens.size());
  ONEPASS_ASSIGN(llm::Decoder decoder, llm::Decoder::create(opened.model, options));
  os::AtomicFile file;
  if (!args.out.empty()) {
    ONEPASS_ASSIGN(file, os::AtomicFile::create(args.out));
  }
  const auto save = [&](std::span<const float> logits) -> Status {
    return args.out.empty() ? Status{} : file.write(std::as_bytes(logits));
  };
  std::vector<float> last;
  if (args.all) {
    ONEPASS_TRY(decoder.score(
        tokens,
        [&](std::size_t i, std::span<const float> logits) -> Status {
          if (i + 1 == tokens.size()) last.assign(logits.begin(), logits.end());
          return save(logits);
        },
        &interrupt_flag()));
  } else {
    ONEPASS_TRY(decoder.append(tokens, &interrupt_flag()));
    ONEPASS_ASSIGN(last, decoder.logits());
    ONEPASS_TRY(save(last));
  }
  if (!args.out.empty()) ONEPASS_TRY(file.commit());
  return print(summarize(last), last, args.json);
}

}  // namespace

void add_logits(CLI::App& app, Run& run) {
  const auto args = std::make_shared<LogitsArgs>();
  CLI::App* command = app.add_subcommand("logits", "the logits after the last of some tokens");
  args->model.add_to(*command);
  command->add_option("--tokens", args->tokens, "token ids: 1,2,3")->required();
  CLI::Option* out = command->add_option("--out", args->out, "write them to a file, as f32")
                         ->type_name(file_value);
  command->add_flag("--all", args->all, "to the file: those after every token")->needs(out);
  command->add_option("--kv", args->kv, "cache: f16 or f32")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  command->add_flag("--json", args->json, "n_vocab, mean, rms, top ten as JSON");
  command->footer(
      "Example:\n  onepass logits -m synthetic:tiny:q8_0 --tokens 1,2,3 --out logits.f32 --json");
  command->callback([&run, args] { run = [args] { return exit_code(run_logits(*args)); }; });
}

}  // namespace onepass::tool
