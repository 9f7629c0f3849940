#include "model/convert_tokenizer.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/guarded.h"
#include "core/os.h"
#include "io/json_text.h"
#include "io/safetensors_file.h"
#include "model/model_files.h"
#include "model/model_template.h"
#include "text/tokenizer/spec.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/vocabulary.h"

namespace onepass::llm {

using namespace text;
namespace {

// Words that vocabularies cut apart in different ways.
constexpr const char* probes[] = {
    "Hello, world! It's 1234567 o'clock; they'll've said: \"I'd go\"...\n\n  def f(x):\n\treturn "
    "x\n",
    "x  y   z\n \n\n a_b-c/d\\e (12.5%) $3,000 #tag @me <b>&amp;</b> {}[]|~^`+=",
    "Straße, naïve café; Привет мир 你好世界 こんにちは 안녕 ١٢٣ "
    "😀👍🏽 "
    "e=mc²",
    "CamelCase HTTPServer ALLCAPS 2nd 3.14159 0x1F don't DON'T we're WE'RE",
    " leading and trailing ",
    "",
};

bool same_ids(const Tokenizer& a, const Tokenizer& b) {
  for (const char* text : probes) {
    for (const bool special : {false, true}) {
      EncodeOptions options;
      options.add_special = options.parse_special = special;
      const auto x = a.encode(text, options), y = b.encode(text, options);
      if (!x || !y || *x != *y) return false;
    }
  }
  return true;
}

tl::unexpected<Error> not_convertible(const char* field, const std::string& what) {
  Error e = make_error(ErrorCode::unsupported,
                       what + "; the model can be converted without its tokenizer");
  e.field = field;
  return tl::unexpected<Error>(std::move(e));
}

// --- folder to GGUF ---

constexpr const char* pre_names[] = {"qwen2",     "llama-bpe", "gpt-2",        "smollm",
                                     "tekken",    "gpt-4o",    "deepseek-llm", "deepseek-coder",
                                     "command-r", "falcon",    "qwen35",       "default"};

VocabularyData base_vocabulary(const Spec& spec, std::uint32_t vocab) {
  VocabularyData data;
  data.tokens = spec.tokens;
  for (const TokenType type : spec.types) data.types.push_back(static_cast<std::int32_t>(type));
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    if (data.tokens[i].empty()) data.tokens[i] = "[PAD" + std::to_string(i) + "]";
  }
  while (data.tokens.size() < vocab) {
    data.tokens.push_back("[PAD" + std::to_string(data.tokens.size()) + "]");
    data.types.push_back(static_cast<std::int32_t>(TokenType::unused));
  }
  data.ids = spec.ids;
  for (const std::uint32_t end : spec.reply_ends) {  // GGUF files can name three
    if (end == data.ids.eos || end == data.ids.eot || end == data.ids.eom) continue;
    (!data.ids.eos ? data.ids.eos : !data.ids.eot ? data.ids.eot : data.ids.eom) = end;
  }
  data.add_bos = !spec.prefix.empty();
  data.add_eos = !spec.suffix.empty();
  return data;
}

// Merges become scores: what is merged first scores highest.
void add_scores(const Spec& spec, VocabularyData& data) {
  std::unordered_map<std::string, std::size_t> rank;
  for (std::size_t i = 0; i < spec.merges.size(); ++i) {
    rank.emplace(spec.merges[i].first + spec.merges[i].second, i);
  }
  data.model = "llama";
  data.scores.assign(data.tokens.size(), 0.0f);
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    const auto at = rank.find(data.tokens[i]);
    if (at != rank.end()) data.scores[i] = -static_cast<float>(at->second) - 1.0f;
    if (byte_token_value(data.tokens[i]) >= 0 && spec.byte_fallback) {
      data.types[i] = static_cast<std::int32_t>(TokenType::byte);
    }
  }
  if (spec.unknown && *spec.unknown < data.types.size()) {
    data.types[*spec.unknown] = static_cast<std::int32_t>(TokenType::unknown);
  }
}

