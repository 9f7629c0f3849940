#include "model/config.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "core/guarded.h"
#include "model/architecture.h"
#include "model/keys.h"

namespace onepass::llm {
namespace {

using io::fail_at;
using io::Gguf;
using io::GgufType;
using io::GgufValue;

// Keys below `general.architecture`'s prefix.
class Keys final : public KeyReader {
 public:
  Keys(const Gguf& file, std::string_view prefix) : file_(file), prefix_(prefix) { prefix_ += '.'; }

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  // The value of a key, which is used then.
  const GgufValue* find(std::string_view key) const {
    const std::string k = full(key);
    used_.insert(k);
    return file_.find(k);
  }
  tl::unexpected<Error> refuse(ErrorCode code, std::string_view key, std::string message) const {
    const std::string k = full(key);
    const GgufValue* value = file_.find(k);
    return fail_at(code, std::move(message), value ? value->at : Error::no_offset, k);
  }
  Result<float> number_or(std::string_view key, double min, double max, float fallback) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return fallback;
    ONEPASS_ASSIGN(const double x, file_.number(full(key)));
    if (!(x >= min && x <= max)) {  // also what is not a number
      return refuse(ErrorCode::parse, key,
                    "is " + std::to_string(x) + ", expected " + std::to_string(min) + " to " +
                        std::to_string(max));
    }
    return static_cast<float>(x);
  }
  Result<std::uint32_t> count_or(std::string_view key, std::uint32_t max,
                                 std::uint32_t fallback) const {
    if (find(key) == nullptr) return fallback;
    ONEPASS_ASSIGN(const std::uint64_t n, file_.integer(full(key)));
    if (n == 0) return refuse(ErrorCode::parse, key, "is 0");
    if (n > max) {
      return refuse(ErrorCode::limit, key,
                    "is " + std::to_string(n) + ", at most " + std::to_string(max) + " is allowed");
    }
    return static_cast<std::uint32_t>(n);
  }

  std::string name_of(const Key& key) const override {
    return key.gguf.empty() ? std::string() : full(key.gguf);
  }
  bool has(const Key& key) const override { return !key.gguf.empty() && find(key.gguf) != nullptr; }
  bool is_null(const Key&) const override { return false; }
  Result<std::uint64_t> integer(const Key& key, const ModelConfig& c) const override {
    ONEPASS_ASSIGN(const std::vector<std::uint64_t> all, integers(key, c));
    for (const std::uint64_t n : all) {
      if (n != all[0]) return refuse(ErrorCode::unsupported, key.gguf, "layers differ");
    }
    return all[0];
  }
  Result<std::vector<std::uint64_t>> integers(const Key& key, const ModelConfig& c) const override {
    const std::string k = full(key.gguf);
    const GgufValue& value = *file_.find(k);
    std::vector<std::uint64_t> all;
    if (!key.per_layer || value.type != GgufType::array) {
      ONEPASS_ASSIGN(const std::uint64_t n, file_.integer(k));
      all.push_back(n);
      return all;
    }
    if (value.count != c.n_layers) return refuse_length(key.gguf, value.count, c.n_layers);
    for (std::uint64_t i = 0; i < value.count; ++i) {
      ONEPASS_ASSIGN(const std::uint64_t n, io::integer_at(value, i, k));
      all.push_back(n);
    }
    return all;
  }
  Result<double> number(const Key& key) const override { return file_.number(full(key.gguf)); }
  Result<bool> flag(const Key& key) const override { return file_.boolean(full(key.gguf)); }
  Result<double> missing(const Key& key) const override {
    if (key.count == at<&ModelConfig::vocab>) return count_tokens();
    return refuse(ErrorCode::not_found, key.gguf, "the file has no key " + full(key.gguf));
  }
  tl::unexpected<Error> refuse(ErrorCode code, const Key& key, std::string message) const override {
    return refuse(code, key.gguf, std::move(message));
  }
  tl::unexpected<Error> refuse_length(std::string_view key, std::uint64_t n,
                                      std::uint32_t layers) const {
    return refuse(ErrorCode::parse, key,
                  "has " + std::to_string(n) + " entries, the model has " + std::to_string(layers) +
                      " layers");
  }

  // Every key of the prefix was asked for, or need not be.
  Status check_all_used(const Architecture& a) const {
    for (const io::GgufEntry& e : file_.entries()) {
      if (!e.key.starts_with(prefix_) || used_.contains(e.key)) continue;
      const std::string_view key = e.key.substr(prefix_.size());
      const Harmless* h = find_harmless(a.harmless_keys, key);
      if (h == nullptr) h = find_harmless(common_harmless_keys(), key);
      ONEPASS_TRY(check_harmless(h, number_in(e.value), [&](std::string message) {
        return refuse(ErrorCode::unsupported, io::clipped(key), std::move(message));
      }));
    }
    return {};
  }

 private:
  // What no number is, is nothing.
  static std::optional<double> number_in(const GgufValue& v) {
    if (v.type == GgufType::boolean) return v.bytes[0] == std::byte{0} ? 0.0 : 1.0;
    if (v.type == GgufType::f32) {
      float value;
      std::memcpy(&value, v.bytes.data(), sizeof value);
      return static_cast<double>(value);
    }
    if (v.type == GgufType::f64) {
      double value;
      std::memcpy(&value, v.bytes.data(), sizeof value);
      return value;
    }
    if (v.type == GgufType::array || v.type == GgufType::string) return std::nullopt;
    if (const auto n = io::integer_at(v, 0, "")) return static_cast<double>(*n);
    return std::nullopt;
  }

