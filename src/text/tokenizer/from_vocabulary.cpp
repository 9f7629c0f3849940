#include <algorithm>
#include <iterator>

#include "core/guarded.h"
#include "text/tokenizer/spec.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/vocabulary.h"

namespace onepass::llm {

using namespace text;
namespace {

tl::unexpected<Error> field_error(ErrorCode code, std::string field, std::string message) {
  Error error = make_error(code, std::move(message));
  error.field = "tokenizer.ggml." + std::move(field);
  return tl::unexpected<Error>(std::move(error));
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<std::uint32_t> id_or(std::optional<std::uint32_t> id,
                                   std::optional<std::uint32_t> fallback, std::size_t size) {
  if (id == ~std::uint32_t{0}) return std::nullopt;
  if (id) return id;
  return fallback && *fallback < size ? fallback : std::nullopt;
}

Status read_types(const VocabularyData& data, Spec& spec) {
  spec.types.assign(spec.tokens.size(), TokenType::normal);
  if (data.types.empty()) return {};
  if (data.types.size() != spec.tokens.size()) {
    return field_error(ErrorCode::parse, "token_type",
                       std::to_string(data.types.size()) + " entries for " +
                           std::to_string(spec.tokens.size()) + " tokens");
  }
  for (std::size_t i = 0; i < data.types.size(); ++i) {
    const std::int32_t type = data.types[i];
    if (type < 0 || type > 6) {
      return field_error(
          ErrorCode::parse, "token_type",
          "entry " + std::to_string(i) + " is " + std::to_string(type) + ", expected 1 to 6");
    }
    if (type != 0) spec.types[i] = static_cast<TokenType>(type);
  }
  return {};
}

// "left right": one space separates them, and it is not the first character.
Status read_merges(std::vector<std::string> merges, Spec& spec) {
  spec.merges.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string& text = merges[i];
    const std::size_t space = text.size() < 3 ? std::string::npos : text.find(' ', 1);
    if (space == std::string::npos || space + 1 == text.size() ||
        text.find(' ', space + 1) != std::string::npos) {
      return field_error(ErrorCode::parse, "merges",
                         "entry " + std::to_string(i) +
                             " is not two texts with one space between: '" +
                             replace_invalid(text.substr(0, 64)) + "'");
    }
    spec.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return {};
}

void read_specials(const VocabularyData& data, Spec& spec) {
  std::string name = data.model_name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const bool strips =
      name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
  for (std::uint32_t i = 0; i < spec.tokens.size(); ++i) {
    const TokenType type = spec.types[i];
    if (type != TokenType::control && type != TokenType::user_defined &&
        type != TokenType::unknown) {
      continue;
    }
    const std::string& text = spec.tokens[i];
    spec.specials.push_back(
        {.id = i,
         .text = text,
         .is_control = type != TokenType::user_defined,
         .strip_right = strips && !is_one_of(text, {"<unk>", "<s>", "<|endoftext|>"})});
  }
}

Result<Spec> make_spec(VocabularyData data) {
  Spec spec;
  const bool scores = data.model == "llama";
  const bool gemma4 = data.model == "gemma4";
  if (!scores && !gemma4 && data.model != "gpt2") {
    return field_error(
        ErrorCode::unsupported, "model",
        "'" + replace_invalid(data.model.substr(0, 64)) + "', expected llama, gpt2 or gemma4");
  }
  spec.kind = scores ? ModelKind::scores : gemma4 ? ModelKind::char_pairs : ModelKind::byte_pairs;
  const std::string pre = gemma4 && data.pre.empty() ? "gemma4" : data.pre;

  spec.tokens = std::move(data.tokens);
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    if (spec.tokens[i].empty()) spec.tokens[i] = "[EMPTY_" + std::to_string(i) + "]";
  }
  ONEPASS_TRY(read_types(data, spec));
  const std::size_t n = spec.tokens.size();
  if (scores) {
    spec.scores = std::move(data.scores);
  } else {
    ONEPASS_TRY(read_merges(std::move(data.merges), spec));
    ONEPASS_ASSIGN(spec.stages, stages_for(pre));
  }

  const PreFlags flags = pre_flags(pre);
  spec.ignore_merges = !scores && flags.whole_words;
  spec.whole_newlines = gemma4;
  spec.byte_fallback = scores || gemma4;
  spec.space_marks = scores || gemma4;
  spec.cleans_up_spaces = !scores && flags.cleans_up_spaces;

  const bool space_prefix = data.add_space_prefix.value_or(scores);
  if (space_prefix) spec.normalizers.push_back(Prepend{" "});
  if (spec.space_marks) spec.normalizers.push_back(Replace{" ", std::string(space_mark)});
  spec.strip_leading_space = space_prefix;

  using Id = std::optional<std::uint32_t>;
  const bool byte_level = spec.kind == ModelKind::byte_pairs;
  spec.ids = data.ids;
  spec.ids.bos = id_or(data.ids.bos, scores ? Id(1) : byte_level ? Id(11) : Id(), n);
  spec.ids.eos = id_or(data.ids.eos, scores ? Id(2) : byte_level ? Id(11) : Id(), n);
  spec.ids.unknown = id_or(data.ids.unknown, scores ? Id(0) : Id(), n);
  for (Id* id :
       {&spec.ids.eot, &spec.ids.eom, &spec.ids.padding, &spec.ids.separator, &spec.ids.mask}) {
    *id = id_or(*id, Id(), n);
  }
  // Byte-level vocabularies drop a byte without a token.
  if (!byte_level) spec.unknown = spec.ids.unknown;

  const bool add_bos = gemma4 || data.add_bos.value_or(scores || (byte_level && flags.adds_bos));
  if (add_bos && spec.ids.bos) spec.prefix.push_back(*spec.ids.bos);
  if (data.add_eos.value_or(false) && spec.ids.eos) spec.suffix.push_back(*spec.ids.eos);
  read_specials(data, spec);
  return spec;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_vocabulary(VocabularyData data) {
  return guarded([&]() -> Result<Tokenizer> {
    ONEPASS_ASSIGN(Spec spec, make_spec(std::move(data)));
    return create(std::move(spec));
  });
}

}  // namespace onepass::llm
