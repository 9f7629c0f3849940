#include "run/generate.h"

#include <algorithm>
#include <utility>

#include "core/guarded.h"
#include "core/os.h"
#include "run/stop_texts.h"

namespace onepass::llm {
namespace {

// Enough to hide what the host does between passes.
constexpr std::uint32_t default_ahead = 8;
// A queue of less than this is no pause for a reader; slower devices get shorter ones.
constexpr std::uint64_t max_queue_ns = 40'000'000;

Status check_stop_texts(const GenerateOptions& options, const TextModel& model) {
  for (const std::string& text : options.stop_texts) {
    if (text.empty()) return fail(ErrorCode::invalid_argument, "generate: a stop text is empty");
  }
  if (!options.stop_texts.empty() && !model.tokenizer) return model.tokenizer.error();
  return {};
}

}  // namespace

const char* name(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::end_of_text:
      return "end_of_text";
    case StopReason::max_tokens:
      return "max_tokens";
    case StopReason::context_full:
      return "context_full";
    case StopReason::cancelled:
      return "cancelled";
    case StopReason::stop_text:
      return "stop_text";
  }
  return "unknown";
}

Result<Generator> Generator::create(TextModel model, const DecoderOptions& options) {
  return guarded([&]() -> Result<Generator> {
    ONEPASS_ASSIGN(Decoder decoder, Decoder::create(model.model, options));
    return Generator(std::move(model), std::move(decoder));
  });
}

Result<std::vector<std::uint32_t>> encode_prompt(const Tokenizer& tokenizer,
                                                 std::string_view prompt,
                                                 const PromptOptions& options) {
  return guarded([&]() -> Result<std::vector<std::uint32_t>> {
    EncodeOptions encode;
    encode.add_special = false;
    encode.parse_special = options.parse_special;
    ONEPASS_ASSIGN(std::vector<std::uint32_t> ids, tokenizer.encode(prompt, encode));
    if (!options.at_start) return ids;
    ONEPASS_ASSIGN(std::vector<std::uint32_t> begin, tokenizer.encode("", {.add_special = true}));
    const SpecialIds& special = tokenizer.special_ids();
    const bool has_end = !begin.empty() && begin.back() == special.eos;
    if (has_end && (begin.size() > 1 || special.bos != special.eos)) begin.pop_back();
    const bool written = !ids.empty() && ids.front() == special.bos;
    if (!written) ids.insert(ids.begin(), begin.begin(), begin.end());
    return ids;
  });
}

Status Generator::take_back(std::uint32_t n, std::uint32_t last) {
  if (n == 0) return {};
  // `last` is computed again: its logits were overwritten by those of the tokens behind it.
  ONEPASS_TRY(decoder_.truncate(decoder_.length() - n - 1));
  Status again = decoder_.append({&last, 1});
  if (!again) pending_ = last;
  return again;
}

Status Generator::truncate(std::uint32_t n) {
  ONEPASS_TRY(decoder_.truncate(n));
  pending_.reset();
  return {};
}

Result<GenerateReport> Generator::run(std::string_view prompt, const GenerateOptions& options,
                                      const Each& each) {
  if (!model_.tokenizer) return model_.tokenizer.error();
  const bool at_start = decoder_.length() == 0 && !pending_;
  ONEPASS_ASSIGN(const std::vector<std::uint32_t> ids,
                 encode_prompt(*model_.tokenizer, prompt, {.at_start = at_start}));
  return run(ids, options, each);
}

