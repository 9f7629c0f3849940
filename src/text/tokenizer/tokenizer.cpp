#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <new>

#include "core/guarded.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/spec.h"
#include "text/tokenizer/specials.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm {

using namespace text;

struct Tokenizer::State {
  Spec spec;
  MergeModel model;
  TextTable by_text;
  std::vector<std::string> pieces;
  std::vector<std::uint32_t> reply_ends;             // sorted
  std::array<SpecialFinder, 2> raw_specials;         // [parse_special]
  std::array<SpecialFinder, 2> normalized_specials;  // [parse_special]

  Status build();
  Status check() const;
  void build_pieces();
  void find_reply_ends();
  bool is_hidden(std::uint32_t id) const noexcept {
    const TokenType type = spec.types[id];
    return type == TokenType::control || type == TokenType::unknown || type == TokenType::unused;
  }
};

namespace {

tl::unexpected<Error> field_error(ErrorCode code, std::string field, std::string message) {
  Error error = make_error(code, std::move(message));
  error.field = std::move(field);
  return tl::unexpected<Error>(std::move(error));
}

constexpr std::string_view reply_end_names[] = {
    "<|eot_id|>",      "<|im_end|>", "<|end|>",         "<end_of_turn>", "<turn|>",
    "<|endoftext|>",   "<|eom_id|>", "<EOT>",           "<|return|>",    "<|call|>",
    "<|end_of_text|>", "</s>",       "<|end_of_turn|>", "<|endofturn|>", "<|END_OF_TURN_TOKEN|>",
};

// One call of encode().
class Encoding {
 public:
  Encoding(const Tokenizer::State& state, const EncodeOptions& options, std::size_t text_bytes)
      : state_(state), options_(options), words_(state.model, text_bytes) {}

  Status run(std::string_view text) {
    const auto& spec = state_.spec;
    if (options_.add_special) append(spec.prefix);
    ONEPASS_TRY(fragments(state_.raw_specials[options_.parse_special], text, true,
                          [this](std::string_view part, bool at_start) {
                            return normalize_and_split(part, at_start);
                          }));
    if (options_.add_special) append(spec.suffix);
    return check_count();
  }
  std::vector<std::uint32_t> take() { return std::move(out_); }

 private:
  void append(const std::vector<std::uint32_t>& ids) {
    out_.insert(out_.end(), ids.begin(), ids.end());
  }

  // Special tokens go to the output, the text between them to each(part, at_start).
  template <class Each>
  Status fragments(const SpecialFinder& finder, std::string_view text, bool at_start, Each&& each) {
    std::size_t at = 0;
    if (!finder.empty()) {
      ONEPASS_ASSIGN(const auto hits, finder.find(text));
      for (const auto& hit : hits) {
        if (hit.begin > at) {
          ONEPASS_TRY(each(text.substr(at, hit.begin - at), at_start && at == 0));
        }
        out_.push_back(hit.id);
        at = hit.end;
      }
    }
    if (at < text.size()) ONEPASS_TRY(each(text.substr(at), at_start && at == 0));
    return {};
  }

  Status normalize_and_split(std::string_view text, bool at_start) {
    std::string normal;
    for (const Normalizer& step : state_.spec.normalizers) {
      ONEPASS_ASSIGN(std::string next, normalize(step, text, at_start));
      normal = std::move(next);
      text = normal;
    }
    return fragments(
        state_.normalized_specials[options_.parse_special], text, at_start,
        [this](std::string_view part, bool first) { return stage(0, part, first, false); });
  }

