// Hugging Face tokenizer.json: BPE models, byte-level or with byte fallback.

#include <algorithm>
#include <iterator>

#include "core/guarded.h"
#include "io/json.h"
#include "io/reader.h"
#include "text/tokenizer/spec.h"
#include "text/tokenizer/tables.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm {

using namespace text;
using io::Json;
using io::JsonDocument;
using io::JsonKind;
namespace {

constexpr std::size_t max_steps = 64;  // of a normalizer, pre-tokenizer, decoder

tl::unexpected<Error> unsupported_type(const Json& part, std::string_view type) {
  return part["type"].error(ErrorCode::unsupported,
                            "'" + std::string(type.substr(0, 64)) + "' is not supported");
}

Result<std::uint32_t> token_id(const Json& part) {
  ONEPASS_ASSIGN(const std::uint64_t id, part.integer(0xFFFFFFFEu));
  return static_cast<std::uint32_t>(id);
}

// The part itself, or the members of a Sequence under `list_key`, nested ones included.
Status flatten(const Json& part, std::string_view list_key, std::vector<Json>& steps) {
  if (part.is_null()) return {};
  ONEPASS_ASSIGN(const std::string_view type, part["type"].text());
  if (type != "Sequence") {
    steps.push_back(part);
  } else {
    ONEPASS_ASSIGN(const Json::Items items, part[list_key].array());
    for (const Json item : items) ONEPASS_TRY(flatten(item, list_key, steps));
  }
  if (steps.size() > max_steps) {
    return part.error(ErrorCode::limit, "more than " + std::to_string(max_steps) + " steps");
  }
  return {};
}

// {"String": "..."} or {"Regex": "..."}.
Result<Rule> read_pattern(const Json& part) {
  if (const Json literal = part["String"]; !literal.is_null()) {
    ONEPASS_ASSIGN(const std::string_view text, literal.text());
    return Rule(LiteralRule{std::string(text)});
  }
  const Json regex = part["Regex"];
  ONEPASS_ASSIGN(const std::string_view text, regex.text());
  Result<Rule> rule = rule_for(text);
  if (!rule) return regex.error(rule.error().code, rule.error().message);
  return rule;
}

Result<Behavior> read_behavior(const Json& part) {
  static constexpr std::pair<std::string_view, Behavior> names[] = {
      {"Isolated", Behavior::isolated},
      {"Removed", Behavior::removed},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous}};
  ONEPASS_ASSIGN(const std::string_view name, part.text_or("Isolated"));
  for (const auto& [text, behavior] : names) {
    if (text == name) return behavior;
  }
  return part.error(ErrorCode::unsupported, "'" + std::string(name) + "' is not supported");
}

class Reader {
 public:
  Reader(Json root, Json config) : root_(std::move(root)), config_(std::move(config)) {}

  Result<Spec> read() {
    ONEPASS_TRY(read_model());
    ONEPASS_TRY(read_added_tokens());
    ONEPASS_TRY(read_normalizers());
    ONEPASS_TRY(read_stages());
    ONEPASS_TRY(read_decoder());
    spec_.kind = byte_level_ ? ModelKind::byte_pairs : ModelKind::char_pairs;
    if (byte_level_ && spec_.byte_fallback) {
      return root_["model"]["byte_fallback"].error(
          ErrorCode::unsupported, "byte fallback together with a ByteLevel pre-tokenizer");
    }
    ONEPASS_TRY(read_post_processor(root_["post_processor"]));
    ONEPASS_TRY(read_config());
    spec_.leftmost_specials = true;
    return std::move(spec_);
  }

