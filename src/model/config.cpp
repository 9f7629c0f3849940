#include "model/config.h"

#include <cmath>
#include <limits>
#include <string>

#include "core/guarded.h"
#include "model/architecture.h"

namespace onepass::llm {
namespace {

using io::fail_at;
using io::Gguf;
using io::GgufType;
using io::GgufValue;

// Keys below `general.architecture`'s prefix.
class Keys {
 public:
  Keys(const Gguf& file, std::string_view prefix) : file_(file), prefix_(prefix) { prefix_ += '.'; }

  std::string full(const char* key) const { return prefix_ + key; }
  bool has(const char* key) const { return file_.find(full(key)) != nullptr; }

  // An integer from 1 to max. An array with one entry per layer counts when all are equal.
  Result<std::uint32_t> count(const char* key, std::uint32_t max,
                              std::uint32_t n_layers = 0) const {
    const std::string k = full(key);
    const GgufValue* value = file_.find(k);
    if (n_layers == 0 || value == nullptr || value->type != GgufType::array) {
      ONEPASS_ASSIGN(const std::uint64_t n, file_.integer(k));
      return in_range(k, n, max, value->at);
    }
    if (value->count != n_layers) {
      return fail_at(ErrorCode::parse,
                     "has " + std::to_string(value->count) + " entries, the model has " +
                         std::to_string(n_layers) + " layers",
                     value->at, k);
    }
    ONEPASS_ASSIGN(const std::uint64_t first, io::integer_at(*value, 0, k));
    for (std::uint64_t i = 1; i < value->count; ++i) {
      ONEPASS_ASSIGN(const std::uint64_t n, io::integer_at(*value, i, k));
      if (n != first) {
        return fail_at(ErrorCode::unsupported, "layers differ", value->at, k);
      }
    }
    return in_range(k, first, max, value->at);
  }
  Result<std::uint32_t> count_or(const char* key, std::uint32_t max, std::uint32_t fallback,
                                 std::uint32_t n_layers = 0) const {
    if (!has(key)) return fallback;
    return count(key, max, n_layers);
  }

  // An integer up to max; 0 is allowed.
  Result<std::uint32_t> number_of(const char* key, std::uint32_t max) const {
    const std::string k = full(key);
    ONEPASS_ASSIGN(const std::uint64_t n, file_.integer(k));
    if (n == 0) return 0u;
    return in_range(k, n, max, file_.find(k)->at);
  }

  // A finite number from min to max.
  Result<float> number(const char* key, double min, double max) const {
    const std::string k = full(key);
    ONEPASS_ASSIGN(const double x, file_.number(k));
    if (!(x >= min && x <= max)) {  // also what is not a number
      return fail_at(ErrorCode::parse,
                     "is " + std::to_string(x) + ", expected " + std::to_string(min) + " to " +
                         std::to_string(max),
                     file_.find(k)->at, k);
    }
    return static_cast<float>(x);
  }
  Result<float> number_or(const char* key, double min, double max, float fallback) const {
    if (!has(key)) return fallback;
    return number(key, min, max);
  }

  tl::unexpected<Error> refuse(ErrorCode code, const char* key, std::string message) const {
    const std::string k = full(key);
    const GgufValue* value = file_.find(k);
    return fail_at(code, std::move(message), value ? value->at : Error::no_offset, k);
  }

 private:
  static Result<std::uint32_t> in_range(const std::string& key, std::uint64_t n, std::uint32_t max,
                                        std::uint64_t at) {
    if (n == 0) return fail_at(ErrorCode::parse, "is 0", at, key);
    if (n > max) {
      return fail_at(ErrorCode::limit,
                     "is " + std::to_string(n) + ", at most " + std::to_string(max) + " is allowed",
                     at, key);
    }
    return static_cast<std::uint32_t>(n);
  }