Result<VocabularyData> find_vocabulary(const Spec& spec, const Tokenizer& wanted,
                                       std::uint32_t vocab) {
  VocabularyData data = base_vocabulary(spec, vocab);
  if (spec.kind == ModelKind::char_pairs) {
    add_scores(spec, data);
    for (const bool prefix : {true, false}) {
      data.add_space_prefix = prefix;
      const auto made = Tokenizer::from_vocabulary(data);
      if (made && same_ids(wanted, *made)) return data;
    }
    return not_convertible("tokenizer.json",
                           "scores in a GGUF file give other ids than its merges");
  }
  data.model = "gpt2";
  for (const auto& [left, right] : spec.merges) data.merges.push_back(left + " " + right);
  for (const char* pre : pre_names) {
    data.pre = pre;
    const auto made = Tokenizer::from_vocabulary(data);
    if (made && same_ids(wanted, *made)) return data;
  }
  return not_convertible("tokenizer.json",
                         "no pre-tokenizer that GGUF files can name gives the same ids");
}

Status set_vocabulary(const VocabularyData& data, io::GgufOutput& out) {
  const std::string p = "tokenizer.ggml.";
  ONEPASS_TRY(out.set(p + "model", data.model));
  ONEPASS_TRY(out.set(p + "pre", data.pre.empty() ? "default" : data.pre));
  ONEPASS_TRY(out.set(p + "tokens", std::span<const std::string>(data.tokens)));
  if (!data.scores.empty()) {
    ONEPASS_TRY(out.set(p + "scores", std::span<const float>(data.scores)));
  }
  ONEPASS_TRY(out.set(p + "token_type", std::span<const std::int32_t>(data.types)));
  if (data.model == "gpt2") {
    ONEPASS_TRY(out.set(p + "merges", std::span<const std::string>(data.merges)));
  }
  const std::pair<const char*, std::optional<std::uint32_t>> ids[] = {
      {"bos_token_id", data.ids.bos},
      {"eos_token_id", data.ids.eos},
      {"eot_token_id", data.ids.eot},
      {"eom_token_id", data.ids.eom},
      {"unknown_token_id", data.ids.unknown},
      {"padding_token_id", data.ids.padding},
      {"seperator_token_id", data.ids.separator},
      {"mask_token_id", data.ids.mask}};
  for (const auto& [key, id] : ids) {
    if (id) ONEPASS_TRY(out.set(p + key, *id));
  }
  ONEPASS_TRY(out.set(p + "add_bos_token", *data.add_bos));
  ONEPASS_TRY(out.set(p + "add_eos_token", *data.add_eos));
  if (data.add_space_prefix) {
    ONEPASS_TRY(out.set(p + "add_space_prefix", *data.add_space_prefix));
  }
  return {};
}

// --- GGUF to folder ---

#define ONEPASS_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define ONEPASS_WORD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
constexpr const char* gpt2_pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr const char* qwen2_pattern = ONEPASS_WORD "\\p{N}" ONEPASS_TAIL;
constexpr const char* llama3_pattern = ONEPASS_WORD "\\p{N}{1,3}" ONEPASS_TAIL;
constexpr const char* qwen35_pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

std::string split_step(const char* pattern) {
  return "{\"type\":\"Split\",\"pattern\":{\"Regex\":" + io::json_text(pattern) +
         "},\"behavior\":\"Isolated\",\"invert\":false}";
}
std::string byte_level(bool regex) {
  return std::string("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,") +
         "\"use_regex\":" + (regex ? "true" : "false") + "}";
}
std::string sequence(const char* list_key, const std::vector<std::string>& steps) {
  std::string text;
  for (const std::string& step : steps) text += (text.empty() ? "" : ",") + step;
  return std::string("{\"type\":\"Sequence\",\"") + list_key + "\":[" + text + "]}";
}

