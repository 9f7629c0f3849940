#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/guarded.h"
#include "io/json_text.h"
#include "model/architecture.h"
#include "model/convert.h"
#include "model/keys.h"

namespace onepass::llm {
namespace {

// Members of the object, one on each line.
class Members {
 public:
  void raw(std::string_view key, std::string_view value) {
    text_ += text_.empty() ? "{\n" : ",\n";
    text_ += "  " + io::json_text(key) + ": " + std::string(value);
  }
  void text(std::string_view key, std::string_view value) { raw(key, io::json_text(value)); }
  void number(std::string_view key, std::uint64_t value) { raw(key, std::to_string(value)); }
  void number(std::string_view key, float value) { raw(key, digits(value)); }
  void boolean(std::string_view key, bool value) { raw(key, value ? "true" : "false"); }
  void append(const std::string& member) {
    if (!member.empty()) text_ += ",\n  " + member;
  }
  std::string finish() { return text_ + "\n}\n"; }

  // Enough to read the same number back.
  static std::string digits(float value) {
    char text[32];
    for (int n = 6; n <= 9; ++n) {
      std::snprintf(text, sizeof text, "%.*g", n, static_cast<double>(value));
      if (std::strtof(text, nullptr) == value) break;
    }
    const std::string_view view = text;
    return std::string(view) + (view.find_first_of(".e") == view.npos ? ".0" : "");
  }

 private:
  std::string text_;
};

std::string list(const std::vector<float>& values) {
  std::string text;
  for (const float v : values) text += (text.empty() ? "[" : ", ") + Members::digits(v);
  return text + "]";
}

// The numbers that Llama 3's factors were made of.
Result<std::string> llama3_scaling(const RopeConfig& r, const std::vector<float>& factors) {
  const float factor = *std::max_element(factors.begin(), factors.end());
  for (std::uint32_t original = 1024; original <= (1u << 20); original *= 2) {
    const std::vector<float> trial = llama3_factors(
        r.dims, static_cast<double>(r.base), static_cast<double>(factor), 1.0, 4.0, original);
    const bool same = std::equal(trial.begin(), trial.end(), factors.begin(), factors.end(),
                                 [](float a, float b) { return std::fabs(a - b) <= 1e-4f * b; });
    // Any original context may give the same when no wave is short enough to tell.
    if (!same) continue;
    return "{\"rope_type\": \"llama3\", \"factor\": " + Members::digits(factor) +
           ", \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
           "\"original_max_position_embeddings\": " +
           std::to_string(original) + "}";
  }
  Error e = make_error(ErrorCode::unsupported,
                       "these factors of rotation are not those of Llama 3, and config.json has no "
                       "way to say them");
  e.field = "rope_freqs.weight";
  return e;
}

Result<std::string> rope_scaling(const ModelConfig& c, const std::vector<float>& factors) {
  const RopeConfig& r = c.rope;
  if (!factors.empty()) return llama3_scaling(r, factors);
  if (!r.long_factors.empty() && !r.short_factors.empty()) {
    return "{\"type\": \"longrope\", \"short_factor\": " + list(r.short_factors) +
           ", \"long_factor\": " + list(r.long_factors) + "}";
  }
  if (r.scaling.freq_scale == 1.0f) return std::string();
  const std::string factor = Members::digits(1.0f / r.scaling.freq_scale);
  if (r.scaling.ext_factor == 0.0f) {
    return "{\"rope_type\": \"linear\", \"factor\": " + factor + "}";
  }
  return "{\"rope_type\": \"yarn\", \"factor\": " + factor +
         ", \"original_max_position_embeddings\": " + std::to_string(r.scaling.n_ctx_orig) + "}";
}

// The numbers of the architecture's table.
void put_keys(const ModelConfig& c, Members& m) {
  for (const Key& key : c.architecture->keys) {
    if (key.json.empty()) continue;
    // Of two numbers with one name the latter is the one that the architecture uses.
    const auto behind = c.architecture->keys.subspan(
        static_cast<std::size_t>(&key - c.architecture->keys.data()) + 1);
    const auto same = [&](const Key& other) { return first_of(other.json) == first_of(key.json); };
    if (std::any_of(behind.begin(), behind.end(), same)) continue;
    double value = value_of(key, c);
    if (key.number == at<&ModelConfig::query_scalar> && value == 0.0) {
      const auto scale = static_cast<double>(c.attention_scale);
      value = scale == 0.0 ? c.head_dim : std::round(1.0 / (scale * scale));
    }
    const bool unsaid = key.fallback != nullptr && key.fallback(c) == 0.0;
    if (value == 0.0 && unsaid && key.flag == nullptr) continue;
    if (value == 0.0 && key.null_is_zero) {
      m.raw(first_of(key.json), "null");
    } else if (key.count != nullptr) {
      m.number(first_of(key.json), static_cast<std::uint64_t>(value));
    } else if (key.number != nullptr) {
      m.number(first_of(key.json), static_cast<float>(value));
    } else {
      m.boolean(first_of(key.json), value != 0.0);
    }
  }
}

void put_windows(const ModelConfig& c, Members& m) {
  if (c.local.empty()) return;
  std::string types;
  for (std::uint32_t i = 0; i < c.n_layers; ++i) {
    types += types.empty() ? "[" : ", ";
    types += c.is_local(i) ? "\"sliding_attention\"" : "\"full_attention\"";
  }
  m.raw("layer_types", types + "]");
  const auto full = std::find(c.local.begin(), c.local.end(), 0);
  m.number("sliding_window_pattern", static_cast<std::uint64_t>(full - c.local.begin()) + 1);
}

}  // namespace

Result<std::string> config_json(const ModelConfig& config, const io::Gguf& file,
                                const std::vector<float>& rope_factors, DType type, bool tied,
                                const std::string& quantization) {
  return guarded([&]() -> Result<std::string> {
    ModelConfig c = config;
    c.n_prediction_layers = 0;  // they are left out
    const Architecture& a = *c.architecture;
    Members m;
    const bool mixture = c.n_experts > 0 && !a.mixture_type.empty();
    m.raw("architectures", "[" + io::json_text(mixture ? a.mixture_class : a.class_name) + "]");
    m.text("model_type", mixture ? a.mixture_type : first_of(a.model_types));
    m.text("hidden_act", activation_names(a.activation).front());
    put_keys(c, m);
    if (c.rope.dims != c.head_dim) {
      m.number("partial_rotary_factor",
               static_cast<float>(c.rope.dims) / static_cast<float>(c.head_dim));
    }
    if (!c.rope.long_factors.empty()) {
      m.number("original_max_position_embeddings", std::uint64_t{c.rope.scaling.n_ctx_orig});
    }
    ONEPASS_ASSIGN(const std::string scaling, rope_scaling(c, rope_factors));
    if (!scaling.empty()) m.raw("rope_scaling", scaling);
    put_windows(c, m);
    m.boolean("attention_bias", file.find_tensor("blk.0.attn_q.bias") != nullptr);
    m.boolean("tie_word_embeddings", tied);
    for (const auto& [key, member] : {std::pair("tokenizer.ggml.bos_token_id", "bos_token_id"),
                                      std::pair("tokenizer.ggml.eos_token_id", "eos_token_id")}) {
      if (const auto id = file.integer(key)) m.number(member, *id);
    }
    m.text("torch_dtype", type == DType::f32    ? "float32"
                          : type == DType::bf16 ? "bfloat16"
                                                : "float16");
    m.append(quantization);
    return m.finish();
  });
}

}  // namespace onepass::llm