  const Gguf& file_;
  std::string prefix_;
};

Result<std::uint32_t> read_vocab(const Gguf& file, const Keys& keys) {
  if (keys.has("vocab_size")) return keys.count("vocab_size", max_vocab);
  constexpr const char* tokens = "tokenizer.ggml.tokens";
  ONEPASS_ASSIGN(const io::GgufStrings list, file.strings(tokens));
  if (list.size() == 0) return fail_at(ErrorCode::parse, "is empty", file.find(tokens)->at, tokens);
  if (list.size() > max_vocab) {
    return fail_at(ErrorCode::limit,
                   std::to_string(list.size()) + " tokens, at most " + std::to_string(max_vocab) +
                       " are allowed",
                   file.find(tokens)->at, tokens);
  }
  return static_cast<std::uint32_t>(list.size());
}

Status read_rope(const Gguf& file, const Keys& keys, ModelConfig& c) {
  RopeConfig& r = c.rope;
  r.mode = c.architecture->rope;
  ONEPASS_ASSIGN(r.base, keys.number_or("rope.freq_base", 1.0, 1e12, 10000.0f));
  r.base_local = c.architecture->window > 0 ? r.base : 10000.0f;
  ONEPASS_ASSIGN(r.base_local, keys.number_or("rope.freq_base_swa", 1.0, 1e12, r.base_local));
  ONEPASS_ASSIGN(r.dims, keys.count_or("rope.dimension_count", max_width, c.head_dim));
  if (r.dims > c.head_dim || r.dims % 2 != 0 ||
      (r.dims != c.head_dim && !c.architecture->partial_rotary)) {
    return keys.refuse(
        ErrorCode::unsupported, "rope.dimension_count",
        "is " + std::to_string(r.dims) + ", heads have " + std::to_string(c.head_dim));
  }
  std::string type = "linear";
  if (keys.has("rope.scaling.type")) {
    ONEPASS_ASSIGN(const std::string_view text, file.text(keys.full("rope.scaling.type")));
    type = text;
  }
  ONEPASS_ASSIGN(r.scaling.attn_factor,
                 keys.number_or("rope.scaling.attn_factor", 1e-3, 1e3, 1.0f));
  ONEPASS_ASSIGN(r.scaling.n_ctx_orig,
                 keys.count_or("rope.scaling.original_context_length", max_context, c.context));
  if (type == "none" || type == "longrope") return {};
  if (type != "linear" && type != "yarn") {
    return keys.refuse(ErrorCode::unsupported, "rope.scaling.type", "is " + type);
  }
  ONEPASS_ASSIGN(const float factor, keys.number_or("rope.scaling.factor", 0.0, 1e6, 1.0f));
  if (factor > 0.0f) r.scaling.freq_scale = 1.0f / factor;  // writers of 0 mean "none"
  if (type == "yarn") r.scaling.ext_factor = 1.0f;
  return {};
}

// A window for every layer but the last of each period, or for those that a list names.
Status read_windows(const Gguf& file, const Keys& keys, ModelConfig& c) {
  if (c.architecture->window_period == 0) return {};
  c.window = c.architecture->window;
  if (keys.has("attention.sliding_window")) {
    ONEPASS_ASSIGN(c.window, keys.number_of("attention.sliding_window", max_context));
  }
  if (c.window == 0) return {};
  std::uint32_t period = c.architecture->window_period;
  constexpr const char* pattern = "attention.sliding_window_pattern";
  if (const GgufValue* value = file.find(keys.full(pattern))) {
    if (value->type == GgufType::array) {
      ONEPASS_ASSIGN(const GgufValue list, file.array(keys.full(pattern), GgufType::boolean));
      if (list.count != c.n_layers) {
        return keys.refuse(ErrorCode::parse, pattern,
                           "has " + std::to_string(list.count) + " entries, the model has " +
                               std::to_string(c.n_layers) + " layers");
      }
      for (const std::byte flag : list.bytes)
        c.local.push_back(std::to_integer<std::uint8_t>(flag));
      return {};
    }
    ONEPASS_ASSIGN(period, keys.count(pattern, max_layers));
  }
  for (std::uint32_t i = 0; i < c.n_layers; ++i) c.local.push_back(i % period < period - 1 ? 1 : 0);
  return {};
}

Status read_experts(const Keys& keys, ModelConfig& c) {
  const Experts experts = c.architecture->experts;
  if (keys.has("expert_count")) {
    ONEPASS_ASSIGN(c.n_experts, keys.number_of("expert_count", max_experts));
  }
  if (c.n_experts == 0) {
    if (experts != Experts::required) return {};
    return keys.refuse(keys.has("expert_count") ? ErrorCode::parse : ErrorCode::not_found,
                       "expert_count", "the architecture has experts");
  }
  if (experts == Experts::none) {
    return keys.refuse(ErrorCode::unsupported, "expert_count",
                       "is " + std::to_string(c.n_experts) + ", the architecture has no experts");
  }
  ONEPASS_ASSIGN(c.n_experts_used, keys.count("expert_used_count", c.n_experts));
  c.expert_ffn_dim = c.ffn_dim;
  if (experts == Experts::required) {
    ONEPASS_ASSIGN(c.expert_ffn_dim, keys.count_or("expert_feed_forward_length", max_width,
                                                   c.ffn_dim / c.n_experts_used));
    if (c.expert_ffn_dim == 0) {
      return keys.refuse(ErrorCode::parse, "expert_used_count",
                         "is " + std::to_string(c.n_experts_used) + ", more than the rows of " +
                             std::to_string(c.ffn_dim));
    }
  }
  return {};
}

Status read_heads(const Keys& keys, ModelConfig& c) {
  ONEPASS_ASSIGN(c.n_heads, keys.count("attention.head_count", max_heads, c.n_layers));
  ONEPASS_ASSIGN(c.n_kv_heads,
                 keys.count_or("attention.head_count_kv", max_heads, c.n_heads, c.n_layers));
  if (c.n_heads % c.n_kv_heads != 0) {
    return keys.refuse(ErrorCode::parse, "attention.head_count_kv",
                       "is " + std::to_string(c.n_kv_heads) + ", which does not divide " +
                           std::to_string(c.n_heads) + " heads");
  }
  if (!keys.has("attention.key_length") && c.dim % c.n_heads != 0) {
    return keys.refuse(ErrorCode::parse, "attention.head_count",
                       "is " + std::to_string(c.n_heads) + ", which does not divide rows of " +
                           std::to_string(c.dim));
  }
  ONEPASS_ASSIGN(c.head_dim, keys.count_or("attention.key_length", max_width, c.dim / c.n_heads));
  ONEPASS_ASSIGN(const std::uint32_t value_dim,
                 keys.count_or("attention.value_length", max_width, c.head_dim));
  if (value_dim != c.head_dim) {
    return keys.refuse(
        ErrorCode::unsupported, "attention.value_length",
        "is " + std::to_string(value_dim) + ", keys have " + std::to_string(c.head_dim));
  }
  if (c.head_dim == 0 || c.head_dim % 2 != 0 || std::uint64_t{c.head_dim} * c.n_heads > max_width) {
    return keys.refuse(ErrorCode::parse, "attention.head_count",
                       std::to_string(c.n_heads) + " heads of " + std::to_string(c.head_dim));
  }
  if (c.architecture->wide_layers != 0 && c.n_layers == c.architecture->wide_layers) {
    c.attention_scale = 1.0f / std::sqrt(static_cast<float>(c.dim) / static_cast<float>(c.n_heads));
  }
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
      for (const Architecture& a : architectures()) known += " " + std::string(a.name);
      return fail_at(ErrorCode::unsupported,
                     "architecture " + io::clipped(architecture) + ", known:" + known,
                     file.find(architecture_key)->at, architecture_key);
    }
    if (file.find("general.name") != nullptr) {
      ONEPASS_ASSIGN(const std::string_view name, file.text("general.name"));
      c.name = name;
    }
    const Keys keys(file, architecture);
    ONEPASS_ASSIGN(c.n_layers, keys.count("block_count", max_layers));
    ONEPASS_ASSIGN(c.dim, keys.count("embedding_length", max_width));
    ONEPASS_ASSIGN(c.ffn_dim, keys.count("feed_forward_length", max_width, c.n_layers));
    ONEPASS_ASSIGN(c.context, keys.count("context_length", max_context));
    ONEPASS_TRY(read_heads(keys, c));
    ONEPASS_ASSIGN(c.norm_eps, keys.number("attention.layer_norm_rms_epsilon", 0.0, 1.0));
    ONEPASS_TRY(read_rope(file, keys, c));
    ONEPASS_TRY(read_windows(file, keys, c));
    ONEPASS_ASSIGN(c.vocab, read_vocab(file, keys));
    ONEPASS_TRY(read_experts(keys, c));
    if (c.architecture->post_norms) c.embedding_scale = std::sqrt(static_cast<float>(c.dim));
    if (c.architecture->attention_softcap > 0.0f) {
      ONEPASS_ASSIGN(c.attention_softcap, keys.number_or("attn_logit_softcapping", 1e-3, 1e6,
                                                         c.architecture->attention_softcap));
    }
    ONEPASS_ASSIGN(c.final_softcap, keys.number_or("final_logit_softcapping", 0.0, 1e6,
                                                   c.architecture->final_softcap));
    return c;
  });
}

}  // namespace onepass::llm