// As tokenizer.json says what a name in tokenizer.ggml.pre means; empty: not known.
std::string pre_tokenizer(std::string_view pre) {
  const auto one_of = [pre](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), pre) != names.end();
  };
  const auto words = [](const char* pattern) {
    return sequence("pretokenizers", {split_step(pattern), byte_level(false)});
  };
  if (one_of({"gpt-2", "phi-2", "mpt", "exaone4", "olmo", "trillion"})) return byte_level(true);
  if (one_of({"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan"})) {
    return words(qwen2_pattern);
  }
  if (pre == "qwen35") return words(qwen35_pattern);
  if (one_of({"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2"})) {
    return words(llama3_pattern);
  }
  if (one_of({"smollm", "starcoder", "refact", "command-r", "exaone"})) {
    return sequence("pretokenizers",
                    {"{\"type\":\"Digits\",\"individual_digits\":true}", byte_level(true)});
  }
  if (one_of({"", "default"})) {
    return sequence("pretokenizers",
                    {split_step("[\\p{P}\\$\\+<=>\\^~\\|]+"), split_step(gpt2_pattern),
                     split_step("\\p{N}+"), split_step("[0-9][0-9][0-9]"), byte_level(false)});
  }
  return {};
}

struct Merge {
  float score;
  std::uint32_t left, right;
  std::string text;
};

// Every way to make a token of two others, the best scores first.
std::vector<std::string> merges_of_scores(const VocabularyData& data) {
  std::unordered_map<std::string_view, std::uint32_t> ids;
  const auto is_piece = [&](std::size_t i) {
    const auto type =
        data.types.empty() ? TokenType::normal : static_cast<TokenType>(data.types[i]);
    return type == TokenType::normal || type == TokenType::user_defined;
  };
  for (std::uint32_t i = 0; i < data.tokens.size(); ++i) {
    if (is_piece(i)) ids.emplace(data.tokens[i], i);
  }
  std::vector<Merge> merges;
  for (std::uint32_t i = 0; i < data.tokens.size(); ++i) {
    const std::string_view token = data.tokens[i];
    if (!is_piece(i)) continue;
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      if ((static_cast<unsigned char>(token[cut]) & 0xC0u) == 0x80u) continue;
      const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back(
          {i < data.scores.size() ? data.scores[i] : 0.0f, left->second, right->second,
           "[" + io::json_text(left->first) + "," + io::json_text(right->first) + "]"});
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    return std::pair(a.left, a.right) < std::pair(b.left, b.right);
  });
  std::vector<std::string> texts;
  texts.reserve(merges.size());
  for (Merge& m : merges) texts.push_back(std::move(m.text));
  return texts;
}

std::string added_tokens(const VocabularyData& data) {
  std::string text;
  for (std::size_t i = 0; i < data.types.size(); ++i) {
    const auto type = static_cast<TokenType>(data.types[i]);
    const bool special = type == TokenType::control || type == TokenType::unknown;
    if (!special && type != TokenType::user_defined) continue;
    text += (text.empty() ? "" : ",\n") + std::string("{\"id\":") + std::to_string(i) +
            ",\"content\":" + io::json_text(data.tokens[i]) +
            ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false," +
            "\"special\":" + (special ? "true" : "false") + "}";
  }
  return "[" + text + "]";
}

