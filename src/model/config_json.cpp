#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/guarded.h"
#include "model/architecture.h"
#include "model/config.h"
#include "quant/affine.h"

namespace onepass::llm {
namespace {

using io::Json;
using io::JsonKind;

// The members of one object of the file. null counts as not there.
class Members {
 public:
  explicit Members(Json object) : object_(std::move(object)) {}

  Json at(std::string_view key) const { return object_[key]; }
  bool has(std::string_view key) const { return !at(key).is_null(); }

  tl::unexpected<Error> refuse(ErrorCode code, const char* key, std::string message) const {
    return at(key).error(code, std::move(message));
  }
  Result<Json> required(const char* key) const {
    Json value = at(key);
    if (value.is_null()) {
      return value.error(ErrorCode::not_found, "config.json has no " + value.path());
    }
    return value;
  }

  // An integer from min to max.
  Result<std::uint32_t> count(const char* key, std::uint32_t max, std::uint32_t min = 1) const {
    ONEPASS_ASSIGN(const Json value, required(key));
    ONEPASS_ASSIGN(const std::uint64_t n, value.integer(max));
    if (n < min) return value.error(ErrorCode::parse, "is " + std::to_string(n));
    return static_cast<std::uint32_t>(n);
  }
  Result<std::uint32_t> count_or(const char* key, std::uint32_t max, std::uint32_t fallback) const {
    if (!has(key)) return fallback;
    return count(key, max);
  }
  Result<float> number(const char* key, double min, double max) const {
    ONEPASS_ASSIGN(const Json value, required(key));
    const auto number = value.number();
    if (!number || !(*number >= min && *number <= max)) {
      return value.error(ErrorCode::parse, "is not a number from " + std::to_string(min) + " to " +
                                               std::to_string(max));
    }
    return static_cast<float>(*number);
  }
  Result<float> number_or(const char* key, double min, double max, float fallback) const {
    if (!has(key)) return fallback;
    return number(key, min, max);
  }
  Result<std::string> text(const char* key) const {
    ONEPASS_ASSIGN(const Json value, required(key));
    ONEPASS_ASSIGN(const std::string_view text, value.text());
    return std::string(text);
  }
  // n positive numbers.
  Result<std::vector<float>> factors(const char* key, std::size_t n) const {
    ONEPASS_ASSIGN(const Json value, required(key));
    if (!value.is(JsonKind::array) || value.size() != n) {
      return value.error(ErrorCode::parse, "is not an array of " + std::to_string(n) + " numbers");
    }
    std::vector<float> list;
    for (const Json item : value.items()) {
      const auto number = item.number();
      if (!number || !(*number > 1e-6 && *number < 1e6)) {
        return value.error(ErrorCode::parse, "has an entry that is not a positive number");
      }
      list.push_back(static_cast<float>(*number));
    }
    return list;
  }

