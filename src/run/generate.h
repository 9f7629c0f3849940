// Text in, text out, piece by piece.
//
//   ONEPASS_ASSIGN(TextModel model, open_text_model(device, "model.gguf"));
//   ONEPASS_ASSIGN(Generator g, Generator::create(model));
//   ONEPASS_ASSIGN(GenerateReport r, g.run("Once upon a time", {.max_tokens = 100},
//                                          [](const Piece& p) { return write(p.text); }));
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text_model.h"
#include "run/decoder.h"

namespace onepass::llm {

struct GenerateOptions {
  std::uint32_t max_tokens = 256;
  SamplingOptions sampling{};
  // Most tokens that are queued on the device at a time; it begins with one and doubles while that
  // takes no more than 40 ms. 0: eight where the device has memory of its own, else one. With more
  // than one, tokens come in bursts and the logits are not those of the token `each` is told of.
  std::uint32_t ahead = 0;
  // The text ends before the first of these, of which none may be empty. What may be the beginning
  // of one comes late, with the token that decides it.
  std::vector<std::string> stop_texts{};
  const std::atomic<bool>* cancel = nullptr;  // looked at between tokens and chunks
  std::function<void(std::size_t done, std::size_t total)> prefill_progress = nullptr;
};

// Valid UTF-8 that ends between code points; empty where the token completes none or there is no
// tokenizer. The last piece of a text may have no token.
struct Piece {
  std::string_view text;
  std::optional<std::uint32_t> token;
};

enum class StopReason : std::uint8_t {
  end_of_text,
  max_tokens,
  context_full,
  cancelled,
  stop_text
};
const char* name(StopReason reason) noexcept;

struct GenerateReport {
  StopReason stop = StopReason::max_tokens;
  std::uint32_t prompt_tokens = 0;
  // Generated; without the one that ended the text, with those of a stop text.
  std::vector<std::uint32_t> tokens;
  std::uint64_t prefill_ns = 0;
  std::uint64_t first_token_ns = 0;  // from the call to the first token; 0: there was none
  std::uint64_t decode_ns = 0;       // of the tokens after the first
  std::uint32_t decoded = 0;         // how many those are, with the one that ended the text
};

struct PromptOptions {
  bool at_start = true;        // of a text
  bool parse_special = false;  // read control tokens written in the prompt as such
};
// The ids of a prompt: with a begin token at the start of a text where the vocabulary asks for one
// and the prompt has none, never with the end token that some vocabularies put behind a text.
Result<std::vector<std::uint32_t>> encode_prompt(const Tokenizer& tokenizer,
                                                 std::string_view prompt,
                                                 const PromptOptions& options = {});

// Move-only; one thread at a time. Every run continues the text of the runs before.
class Generator {
 public:
  static Result<Generator> create(TextModel model, const DecoderOptions& options = {});

  // Called for every token; an error ends the run and is returned.
  using Each = std::function<Status(const Piece& piece)>;
  // A prompt that exceeds the context is an error; once there is a token, a full context ends the
  // text. A cancelled run keeps what it made. An error leaves the sequence at some token made.
  Result<GenerateReport> run(std::string_view prompt, const GenerateOptions& options,
                             const Each& each);
  Result<GenerateReport> run(std::span<const std::uint32_t> prompt, const GenerateOptions& options,
                             const Each& each);
  // Forgets all but the first n tokens, which must be in the cache; the next run needs a prompt.
  Status truncate(std::uint32_t n);
  const TextModel& model() const noexcept { return model_; }
  const Decoder& decoder() const noexcept { return decoder_; }

 private:
  Generator(TextModel model, Decoder decoder)
      : model_(std::move(model)), decoder_(std::move(decoder)) {}
  // Takes back the last n tokens of a queue: the cache ends with `last`, with its logits. Where
  // that fails, `last` is pending and what was behind it forgotten.
  Status take_back(std::uint32_t n, std::uint32_t last);

  TextModel model_;
  Decoder decoder_;
  std::optional<std::uint32_t> pending_;  // handed out, not in the cache yet
};

}  // namespace onepass::llm