Result<GenerateReport> Generator::run(std::span<const std::uint32_t> prompt,
                                      const GenerateOptions& options, const Each& each) {
  return guarded([&]() -> Result<GenerateReport> {
    const std::uint64_t start = os::now_ns();
    const auto cancelled = [&] {
      return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
    };
    GenerateReport report;
    std::vector<std::uint32_t> ids;
    ids.reserve(prompt.size() + 1);
    if (pending_) ids.push_back(*pending_);
    for (const std::uint32_t id : prompt) ids.push_back(id);
    if (ids.empty() && decoder_.length() == 0) {
      return fail(ErrorCode::invalid_argument, "generate: the prompt has no tokens");
    }
    ONEPASS_TRY(check_stop_texts(options, model_));
    StopTexts stop(options.stop_texts);
    report.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    const auto tell = [&](std::size_t done) {
      if (options.prefill_progress) options.prefill_progress(done, ids.size());
    };
    if (Status s = decoder_.append(ids, options.cancel, tell); !s) {
      if (s.error().code != ErrorCode::cancelled) return std::move(s).error();
      report.stop = StopReason::cancelled;
      return report;
    }
    pending_.reset();
    report.prefill_ns = os::now_ns() - start;

    std::optional<Detokenizer> text;
    if (model_.tokenizer) {
      // A text that is all the model's own begins where encode would have put its first space.
      const bool only_special = [&] {
        for (const std::uint32_t id : prompt) {
          if (!model_.tokenizer->is_control(id)) return false;
        }
        return decoder_.length() == prompt.size();
      }();
      text.emplace(*model_.tokenizer, DecodeOptions{.at_start = only_special});
    }
    bool ended = false;
    const auto tell_token = [&](std::uint32_t token) -> Status {
      report.tokens.push_back(token);
      std::string piece;
      if (text) {
        ONEPASS_ASSIGN(piece, text->next(token));
        piece = stop.next(piece);
      }
      return each ? each({piece, token}) : Status{};
    };
    const std::uint32_t most = options.ahead != 0                             ? options.ahead
                               : model_.model->device().info().unified_memory ? 1
                                                                              : default_ahead;
    std::uint64_t told_at = 0;
    std::uint32_t last = ids.empty() ? 0 : ids.back();  // looked at behind the first queue only
    std::vector<std::uint32_t> queue;
    std::uint32_t n = 1;
    while (!ended) {
      const auto wanted = options.max_tokens - static_cast<std::uint32_t>(report.tokens.size());
      if (wanted == 0) break;
      if (cancelled()) {
        report.stop = StopReason::cancelled;
        break;
      }
      queue.resize(std::min({n, wanted, std::max(decoder_.left(), 1u)}));
      if (Status s = decoder_.next(queue, options.sampling); !s) {
        if (s.error().code != ErrorCode::limit || report.tokens.empty()) return s.error();
        report.stop = StopReason::context_full;
        break;
      }
      const std::uint64_t now = os::now_ns();
      const std::uint64_t queue_ns = told_at == 0 ? 0 : now - told_at;
      if (told_at == 0) report.first_token_ns = now - start;
      if (told_at != 0) report.decoded += static_cast<std::uint32_t>(queue.size());
      report.decode_ns += queue_ns;
      told_at = now;
      if (2 * queue_ns <= max_queue_ns) n = std::min(2 * n, most);
      for (std::size_t i = 0; i < queue.size() && !ended; ++i) {
        const std::uint32_t before = std::exchange(last, queue[i]);
        pending_ = last;
        Status told;
        if (model_.tokenizer && model_.tokenizer->ends_reply(last)) {
          report.stop = StopReason::end_of_text;
          ended = true;
        } else {
          told = guarded([&] { return tell_token(last); });
          if (told && stop.found()) {
            report.stop = StopReason::stop_text;
            ended = true;
          }
        }
        const auto unused = static_cast<std::uint32_t>(queue.size() - 1 - i);
        if (told && !ended && unused > 0 && cancelled()) {
          report.stop = StopReason::cancelled;
          ended = true;
        }
        if (told && !ended) continue;
        const Status back = take_back(unused, before);
        ONEPASS_TRY(std::move(told));
        ONEPASS_TRY(back);
        // Their share of the time does not count either.
        report.decoded -= unused;
        report.decode_ns -= queue_ns * unused / queue.size();
      }
    }
    if (text && !stop.found()) {
      std::string rest = stop.next(text->finish());
      if (stop.found()) report.stop = StopReason::stop_text;
      rest += stop.finish();
      if (!rest.empty() && each) ONEPASS_TRY(each({rest, std::nullopt}));
    }
    return report;
  });
}

}  // namespace onepass::llm