 private:
  Status read_model() {
    const Json model = root_["model"];
    ONEPASS_ASSIGN(const std::string_view type, model["type"].text_or("BPE"));
    if (type != "BPE") return unsupported_type(model, type);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      ONEPASS_ASSIGN(const std::string_view text, model[key].text_or(""));
      if (!text.empty()) {
        return model[key].error(ErrorCode::unsupported,
                                "'" + std::string(text) + "' is not supported");
      }
    }
    if (!model["dropout"].is_null()) {
      return model["dropout"].error(ErrorCode::unsupported, "dropout is not supported");
    }
    ONEPASS_ASSIGN(spec_.ignore_merges, model["ignore_merges"].boolean_or(false));
    ONEPASS_ASSIGN(spec_.byte_fallback, model["byte_fallback"].boolean_or(false));
    ONEPASS_ASSIGN(spec_.fuse_unknown, model["fuse_unk"].boolean_or(false));
    ONEPASS_TRY(read_vocabulary(model["vocab"]));
    ONEPASS_TRY(read_merges(model["merges"]));
    if (const Json unknown = model["unk_token"]; !unknown.is_null()) {
      ONEPASS_ASSIGN(const std::string_view text, unknown.text());
      const auto at = std::find(spec_.tokens.begin(), spec_.tokens.end(), text);
      if (at == spec_.tokens.end()) {
        return unknown.error(ErrorCode::parse, "not in the vocabulary");
      }
      spec_.unknown = static_cast<std::uint32_t>(at - spec_.tokens.begin());
    }
    return {};
  }

  Status grow(const Json& where, std::uint32_t id) {
    if (id >= max_vocabulary) {
      return where.error(ErrorCode::limit, "token id " + std::to_string(id) + ", at most " +
                                               std::to_string(max_vocabulary - 1));
    }
    if (id >= spec_.tokens.size()) {
      spec_.tokens.resize(id + std::size_t{1});
      spec_.types.resize(spec_.tokens.size(), TokenType::unused);
      spec_.in_model.resize(spec_.tokens.size(), false);
    }
    return {};
  }

  Status read_vocabulary(const Json& part) {
    ONEPASS_ASSIGN(const Json::Members vocabulary, part.object());
    for (const auto& [key, value] : vocabulary) {
      const auto id = value.integer();
      if (!id || *id >= max_vocabulary) {
        return part.error(ErrorCode::parse, "'" + std::string(key.substr(0, 64)) +
                                                "' has no token id below " +
                                                std::to_string(max_vocabulary));
      }
      const auto i = static_cast<std::uint32_t>(*id);
      ONEPASS_TRY(grow(part, i));
      if (spec_.in_model[i]) {
        return part.error(ErrorCode::parse, "token id " + std::to_string(i) + " appears twice");
      }
      spec_.tokens[i] = key;
      spec_.types[i] = TokenType::normal;
      spec_.in_model[i] = true;
    }
    return {};
  }

  // ["left right", ...] or [["left", "right"], ...]
  Status read_merges(const Json& part) {
    ONEPASS_ASSIGN(const Json::Items merges, part.array());
    for (const Json merge : merges) {
      const auto bad = [&] {
        return part.error(ErrorCode::parse, "entry " + std::to_string(spec_.merges.size()) +
                                                " is not a pair of texts");
      };
      std::string_view left, right;
      if (merge.is(JsonKind::string)) {
        const std::string_view text = *merge.text();
        const std::size_t space = text.find(' ');
        if (space == std::string_view::npos) return bad();
        left = text.substr(0, space);
        right = text.substr(space + 1);
        if (right.find(' ') != std::string_view::npos) return bad();
      } else {
        if (!merge.is(JsonKind::array) || merge.size() != 2) return bad();
        auto item = merge.items().begin();
        const auto first = (*item).text(), second = (*++item).text();
        if (!first || !second) return bad();
        left = *first;
        right = *second;
      }
      if (left.empty() || right.empty()) return bad();
      spec_.merges.emplace_back(left, right);
    }
    return {};
  }

  Status read_added_tokens() {
    const Json part = root_["added_tokens"];
    if (part.is_null()) return {};
    ONEPASS_ASSIGN(const Json::Items items, part.array());
    for (const Json item : items) {
      SpecialToken token;
      ONEPASS_ASSIGN(token.id, token_id(item["id"]));
      ONEPASS_ASSIGN(const std::string_view text, item["content"].text());
      if (text.empty()) return item["content"].error(ErrorCode::parse, "empty token");
      token.text = text;
      ONEPASS_ASSIGN(token.is_control, item["special"].boolean_or(false));
      ONEPASS_ASSIGN(token.strip_left, item["lstrip"].boolean_or(false));
      ONEPASS_ASSIGN(token.strip_right, item["rstrip"].boolean_or(false));
      ONEPASS_ASSIGN(token.single_word, item["single_word"].boolean_or(false));
      ONEPASS_ASSIGN(token.normalized, item["normalized"].boolean_or(!token.is_control));
      ONEPASS_TRY(grow(item["id"], token.id));
      std::string& known = spec_.tokens[token.id];
      if (known.empty()) known = text;
      if (known != text) {
        return item["content"].error(
            ErrorCode::parse,
            "token id " + std::to_string(token.id) + " is already '" + known.substr(0, 64) + "'");
      }
      spec_.types[token.id] = token.is_control ? TokenType::control : TokenType::user_defined;
      spec_.specials.push_back(std::move(token));
    }
    return {};
  }

  Status read_normalizers() {
    std::vector<Json> steps;
    ONEPASS_TRY(flatten(root_["normalizer"], "normalizers", steps));
    for (const Json& step : steps) {
      ONEPASS_ASSIGN(const std::string_view type, step["type"].text());
      if (type == "NFC") {
        spec_.normalizers.push_back(UnicodeForm::nfc);
      } else if (type == "NFD") {
        spec_.normalizers.push_back(UnicodeForm::nfd);
      } else if (type == "NFKC") {
        spec_.normalizers.push_back(UnicodeForm::nfkc);
      } else if (type == "NFKD") {
        spec_.normalizers.push_back(UnicodeForm::nfkd);
      } else if (type == "Prepend") {
        ONEPASS_ASSIGN(const std::string_view text, step["prepend"].text());
        spec_.normalizers.push_back(Prepend{std::string(text)});
      } else if (type == "Replace") {
        ONEPASS_ASSIGN(Replace replace, read_replace(step));
        spec_.normalizers.push_back(std::move(replace));
      } else {
        return unsupported_type(step, type);
      }
    }
    return {};
  }

  static Result<Replace> read_replace(const Json& step) {
    Replace replace;
    ONEPASS_ASSIGN(const std::string_view to, step["content"].text());
    replace.to = to;
    const Json pattern = step["pattern"];
    if (const Json literal = pattern["String"]; !literal.is_null()) {
      ONEPASS_ASSIGN(const std::string_view from, literal.text());
      replace.from = std::string(from);
      return replace;
    }
    ONEPASS_ASSIGN(const std::string_view from, pattern["Regex"].text());
    Result<RegexRule> regex = Regex::compile(from);
    if (!regex) return pattern["Regex"].error(regex.error().code, regex.error().message);
    replace.from = std::move(*regex);
    return replace;
  }

  Status read_stages() {
    std::vector<Json> steps;
    ONEPASS_TRY(flatten(root_["pre_tokenizer"], "pretokenizers", steps));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ONEPASS_TRY(read_stage(steps[i], i + 1 == steps.size()));
    }
    return {};
  }

  Status read_stage(const Json& step, bool is_last) {
    ONEPASS_ASSIGN(const std::string_view type, step["type"].text());
    auto& stages = spec_.stages;
    if (type == "Split") {
      Split split;
      ONEPASS_ASSIGN(split.rule, read_pattern(step["pattern"]));
      ONEPASS_ASSIGN(split.behavior, read_behavior(step["behavior"]));
      ONEPASS_ASSIGN(split.invert, step["invert"].boolean_or(false));
      stages.push_back(std::move(split));
    } else if (type == "ByteLevel") {
      if (byte_level_) return step.error(ErrorCode::unsupported, "a second ByteLevel");
      ONEPASS_ASSIGN(const bool prefix, step["add_prefix_space"].boolean_or(true));
      ONEPASS_ASSIGN(const bool regex, step["use_regex"].boolean_or(true));
      if (prefix) stages.push_back(Prepend{.text = " ", .unless_present = true});
      if (regex) stages.push_back(Split{Gpt2Rule{}});
      if (!is_last) stages.push_back(ToByteAlphabet{});
      byte_level_ = true;
    } else if (type == "Digits") {
      ONEPASS_ASSIGN(const bool single, step["individual_digits"].boolean_or(false));
      RunRule rule{CharClass::number};
      if (single) rule.max = 1;
      stages.push_back(Split{rule});
    } else if (type == "Punctuation") {
      Split split{RunRule{CharClass::ascii_punctuation, 1, 1}};
      ONEPASS_ASSIGN(split.behavior, read_behavior(step["behavior"]));
      stages.push_back(std::move(split));
    } else if (type == "Metaspace") {
      ONEPASS_TRY(read_metaspace(step));
    } else {
      return unsupported_type(step, type);
    }
    return {};
  }

  Status read_metaspace(const Json& step) {
    ONEPASS_ASSIGN(const std::string_view mark, step["replacement"].text_or(space_mark));
    ONEPASS_ASSIGN(const bool splits, step["split"].boolean_or(true));
    // Older files say add_prefix_space instead of prepend_scheme.
    ONEPASS_ASSIGN(const bool prefix, step["add_prefix_space"].boolean_or(true));
    ONEPASS_ASSIGN(const std::string_view scheme,
                   step["prepend_scheme"].text_or(prefix ? "always" : "never"));
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      return step["prepend_scheme"].error(ErrorCode::unsupported,
                                          "expected always, first or never");
    }
    if (mark.empty()) return step["replacement"].error(ErrorCode::parse, "empty text");
    spec_.stages.push_back(Replace{" ", std::string(mark)});
    if (scheme != "never") {
      spec_.stages.push_back(Prepend{
          .text = std::string(mark), .only_at_start = scheme == "first", .unless_present = true});
    }
    if (splits) {
      spec_.stages.push_back(Split{LiteralRule{std::string(mark)}, Behavior::merged_with_next});
    }
    return {};
  }

  Status read_decoder() {
    std::vector<Json> steps;
    ONEPASS_TRY(flatten(root_["decoder"], "decoders", steps));
    for (const Json& step : steps) {
      ONEPASS_ASSIGN(const std::string_view type, step["type"].text());
      if (type == "ByteLevel" || type == "ByteFallback" || type == "Fuse") continue;
      if (type == "Replace") {
        ONEPASS_ASSIGN(const std::string_view from, step["pattern"]["String"].text());
        ONEPASS_ASSIGN(const std::string_view to, step["content"].text());
        if (from != space_mark || to != " ") {
          return step.error(ErrorCode::unsupported, "a replacement other than U+2581 by a space");
        }
        spec_.space_marks = true;
      } else if (type == "Strip") {
        ONEPASS_ASSIGN(const std::string_view text, step["content"].text_or(" "));
        ONEPASS_ASSIGN(const std::uint64_t start, step["start"].integer());
        ONEPASS_ASSIGN(const std::uint64_t stop, step["stop"].integer());
        if (text != " " || start > 1 || stop != 0) {
          return step.error(ErrorCode::unsupported, "anything but one space at the start");
        }
        spec_.strip_leading_space = start == 1;
      } else if (type == "Metaspace") {
        ONEPASS_ASSIGN(const std::string_view mark, step["replacement"].text_or(space_mark));
        if (mark != space_mark) {
          return step["replacement"].error(ErrorCode::unsupported, "expected U+2581");
        }
        ONEPASS_ASSIGN(const bool prefix, step["add_prefix_space"].boolean_or(true));
        ONEPASS_ASSIGN(const std::string_view scheme,
                       step["prepend_scheme"].text_or(prefix ? "always" : "never"));
        spec_.space_marks = true;
        spec_.strip_leading_space = scheme != "never";
      } else {
        return unsupported_type(step, type);
      }
    }
    return {};
  }

  Status read_post_processor(const Json& part) {
    std::vector<Json> steps;
    ONEPASS_TRY(flatten(part, "processors", steps));
    for (const Json& step : steps) {
      ONEPASS_ASSIGN(const std::string_view type, step["type"].text());
      if (type == "ByteLevel") continue;
      if (type != "TemplateProcessing") return unsupported_type(step, type);
      ONEPASS_TRY(read_template(step));
    }
    return {};
  }

  // "single": special tokens around one Sequence.
  Status read_template(const Json& step) {
    has_template_ = true;
    ONEPASS_ASSIGN(const Json::Items items, step["single"].array());
    bool seen_text = false;
    for (const Json item : items) {
      if (item["Sequence"].is(JsonKind::object)) {
        if (seen_text) return item.error(ErrorCode::unsupported, "a second Sequence");
        seen_text = true;
        continue;
      }
      ONEPASS_ASSIGN(const std::string_view name, item["SpecialToken"]["id"].text());
      ONEPASS_ASSIGN(const Json::Items ids, step["special_tokens"][name]["ids"].array());
      for (const Json id : ids) {
        ONEPASS_ASSIGN(const std::uint32_t value, token_id(id));
        (seen_text ? spec_.suffix : spec_.prefix).push_back(value);
      }
    }
    if (!seen_text) return step["single"].error(ErrorCode::parse, "no Sequence");
    if (!spec_.prefix.empty()) spec_.ids.bos = spec_.prefix.front();
    if (!spec_.suffix.empty()) spec_.ids.eos = spec_.suffix.back();
    return {};
  }

  // A token's name, or an object with its "content".
  Result<std::optional<std::uint32_t>> configured_token(std::string_view key) const {
    Json part = config_[key];
    if (part.is(JsonKind::object)) part = part["content"];
    if (part.is_null()) return std::optional<std::uint32_t>();
    ONEPASS_ASSIGN(const std::string_view text, part.text());
    const auto at = std::find(spec_.tokens.begin(), spec_.tokens.end(), text);
    if (at == spec_.tokens.end()) return std::optional<std::uint32_t>();
    return std::optional(static_cast<std::uint32_t>(at - spec_.tokens.begin()));
  }

  Status read_config() {
    spec_.ids.unknown = spec_.unknown;
    const std::pair<const char*, std::optional<std::uint32_t>*> tokens[] = {
        {"bos_token", &spec_.ids.bos},       {"eos_token", &spec_.ids.eos},
        {"unk_token", &spec_.ids.unknown},   {"pad_token", &spec_.ids.padding},
        {"sep_token", &spec_.ids.separator}, {"mask_token", &spec_.ids.mask}};
    for (const auto& [key, id] : tokens) {
      ONEPASS_ASSIGN(const auto found, configured_token(key));
      if (found) *id = found;
    }
    ONEPASS_ASSIGN(spec_.cleans_up_spaces,
                   config_["clean_up_tokenization_spaces"].boolean_or(false));
    if (has_template_) return {};
    ONEPASS_ASSIGN(const bool bos, config_["add_bos_token"].boolean_or(false));
    ONEPASS_ASSIGN(const bool eos, config_["add_eos_token"].boolean_or(false));
    if (bos && spec_.ids.bos) spec_.prefix.push_back(*spec_.ids.bos);
    if (eos && spec_.ids.eos) spec_.suffix.push_back(*spec_.ids.eos);
    return {};
  }

  const Json root_;
  const Json config_;
  Spec spec_;
  bool byte_level_ = false;
  bool has_template_ = false;
};

}  // namespace

Result<Spec> text::spec_from_json(std::string_view tokenizer_json, std::string_view config_json) {
  return guarded([&]() -> Result<Spec> {
    ONEPASS_ASSIGN(const JsonDocument document, JsonDocument::parse(tokenizer_json));
    JsonDocument config;
    if (!config_json.empty()) {
      ONEPASS_ASSIGN(config, JsonDocument::parse(config_json));
    }
    return Reader(document.root(), config.root()).read();
  });
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                       std::string_view config_json,
                                       std::span<const std::uint32_t> reply_ends) {
  ONEPASS_ASSIGN(Spec spec, spec_from_json(tokenizer_json, config_json));
  spec.reply_ends.assign(reply_ends.begin(), reply_ends.end());
  return create(std::move(spec));
}

}  // namespace onepass::llm