 private:
  Json object_;
};

Status read_scaling(const Members& s, ModelConfig& c) {
  RopeConfig& r = c.rope;
  const char* type_key = s.has("rope_type") ? "rope_type" : "type";
  ONEPASS_ASSIGN(const std::string type, s.text(type_key));
  if (type == "default") return {};
  if (type == "linear") {
    ONEPASS_ASSIGN(const float factor, s.number("factor", 1e-3, 1e6));
    r.scaling.freq_scale = 1.0f / factor;
    return {};
  }
  if (type == "llama3") {
    ONEPASS_ASSIGN(const float factor, s.number("factor", 1e-3, 1e6));
    ONEPASS_ASSIGN(const float low, s.number("low_freq_factor", 1e-3, 1e6));
    ONEPASS_ASSIGN(const float high, s.number("high_freq_factor", 1e-3, 1e6));
    ONEPASS_ASSIGN(const std::uint32_t original,
                   s.count("original_max_position_embeddings", max_context));
    if (high <= low) {
      return s.refuse(ErrorCode::parse, "high_freq_factor", "is not above low_freq_factor");
    }
    const auto wide = [](float x) { return static_cast<double>(x); };
    r.factors = llama3_factors(r.dims, wide(r.base), wide(factor), wide(low), wide(high), original);
    return {};
  }
  if (type == "yarn") {
    ONEPASS_ASSIGN(const float factor, s.number("factor", 1.0, 1e6));
    ONEPASS_ASSIGN(r.scaling.n_ctx_orig,
                   s.count_or("original_max_position_embeddings", max_context, c.context));
    ONEPASS_ASSIGN(r.scaling.beta_fast, s.number_or("beta_fast", 1e-3, 1e6, 32.0f));
    ONEPASS_ASSIGN(r.scaling.beta_slow, s.number_or("beta_slow", 1e-3, 1e6, 1.0f));
    r.scaling.freq_scale = 1.0f / factor;
    r.scaling.ext_factor = 1.0f;
    return {};
  }
  if (type == "longrope" || type == "su") {
    ONEPASS_ASSIGN(r.short_factors, s.factors("short_factor", r.dims / 2));
    ONEPASS_ASSIGN(r.long_factors, s.factors("long_factor", r.dims / 2));
    const double scale = static_cast<double>(c.context) / static_cast<double>(r.scaling.n_ctx_orig);
    if (scale > 1.0) {
      r.scaling.attn_factor = static_cast<float>(
          std::sqrt(1.0 + std::log(scale) / std::log(static_cast<double>(r.scaling.n_ctx_orig))));
    }
    return {};
  }
  return s.refuse(ErrorCode::unsupported, type_key, "is " + io::clipped(type));
}

Status read_rope(const Members& m, ModelConfig& c) {
  RopeConfig& r = c.rope;
  r.mode = ops::RopeMode::neox;
  ONEPASS_ASSIGN(r.base, m.number_or("rope_theta", 1.0, 1e12, 10000.0f));
  ONEPASS_ASSIGN(r.base_local, m.number_or("rope_local_base_freq", 1.0, 1e12,
                                           c.architecture->window > 0 ? r.base : 10000.0f));
  ONEPASS_ASSIGN(const float part, m.number_or("partial_rotary_factor", 0.0, 1.0, 1.0f));
  r.dims = static_cast<std::uint32_t>(
      std::lround(static_cast<double>(part) * static_cast<double>(c.head_dim)));
  if (r.dims == 0 || r.dims % 2 != 0 || (r.dims < c.head_dim && !c.architecture->partial_rotary)) {
    return m.refuse(ErrorCode::unsupported, "partial_rotary_factor",
                    std::to_string(r.dims) + " of " + std::to_string(c.head_dim) +
                        " elements of a head would turn");
  }
  ONEPASS_ASSIGN(r.scaling.n_ctx_orig,
                 m.count_or("original_max_position_embeddings", max_context, c.context));
  const Json scaling = m.at("rope_scaling");
  if (scaling.is_null()) return {};
  if (!scaling.is(JsonKind::object)) return scaling.error(ErrorCode::parse, "is not an object");
  return read_scaling(Members(scaling), c);
}

Status read_windows(const Members& m, ModelConfig& c) {
  const std::uint32_t default_period = c.architecture->window_period;
  if (default_period == 0) return {};
  ONEPASS_ASSIGN(c.window, m.count_or("sliding_window", max_context, c.architecture->window));
  if (c.window == 0) return {};
  if (const Json types = m.at("layer_types"); !types.is_null()) {
    if (!types.is(JsonKind::array) || types.size() != c.n_layers) {
      return types.error(ErrorCode::parse,
                         "is not an array of " + std::to_string(c.n_layers) + " strings");
    }
    for (const Json item : types.items()) {
      const std::string_view type = item.text().value_or("");
      const bool local = type == "sliding_attention";
      if (!local && type != "full_attention") {
        return types.error(ErrorCode::unsupported, "has a layer of " + io::clipped(type));
      }
      c.local.push_back(local ? 1 : 0);
    }
    return {};
  }
  ONEPASS_ASSIGN(const std::uint32_t period,
                 m.count_or("sliding_window_pattern", max_layers, default_period));
  for (std::uint32_t i = 0; i < c.n_layers; ++i) c.local.push_back(i % period < period - 1 ? 1 : 0);
  return {};
}

Status read_heads(const Members& m, ModelConfig& c) {
  ONEPASS_ASSIGN(c.n_heads, m.count("num_attention_heads", max_heads));
  ONEPASS_ASSIGN(c.n_kv_heads, m.count_or("num_key_value_heads", max_heads, c.n_heads));
  if (c.n_heads % c.n_kv_heads != 0) {
    return m.refuse(ErrorCode::parse, "num_key_value_heads",
                    "is " + std::to_string(c.n_kv_heads) + ", which does not divide " +
                        std::to_string(c.n_heads) + " heads");
  }
  if (!m.has("head_dim") && c.dim % c.n_heads != 0) {
    return m.refuse(ErrorCode::parse, "num_attention_heads",
                    "is " + std::to_string(c.n_heads) + ", which does not divide rows of " +
                        std::to_string(c.dim));
  }
  ONEPASS_ASSIGN(c.head_dim, m.count_or("head_dim", max_width, c.dim / c.n_heads));
  if (c.head_dim % 2 != 0 || std::uint64_t{c.head_dim} * c.n_heads > max_width) {
    return m.refuse(ErrorCode::parse, "num_attention_heads",
                    std::to_string(c.n_heads) + " heads of " + std::to_string(c.head_dim));
  }
  if (c.architecture->wide_layers != 0) {
    ONEPASS_ASSIGN(const float scalar,
                   m.number_or("query_pre_attn_scalar", 1e-3, 1e6, static_cast<float>(c.head_dim)));
    c.attention_scale = 1.0f / std::sqrt(scalar);
  }
  return {};
}

Status check_activation(const Members& m, const ModelConfig& c) {
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    if (!m.has(key)) continue;
    ONEPASS_ASSIGN(const std::string name, m.text(key));
    const std::string_view act = name;
    const bool known =
        c.architecture->post_norms ? act == "gelu_pytorch_tanh" || act == "gelu" : act == "silu";
    if (!known) return m.refuse(ErrorCode::unsupported, key, "is " + io::clipped(name));
  }
  return {};
}

Result<AffineFormat> read_format(const Members& m, const AffineFormat& fallback) {
  AffineFormat f;
  if (m.has("mode")) {
    ONEPASS_ASSIGN(const std::string mode, m.text("mode"));
    if (mode != "affine")
      return m.refuse(ErrorCode::unsupported, "mode", "is " + io::clipped(mode));
  }
  ONEPASS_ASSIGN(f.bits, m.count_or("bits", 64, fallback.bits));
  ONEPASS_ASSIGN(f.group_size, m.count_or("group_size", 1u << 16, fallback.group_size));
  if (!quant::is_affine_bits(f.bits)) {
    return m.refuse(ErrorCode::unsupported, "bits",
                    "is " + std::to_string(f.bits) + ", expected " + quant::affine_bits_names);
  }
  if (!quant::is_affine_group(f.group_size)) {
    return m.refuse(
        ErrorCode::unsupported, "group_size",
        "is " + std::to_string(f.group_size) + ", expected " + quant::affine_group_names);
  }
  return f;
}

}  // namespace