  Status stage(std::size_t index, std::string_view text, bool at_start, bool in_alphabet) {
    const auto& stages = state_.spec.stages;
    if (text.empty()) return {};
    if (index == stages.size()) return word(text, in_alphabet);
    const Stage& current = stages[index];
    if (const auto* rule = std::get_if<Split>(&current)) {
      Status status;
      const auto emit = [&](std::string_view piece) {
        status = stage(index + 1, piece, at_start && piece.data() == text.data(), in_alphabet);
        return status.has_value();
      };
      ONEPASS_TRY(split(*rule, text, emit));
      return status;
    }
    if (std::holds_alternative<ToByteAlphabet>(current)) {
      return stage(index + 1, to_alphabet(text), at_start, true);
    }
    const auto* prepend = std::get_if<Prepend>(&current);
    const Normalizer step =
        prepend != nullptr ? Normalizer(*prepend) : Normalizer(std::get<Replace>(current));
    ONEPASS_ASSIGN(const std::string changed, normalize(step, text, at_start));
    return stage(index + 1, changed, at_start, in_alphabet);
  }

  Status word(std::string_view text, bool in_alphabet) {
    if (in_alphabet) {
      // Splitting leaves code points whole, so this cannot fail.
      if (!from_alphabet(text, bytes_)) return fail(ErrorCode::internal, "word left its alphabet");
      text = bytes_;
    }
    ONEPASS_TRY(words_.encode(text, out_));
    return out_.size() > options_.max_tokens ? check_count() : Status();
  }

  Status check_count() const {
    if (out_.size() <= options_.max_tokens) return {};
    return fail(ErrorCode::limit,
                "text has more than " + std::to_string(options_.max_tokens) + " tokens");
  }

  const Tokenizer::State& state_;
  const EncodeOptions& options_;
  WordEncoder words_;
  std::vector<std::uint32_t> out_;
  std::string bytes_;
};

std::string cleaned_up(std::string text) {
  static constexpr std::array<std::string_view, 2> rules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : rules) text = replace_all(text, from, to);
  return text;
}

}  // namespace

Status Tokenizer::State::check() const {
  const std::size_t n = spec.tokens.size();
  if (n == 0) return field_error(ErrorCode::parse, "tokens", "the vocabulary is empty");
  if (n > max_vocabulary) {
    return field_error(ErrorCode::limit, "tokens",
                       std::to_string(n) + " tokens, at most " + std::to_string(max_vocabulary));
  }
  const auto check_size = [n](std::string field, std::size_t size) -> Status {
    if (size == n) return {};
    return field_error(ErrorCode::parse, std::move(field),
                       std::to_string(size) + " entries for " + std::to_string(n) + " tokens");
  };
  ONEPASS_TRY(check_size("token_type", spec.types.size()));
  if (!spec.scores.empty()) ONEPASS_TRY(check_size("scores", spec.scores.size()));
  if (!spec.in_model.empty()) ONEPASS_TRY(check_size("in_model", spec.in_model.size()));
  for (std::size_t i = 0; i < n; ++i) {
    if (spec.tokens[i].size() > max_token_bytes) {
      return field_error(ErrorCode::limit, "tokens[" + std::to_string(i) + "]",
                         "token has " + std::to_string(spec.tokens[i].size()) + " bytes, at most " +
                             std::to_string(max_token_bytes));
    }
    if (spec.types[i] == TokenType::byte && byte_token_value(spec.tokens[i]) < 0) {
      return field_error(ErrorCode::parse, "tokens[" + std::to_string(i) + "]",
                         "byte token must be written <0xHH>, got '" +
                             replace_invalid(spec.tokens[i].substr(0, 64)) + "'");
    }
  }
  const auto check_id = [n](const char* field, std::optional<std::uint32_t> id) -> Status {
    if (!id || *id < n) return {};
    return field_error(
        ErrorCode::parse, field,
        "token id " + std::to_string(*id) + " in a vocabulary of " + std::to_string(n));
  };
  ONEPASS_TRY(check_id("bos_token_id", spec.ids.bos));
  ONEPASS_TRY(check_id("eos_token_id", spec.ids.eos));
  ONEPASS_TRY(check_id("eot_token_id", spec.ids.eot));
  ONEPASS_TRY(check_id("eom_token_id", spec.ids.eom));
  ONEPASS_TRY(check_id("unknown_token_id", spec.ids.unknown));
  ONEPASS_TRY(check_id("padding_token_id", spec.ids.padding));
  ONEPASS_TRY(check_id("seperator_token_id", spec.ids.separator));
  ONEPASS_TRY(check_id("mask_token_id", spec.ids.mask));
  ONEPASS_TRY(check_id("unk_token", spec.unknown));
  for (const std::uint32_t id : spec.prefix) ONEPASS_TRY(check_id("prefix", id));
  for (const std::uint32_t id : spec.suffix) ONEPASS_TRY(check_id("suffix", id));
  for (const SpecialToken& token : spec.specials) ONEPASS_TRY(check_id("added_tokens", token.id));
  return {};
}