// Which ids the vocabulary puts around a text.
std::string post_processor(const Tokenizer& tokenizer, const VocabularyData& data) {
  const auto plain = tokenizer.encode("a", {.add_special = false});
  const auto full = tokenizer.encode("a");
  if (!plain || !full || full->size() <= plain->size()) return "null";
  const auto at = std::search(full->begin(), full->end(), plain->begin(), plain->end());
  std::string single;
  std::map<std::uint32_t, std::string> specials;
  const auto add = [&](std::uint32_t id) {
    specials[id] = io::json_text(data.tokens[id]);
    single += "{\"SpecialToken\":{\"id\":" + specials[id] + ",\"type_id\":0}},";
  };
  for (auto i = full->begin(); i != at; ++i) add(*i);
  single += "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},";
  for (auto i = at + static_cast<std::ptrdiff_t>(plain->size()); i != full->end(); ++i) add(*i);
  single.pop_back();
  std::string list;
  for (const auto& [id, name] : specials) {
    list += (list.empty() ? "" : ",") + name + ":{\"id\":" + name + ",\"ids\":[" +
            std::to_string(id) + "],\"tokens\":[" + name + "]}";
  }
  return "{\"type\":\"TemplateProcessing\",\"single\":[" + single + "],\"pair\":[" + single +
         "],\"special_tokens\":{" + list + "}}";
}

std::string vocabulary_object(const VocabularyData& data) {
  std::unordered_map<std::string_view, bool> seen;
  std::string text = "{";
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    if (!seen.emplace(data.tokens[i], true).second) continue;
    text +=
        (text.size() == 1 ? "\n" : ",\n") + io::json_text(data.tokens[i]) + ":" + std::to_string(i);
  }
  return text + "}";
}