  Result<double> count_tokens() const {
    constexpr const char* tokens = "tokenizer.ggml.tokens";
    ONEPASS_ASSIGN(const io::GgufStrings list, file_.strings(tokens));
    const std::uint64_t at = file_.find(tokens)->at;
    if (list.size() == 0) return fail_at(ErrorCode::parse, "is empty", at, tokens);
    if (list.size() > max_vocab) {
      return fail_at(ErrorCode::limit,
                     std::to_string(list.size()) + " tokens, at most " + std::to_string(max_vocab) +
                         " are allowed",
                     at, tokens);
    }
    return static_cast<double>(list.size());
  }

  const Gguf& file_;
  std::string prefix_;
  mutable std::set<std::string, std::less<>> used_;
};

Status read_rope(const Gguf& file, const Keys& keys, ModelConfig& c) {
  RopeConfig& r = c.rope;
  if (r.dims == 0) return {};
  r.mode = c.architecture->rope;
  if (c.architecture->rope_sections && keys.find("rope.dimension_sections") != nullptr) {
    r.mode = ops::RopeMode::neox;
  }
  if (r.dims > c.head_dim || r.dims % 2 != 0 ||
      (r.dims != c.head_dim && !c.architecture->partial_rotary)) {
    return keys.refuse(
        ErrorCode::unsupported, "rope.dimension_count",
        "is " + std::to_string(r.dims) + ", heads have " + std::to_string(c.head_dim));
  }
  if (r.dims_local > std::max(c.head_dim_local, c.head_dim) || r.dims_local % 2 != 0) {
    return keys.refuse(ErrorCode::unsupported, "rope.dimension_count_swa",
                       "is " + std::to_string(r.dims_local));
  }
  std::string type = "linear";
  if (keys.find("rope.scaling.type") != nullptr) {
    ONEPASS_ASSIGN(const std::string_view text, file.text(keys.full("rope.scaling.type")));
    type = text;
  }
  ONEPASS_ASSIGN(r.scaling.attn_factor,
                 keys.number_or("rope.scaling.attn_factor", 1e-3, 1e3, 1.0f));
  ONEPASS_ASSIGN(r.scaling.n_ctx_orig,
                 keys.count_or("rope.scaling.original_context_length", max_context, c.context));
  ONEPASS_ASSIGN(r.scaling.beta_fast,
                 keys.number_or("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0f));
  ONEPASS_ASSIGN(r.scaling.beta_slow,
                 keys.number_or("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0f));
  ONEPASS_ASSIGN(const float factor, keys.number_or("rope.scaling.factor", 0.0, 1e6, 1.0f));
  if (type == "none" || type == "longrope") return {};
  if (type != "linear" && type != "yarn") {
    return keys.refuse(ErrorCode::unsupported, "rope.scaling.type", "is " + io::clipped(type));
  }
  if (factor > 0.0f) r.scaling.freq_scale = 1.0f / factor;  // writers of 0 mean "none"
  if (type == "yarn") r.scaling.ext_factor = 1.0f;
  return {};
}

// A window for every layer but the last of each period, or for those that a list names.
Status read_windows(const Keys& keys, ModelConfig& c) {
  if (!c.architecture->window_pattern) return {};
  constexpr std::string_view pattern = "attention.sliding_window_pattern";
  std::uint32_t period = c.architecture->window_period;
  const GgufValue* value = keys.find(pattern);
  if (value != nullptr && value->type == GgufType::array) {
    if (value->count != c.n_layers) return keys.refuse_length(pattern, value->count, c.n_layers);
    for (std::uint32_t i = 0; i < c.n_layers; ++i) {
      std::uint64_t flag = 0;
      if (value->element == GgufType::boolean) {
        flag = std::to_integer<std::uint64_t>(value->bytes[i]);
      } else {
        ONEPASS_ASSIGN(flag, io::integer_at(*value, i, keys.full(pattern)));
      }
      if (flag > 1) {
        return keys.refuse(ErrorCode::parse, pattern, "has an entry that is neither 0 nor 1");
      }
      c.local.push_back(static_cast<std::uint8_t>(flag));
    }
  } else {
    ONEPASS_ASSIGN(period, keys.count_or(pattern, max_layers, period));
    if (c.architecture->window_number && value != nullptr) {
      c.local.assign(c.n_layers, 1);
    } else if (c.window > 0) {
      set_period(c, period);
    }
  }
  if (c.window == 0) c.local.clear();
  return {};
}

}  // namespace

Result<ModelConfig> read_config(const Gguf& file) {
  return guarded([&]() -> Result<ModelConfig> {
    constexpr const char* architecture_key = "general.architecture";
    ONEPASS_ASSIGN(const std::string_view architecture, file.text(architecture_key));
    ModelConfig c;
    c.architecture = find_architecture(architecture);
    if (c.architecture == nullptr) {
      std::string known;
      for (const Architecture* a : architectures()) known += " " + std::string(a->name);
      return fail_at(ErrorCode::unsupported,
                     "architecture " + io::clipped(architecture) + " is not supported, nearest: " +
                         std::string(nearest_architecture(architecture)) + ", known:" + known,
                     file.find(architecture_key)->at, architecture_key);
    }
    if (file.find("general.name") != nullptr) {
      ONEPASS_ASSIGN(const std::string_view name, file.text("general.name"));
      c.name = name;
    }
    const Keys keys(file, architecture);
    ONEPASS_TRY(read_keys(keys, c));
    c.n_prediction_layers = std::min(c.n_prediction_layers, c.n_layers - 1);
    c.n_layers -= c.n_prediction_layers;
    ONEPASS_TRY(read_rope(file, keys, c));
    ONEPASS_TRY(read_windows(keys, c));
    ONEPASS_TRY(finish_config(keys, c));
    ONEPASS_TRY(keys.check_all_used(*c.architecture));
    return c;
  });
}

}  // namespace onepass::llm