void Tokenizer::State::build_pieces() {
  pieces.resize(spec.tokens.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string& text = spec.tokens[i];
    const TokenType type = spec.types[i];
    const bool in_model = spec.in_model.empty() || spec.in_model[i];
    std::string& piece = pieces[i];
    piece = text;
    if (type != TokenType::normal && type != TokenType::byte) continue;
    if (spec.kind == ModelKind::byte_pairs) {
      if (!from_alphabet(text, piece)) piece = text;
      continue;
    }
    const int byte = byte_token_value(text);
    if (byte >= 0 && in_model && (type == TokenType::byte || spec.byte_fallback)) {
      piece.assign(1, static_cast<char>(byte));
    } else if (spec.space_marks) {
      piece = replace_all(text, space_mark, " ");
    }
  }
}

void Tokenizer::State::find_reply_ends() {
  for (const auto& id : {spec.ids.eos, spec.ids.eot, spec.ids.eom}) {
    if (id) reply_ends.push_back(*id);
  }
  for (const std::uint32_t id : spec.reply_ends) {
    if (id < spec.tokens.size()) reply_ends.push_back(id);
  }
  for (const std::string_view name : reply_end_names) {
    const std::uint32_t id = by_text.find(name);
    if (id != no_id &&
        (spec.types[id] == TokenType::control || spec.types[id] == TokenType::user_defined)) {
      reply_ends.push_back(id);
    }
  }
  std::sort(reply_ends.begin(), reply_ends.end());
}

Status Tokenizer::State::build() {
  ONEPASS_TRY(check());
  ONEPASS_TRY(model.build(spec));
  std::vector<std::string_view> texts(spec.tokens.begin(), spec.tokens.end());
  std::vector<std::uint32_t> ids(texts.size());
  for (std::uint32_t i = 0; i < ids.size(); ++i) ids[i] = i;
  ONEPASS_TRY(by_text.build(texts, ids));
  build_pieces();
  find_reply_ends();
  for (const bool parse : {false, true}) {
    std::array<std::vector<SpecialToken>, 2> sets;  // [normalized]
    for (const SpecialToken& token : spec.specials) {
      if (token.text.empty() || (token.is_control && !parse)) continue;
      sets[token.normalized].push_back(token);
    }
    ONEPASS_TRY(raw_specials[parse].build(std::move(sets[0]), spec.leftmost_specials));
    ONEPASS_TRY(normalized_specials[parse].build(std::move(sets[1]), spec.leftmost_specials));
  }
  return {};
}

Result<Tokenizer> Tokenizer::create(Spec spec) {
  return guarded([&]() -> Result<Tokenizer> {
    auto state = std::make_shared<State>();
    state->spec = std::move(spec);
    ONEPASS_TRY(state->build());
    return Tokenizer(std::move(state));
  });
}

Result<std::vector<std::uint32_t>> Tokenizer::encode(std::string_view text,
                                                     const EncodeOptions& options) const {
  return guarded([&]() -> Result<std::vector<std::uint32_t>> {
    if (text.size() > options.max_bytes || text.size() > no_id / 4) {
      return fail(ErrorCode::limit, "text has " + std::to_string(text.size()) + " bytes, at most " +
                                        std::to_string(options.max_bytes));
    }
    Encoding encoding(*state_, options, text.size());
    ONEPASS_TRY(encoding.run(text));
    return encoding.take();
  });
}