std::vector<float> llama3_factors(std::uint32_t dims, double base, double factor, double low,
                                  double high, double original) {
  std::vector<float> list;
  for (std::uint32_t i = 0; i < dims / 2; ++i) {
    const double wave =
        2.0 * std::numbers::pi * std::pow(base, 2.0 * static_cast<double>(i) / dims);
    const double smooth = std::clamp((original / wave - low) / (high - low), 0.0, 1.0);
    list.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
  }
  return list;
}

Result<Quantization> read_quantization(const Json& json) {
  return guarded([&]() -> Result<Quantization> {
    Quantization q;
    const Members root(json);
    const Json object = root.at(root.has("quantization") ? "quantization" : "quantization_config");
    if (object.is_null()) return q;
    if (!object.is(JsonKind::object)) return object.error(ErrorCode::parse, "is not an object");
    const Members all(object);
    if (all.has("quant_method")) {
      ONEPASS_ASSIGN(const std::string method, all.text("quant_method"));
      return all.refuse(ErrorCode::unsupported, "quant_method", "is " + io::clipped(method));
    }
    ONEPASS_TRY(all.required("bits"));
    ONEPASS_ASSIGN(q.all, read_format(all, {}));
    q.any = true;
    for (const auto& [path, value] : object.members()) {
      if (path == "bits" || path == "group_size" || path == "mode") continue;
      Quantization::Module module{std::string(path), true, q.all};
      if (value.is(JsonKind::boolean)) {
        module.quantized = *value.boolean();
      } else if (value.is(JsonKind::object)) {
        ONEPASS_ASSIGN(module.format, read_format(Members(value), q.all));
      } else {
        return value.error(ErrorCode::parse, "is neither true, false nor an object");
      }
      q.modules.push_back(std::move(module));
    }
    std::sort(q.modules.begin(), q.modules.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    return q;
  });
}

Result<ModelConfig> read_config(const Json& json) {
  return guarded([&]() -> Result<ModelConfig> {
    if (!json.is(JsonKind::object)) {
      return io::fail_at(ErrorCode::parse, "config.json is not an object", 0, "config.json");
    }
    const Members m(json);
    ModelConfig c;
    ONEPASS_ASSIGN(const std::string type, m.text("model_type"));
    c.architecture = find_model_type(type);
    if (c.architecture == nullptr) {
      std::string known;
      for (const Architecture& a : architectures()) {
        if (!a.model_types.empty()) known += " " + std::string(a.model_types);
      }
      return m.refuse(ErrorCode::unsupported, "model_type",
                      "is " + io::clipped(type) + ", known:" + known);
    }
    for (const char* key : {"num_local_experts", "num_experts"}) {
      if (m.has(key)) {
        return m.refuse(ErrorCode::unsupported, key,
                        "mixtures of experts run from GGUF files only");
      }
    }
    c.name = type;
    ONEPASS_ASSIGN(c.n_layers, m.count("num_hidden_layers", max_layers));
    ONEPASS_ASSIGN(c.dim, m.count("hidden_size", max_width));
    ONEPASS_ASSIGN(c.ffn_dim, m.count("intermediate_size", max_width));
    ONEPASS_ASSIGN(c.vocab, m.count("vocab_size", max_vocab));
    ONEPASS_ASSIGN(c.context, m.count("max_position_embeddings", max_context));
    ONEPASS_TRY(read_heads(m, c));
    ONEPASS_ASSIGN(c.norm_eps, m.number("rms_norm_eps", 0.0, 1.0));
    ONEPASS_TRY(read_rope(m, c));
    ONEPASS_TRY(read_windows(m, c));
    if (c.architecture->post_norms) c.embedding_scale = std::sqrt(static_cast<float>(c.dim));
    // Absent: as published; null: none.
    const auto softcap = [&](const char* key, float published) {
      return m.number_or(key, 0.0, 1e6, json[key].is_missing() ? published : 0.0f);
    };
    ONEPASS_ASSIGN(c.attention_softcap,
                   softcap("attn_logit_softcapping", c.architecture->attention_softcap));
    ONEPASS_ASSIGN(c.final_softcap,
                   softcap("final_logit_softcapping", c.architecture->final_softcap));
    ONEPASS_TRY(check_activation(m, c));
    return c;
  });
}

}  // namespace onepass::llm
