#include "core/guarded.h"
#include "io/gguf.h"
#include "text/tokenizer/vocabulary.h"

namespace onepass::llm {
namespace {

using io::Gguf;
using io::GgufNumbers;
using io::GgufType;
using io::GgufValue;

class Keys {
 public:
  explicit Keys(const Gguf& file) : file_(file) {}

  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }
  Result<std::string> text(std::string_view key) const {
    ONEPASS_ASSIGN(const std::string_view value, file_.text(full(key)));
    return std::string(value);
  }
  Result<std::vector<std::string>> texts(std::string_view key) const {
    ONEPASS_ASSIGN(const io::GgufStrings values, file_.strings(full(key)));
    return std::vector<std::string>(values.begin(), values.end());
  }
  Result<std::optional<bool>> flag(std::string_view key) const {
    if (!has(key)) return std::optional<bool>();
    ONEPASS_ASSIGN(const bool value, file_.boolean(full(key)));
    return std::optional(value);
  }
  // 0xFFFFFFFF stays as it is: some files write it for "none".
  Result<std::optional<std::uint32_t>> id(std::string_view key) const {
    if (!has(key)) return std::optional<std::uint32_t>();
    ONEPASS_ASSIGN(const std::uint64_t value, file_.integer(full(key)));
    if (value <= 0xFFFFFFFFu) return std::optional(static_cast<std::uint32_t>(value));
    Error error = make_error(ErrorCode::parse, std::to_string(value) + " is no token id");
    error.field = full(key);
    return error;
  }
  // An array of f32, i32 or u32; another element type is an error.
  template <class T>
  Result<std::vector<T>> numbers(std::string_view key) const {
    const GgufValue* value = file_.find(full(key));
    if (value == nullptr) return std::vector<T>();
    if (value->type == GgufType::array && value->element == GgufType::i32) {
      return converted<T>(GgufNumbers<std::int32_t>(*value));
    }
    if (value->type == GgufType::array && value->element == GgufType::u32 &&
        std::is_integral_v<T>) {
      return converted<T>(GgufNumbers<std::uint32_t>(*value));
    }
    using Expected = std::conditional_t<std::is_integral_v<T>, std::int32_t, float>;
    ONEPASS_ASSIGN(const GgufNumbers<Expected> values, file_.numbers<Expected>(full(key)));
    return converted<T>(values);
  }

 private:
  static std::string full(std::string_view key) { return "tokenizer.ggml." + std::string(key); }
  template <class T, class Values>
  static std::vector<T> converted(const Values& values) {
    std::vector<T> out(static_cast<std::size_t>(values.size()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(values[i]);
    return out;
  }

  const Gguf& file_;
};

}  // namespace

Result<VocabularyData> vocabulary_from_gguf(const Gguf& file) {
  return guarded([&]() -> Result<VocabularyData> {
    const Keys keys(file);
    VocabularyData data;
    ONEPASS_ASSIGN(data.model, keys.text("model"));
    if (keys.has("pre")) {
      ONEPASS_ASSIGN(data.pre, keys.text("pre"));
    }
    if (const auto name = file.text("general.name")) data.model_name = *name;
    ONEPASS_ASSIGN(data.tokens, keys.texts("tokens"));
    ONEPASS_ASSIGN(data.scores, keys.numbers<float>("scores"));
    ONEPASS_ASSIGN(data.types, keys.numbers<std::int32_t>("token_type"));
    if (keys.has("merges")) {
      ONEPASS_ASSIGN(data.merges, keys.texts("merges"));
    }
    const std::pair<const char*, std::optional<std::uint32_t>*> ids[] = {
        {"bos_token_id", &data.ids.bos},
        {"eos_token_id", &data.ids.eos},
        {"eot_token_id", &data.ids.eot},
        {"eom_token_id", &data.ids.eom},
        {"unknown_token_id", &data.ids.unknown},
        {"padding_token_id", &data.ids.padding},
        {"seperator_token_id", &data.ids.separator},
        {"mask_token_id", &data.ids.mask}};
    for (const auto& [key, id] : ids) {
      ONEPASS_ASSIGN(*id, keys.id(key));
    }
    ONEPASS_ASSIGN(data.add_bos, keys.flag("add_bos_token"));
    ONEPASS_ASSIGN(data.add_eos, keys.flag("add_eos_token"));
    ONEPASS_ASSIGN(data.add_space_prefix, keys.flag("add_space_prefix"));
    return data;
  });
}

}  // namespace onepass::llm