Result<std::string> Tokenizer::decode(std::span<const std::uint32_t> ids,
                                      const DecodeOptions& options) const {
  return guarded([&]() -> Result<std::string> {
    std::string text;
    bool strips = options.at_start && state_->spec.strip_leading_space;
    for (const std::uint32_t id : ids) {
      ONEPASS_ASSIGN(std::string_view part, piece(id));
      if (!options.special && state_->is_hidden(id)) continue;
      if (strips && part.starts_with(' ')) part.remove_prefix(1);
      strips = false;
      text += part;
    }
    return options.clean_up_spaces ? cleaned_up(std::move(text)) : text;
  });
}

Result<std::string_view> Tokenizer::piece(std::uint32_t id) const {
  if (id < state_->pieces.size()) return std::string_view(state_->pieces[id]);
  return fail(ErrorCode::invalid_argument,
              "token id " + std::to_string(id) + " in a vocabulary of " + std::to_string(size()));
}

std::optional<std::uint32_t> Tokenizer::find(std::string_view token_text) const noexcept {
  const std::uint32_t id = state_->by_text.find(token_text);
  return id == no_id ? std::nullopt : std::optional(id);
}

std::size_t Tokenizer::size() const noexcept { return state_->pieces.size(); }
const SpecialIds& Tokenizer::special_ids() const noexcept { return state_->spec.ids; }
bool Tokenizer::cleans_up_spaces() const noexcept { return state_->spec.cleans_up_spaces; }

bool Tokenizer::is_control(std::uint32_t id) const noexcept {
  return id < size() && state_->spec.types[id] == TokenType::control;
}

bool Tokenizer::ends_reply(std::uint32_t id) const noexcept {
  return std::binary_search(state_->reply_ends.begin(), state_->reply_ends.end(), id);
}

Detokenizer::Detokenizer(Tokenizer tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)),
      options_(options),
      strip_space_(options.at_start && tokenizer_.state_->spec.strip_leading_space) {}

namespace {

// Bytes of the longest start of a code point at p: 0 for a byte that starts none.
std::size_t partial_bytes(std::string_view p) noexcept {
  const auto at = [p](std::size_t i) { return static_cast<unsigned char>(p[i]); };
  const unsigned first = at(0);
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t total = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  std::size_t n = 1;
  for (; n < total && n < p.size(); ++n) {
    unsigned low = 0x80, high = 0xBF;
    if (n == 1) {
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    }
    if (at(n) < low || at(n) > high) break;
  }
  return n;
}

constexpr std::string_view replacement = "\xEF\xBF\xBD";

}  // namespace

Result<std::string> Detokenizer::next(std::uint32_t id) {
  return guarded([&]() -> Result<std::string> {
    ONEPASS_ASSIGN(std::string_view part, tokenizer_.piece(id));
    if (!options_.special && tokenizer_.state_->is_hidden(id)) return std::string();
    if (strip_space_ && part.starts_with(' ')) part.remove_prefix(1);
    strip_space_ = false;

    std::string bytes = pending_;
    bytes += part;
    std::string text;
    std::size_t i = 0;
    while (i < bytes.size()) {
      const Char c = decode(bytes.data() + i, bytes.data() + bytes.size());
      if (!c.is_invalid()) {
        text.append(bytes, i, c.bytes);
        i += c.bytes;
        continue;
      }
      const std::size_t n = partial_bytes(std::string_view(bytes).substr(i));
      if (n > 0 && i + n == bytes.size()) break;
      text += replacement;
      i += std::max<std::size_t>(n, 1);
    }
    pending_.assign(bytes, i);
    return text;
  });
}

std::string Detokenizer::finish() {
  std::string text(pending_.empty() ? std::string_view() : replacement);
  pending_.clear();
  strip_space_ = options_.at_start && tokenizer_.state_->spec.strip_leading_space;
  return text;
}

}  // namespace onepass::llm