Result<std::string> tokenizer_json(const VocabularyData& data, const Tokenizer& tokenizer) {
  const bool scores = data.model == "llama";
  std::string normalizer = "null", pre = "null", decoder, model;
  std::vector<std::string> merges;
  if (scores) {
    const bool prefix = data.add_space_prefix.value_or(true);
    std::vector<std::string> steps;
    if (prefix) steps.push_back("{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}");
    steps.push_back("{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}");
    normalizer = sequence("normalizers", steps);
    steps = {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"}",
             "{\"type\":\"ByteFallback\"}", "{\"type\":\"Fuse\"}"};
    if (prefix) steps.push_back("{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    decoder = sequence("decoders", steps);
    merges = merges_of_scores(data);
    model = "\"fuse_unk\":true,\"byte_fallback\":true";
    if (const auto unknown = tokenizer.special_ids().unknown) {
      model += ",\"unk_token\":" + io::json_text(data.tokens[*unknown]);
    }
  } else {
    pre = pre_tokenizer(data.pre);
    if (pre.empty()) {
      return not_convertible("tokenizer.ggml.pre", "'" + replace_invalid(data.pre.substr(0, 64)) +
                                                       "' has no form in tokenizer.json");
    }
    decoder = byte_level(true);
    for (const std::string& merge : data.merges) {
      const std::size_t space = merge.find(' ', 1);
      merges.push_back("[" + io::json_text(merge.substr(0, space)) + "," +
                       io::json_text(merge.substr(space + 1)) + "]");
    }
    const bool whole = data.pre == "tekken" || pre.find("{1,3}") != pre.npos;
    model = std::string("\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":") +
            (whole ? "true" : "false");
  }
  std::string list;
  for (const std::string& merge : merges) list += (list.empty() ? "\n" : ",\n") + merge;
  return "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":" +
         added_tokens(data) + ",\n\"normalizer\":" + normalizer + ",\n\"pre_tokenizer\":" + pre +
         ",\n\"post_processor\":" + post_processor(tokenizer, data) + ",\n\"decoder\":" + decoder +
         ",\n\"model\":{\"type\":\"BPE\",\"dropout\":null," + model +
         ",\n\"vocab\":" + vocabulary_object(data) + ",\n\"merges\":[" + list + "]}}\n";
}

std::string tokenizer_config(const VocabularyData& data, const Tokenizer& tokenizer,
                             const io::Gguf& file) {
  const SpecialIds& ids = tokenizer.special_ids();
  const std::pair<const char*, std::optional<std::uint32_t>> names[] = {
      {"bos_token", ids.bos},     {"eos_token", ids.eos},       {"unk_token", ids.unknown},
      {"pad_token", ids.padding}, {"sep_token", ids.separator}, {"mask_token", ids.mask}};
  std::string text = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"";
  for (const auto& [key, id] : names) {
    if (id && *id < data.tokens.size()) {
      text += ",\n  " + io::json_text(key) + ": " + io::json_text(data.tokens[*id]);
    }
  }
  text += std::string(",\n  \"clean_up_tokenization_spaces\": ") +
          (tokenizer.cleans_up_spaces() ? "true" : "false");
  const auto chat = file.text("tokenizer.chat_template");
  if (chat && io::is_utf8(*chat)) text += ",\n  \"chat_template\": " + io::json_text(*chat);
  return text + "\n}\n";
}

}  // namespace

Result<bool> tokenizer_to_gguf(const std::string& folder, std::uint32_t vocab,
                               io::GgufOutput& out) {
  return guarded([&]() -> Result<bool> {
    const auto texts = read_tokenizer_texts(folder);
    if (!texts) {
      if (texts.error().code == ErrorCode::not_found) return false;
      return texts.error();
    }
    ONEPASS_ASSIGN(Spec spec, spec_from_json(texts->tokenizer, texts->config));
    spec.reply_ends = texts->ends;
    ONEPASS_ASSIGN(const Tokenizer wanted, Tokenizer::create(spec));
    ONEPASS_ASSIGN(const VocabularyData data, find_vocabulary(spec, wanted, vocab));
    ONEPASS_TRY(set_vocabulary(data, out));
    const auto chat = folder_chat_template(folder);
    if (chat) {
      ONEPASS_TRY(out.set("tokenizer.chat_template", *chat));
    } else if (chat.error().code != ErrorCode::not_found) {
      return chat.error();
    }
    return true;
  });
}

Result<bool> tokenizer_to_folder(const io::Gguf& file, const std::string& folder) {
  return guarded([&]() -> Result<bool> {
    if (file.find("tokenizer.ggml.tokens") == nullptr) return false;
    ONEPASS_ASSIGN(VocabularyData data, vocabulary_from_gguf(file));
    if (data.model != "llama" && data.model != "gpt2") {
      return not_convertible(
          "tokenizer.ggml.model",
          "'" + replace_invalid(data.model.substr(0, 64)) + "' has no form in tokenizer.json");
    }
    ONEPASS_ASSIGN(const Tokenizer wanted, Tokenizer::from_vocabulary(data));
    for (std::size_t i = 0; i < data.tokens.size(); ++i) {
      if (data.tokens[i].empty()) data.tokens[i] = "[EMPTY_" + std::to_string(i) + "]";
      if (!io::is_utf8(data.tokens[i])) {
        return not_convertible("tokenizer.ggml.tokens",
                               "token " + std::to_string(i) + " is not UTF-8");
      }
    }
    ONEPASS_ASSIGN(const std::string json, tokenizer_json(data, wanted));
    const std::string config = tokenizer_config(data, wanted, file);
    ONEPASS_ASSIGN(const Tokenizer made, Tokenizer::from_json(json, config));
    if (!same_ids(wanted, made)) {
      return not_convertible("tokenizer.ggml.tokens", "tokenizer.json would give other ids");
    }
    ONEPASS_TRY(os::write_file(folder + "/tokenizer.json", json));
    ONEPASS_TRY(os::write_file(folder + "/tokenizer_config.json", config));
    std::string ends;
    for (const auto& id : {data.ids.eos, data.ids.eot, data.ids.eom}) {
      if (id) ends += (ends.empty() ? "" : ", ") + std::to_string(*id);
    }
    if (data.ids.eot || data.ids.eom) {
      ONEPASS_TRY(os::write_file(folder + "/generation_config.json",
                                 "{\n  \"eos_token_id\": [" + ends + "]\n}\n"));
    }
    return true;
  });
}

}  // namespace onepass::llm
