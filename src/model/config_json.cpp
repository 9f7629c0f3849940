#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <set>
#include <string>

#include "core/guarded.h"
#include "model/architecture.h"
#include "model/config.h"
#include "model/keys.h"
#include "quant/affine.h"

namespace onepass::llm {
namespace {

using io::Json;
using io::JsonKind;

// The members of one object of the file. null counts as not there. Those asked for are used.
class Members {
 public:
  explicit Members(Json object) : object_(std::move(object)) {}

  Json at(std::string_view key) const {
    used_.emplace(key);
    const Json value = object_[key];
    if (!value.is_missing()) return value;
    // Newer files have what turns heads in one object, or in one for each kind of layer.
    if (key == "rope_theta" || key == "partial_rotary_factor") return rotation()[key];
    if (key == "rope_local_base_freq") return local_rotation()["rope_theta"];
    return value;
  }
  Json rotation() const {
    used_.emplace("rope_parameters");
    const Json all = object_["rope_parameters"], full = all["full_attention"];
    return full.is_missing() ? all : full;
  }
  Json local_rotation() const { return object_["rope_parameters"]["sliding_attention"]; }
  bool has(std::string_view key) const { return !at(key).is_null(); }

  tl::unexpected<Error> refuse(ErrorCode code, std::string_view key, std::string message) const {
    return at(key).error(code, std::move(message));
  }
  Result<Json> required(std::string_view key) const {
    Json value = at(key);
    if (value.is_null()) {
      return value.error(ErrorCode::not_found, "config.json has no " + value.path());
    }
    return value;
  }
  // Every member was asked for, or need not be.
  Status check_all_used(std::span<const Harmless> harmless) const {
    for (const auto& [key, value] : object_.members()) {
      if (used_.contains(key) || value.is_null()) continue;
      std::optional<double> number;
      if (const auto flag = value.boolean()) number = *flag ? 1.0 : 0.0;
      if (const auto n = value.number()) number = *n;
      if (value.is(JsonKind::array) && value.size() == 0) number = 0.0;
      ONEPASS_TRY(check_harmless(find_harmless(harmless, key), number,
                                 [&value = value](std::string message) {
                                   return value.error(ErrorCode::unsupported, std::move(message));
                                 }));
    }
    return {};
  }

  // An integer from min to max.
  Result<std::uint32_t> count(std::string_view key, std::uint32_t max,
                              std::uint32_t min = 1) const {
    ONEPASS_ASSIGN(const Json value, required(key));
    ONEPASS_ASSIGN(const std::uint64_t n, value.integer(max));
    if (n < min) return value.error(ErrorCode::parse, "is " + std::to_string(n));
    return static_cast<std::uint32_t>(n);
  }
  Result<std::uint32_t> count_or(std::string_view key, std::uint32_t max,
                                 std::uint32_t fallback) const {
    if (!has(key)) return fallback;
    return count(key, max);
  }
  Result<float> number(std::string_view key, double min, double max) const {
    ONEPASS_ASSIGN(const Json value, required(key));
    const auto number = value.number();
    if (!number || !(*number >= min && *number <= max)) {
      return value.error(ErrorCode::parse, "is not a number from " + std::to_string(min) + " to " +
                                               std::to_string(max));
    }
    return static_cast<float>(*number);
  }
  Result<float> number_or(std::string_view key, double min, double max, float fallback) const {
    if (!has(key)) return fallback;
    return number(key, min, max);
  }
  Result<std::string> text(std::string_view key) const {
    ONEPASS_ASSIGN(const Json value, required(key));
    ONEPASS_ASSIGN(const std::string_view text, value.text());
    return std::string(text);
  }
  // n positive numbers.
  Result<std::vector<float>> factors(std::string_view key, std::size_t n) const {
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
  mutable std::set<std::string, std::less<>> used_;
};

class JsonKeys final : public KeyReader {
 public:
  explicit JsonKeys(const Members& members) : m_(members) {}
  std::string name_of(const Key& key) const override { return std::string(member(key)); }
  bool has(const Key& key) const override { return !key.json.empty() && m_.has(member(key)); }
  bool is_null(const Key& key) const override {
    if (key.json.empty()) return false;
    const Json value = m_.at(member(key));
    return !value.is_missing() && value.is_null();
  }
  Result<std::uint64_t> integer(const Key& key, const ModelConfig&) const override {
    return m_.at(member(key)).integer();
  }
  Result<double> number(const Key& key) const override {
    const Json value = m_.at(member(key));
    const auto number = value.number();
    if (!number) return value.error(ErrorCode::parse, "is not a number");
    return *number;
  }
  Result<bool> flag(const Key& key) const override { return m_.at(member(key)).boolean(); }
  Result<double> missing(const Key& key) const override {
    ONEPASS_TRY(m_.required(member(key)));
    return 0.0;
  }
  tl::unexpected<Error> refuse(ErrorCode code, const Key& key, std::string message) const override {
    return m_.refuse(code, member(key), std::move(message));
  }

 private:
  // Of the names that a key has, the one that the file has, else the first.
  std::string_view member(const Key& key) const {
    for (const std::string_view word : words_of(key.json)) {
      if (m_.has(word)) return word;
    }
    return first_of(key.json);
  }

  const Members& m_;
};

constexpr Harmless harmless_scaling[] = {
    {"original_max_position_embeddings", "the factors are made for it"},
    {"truncate", "YaRN's bounds are whole numbers", 1.0},
    {"rope_theta", "read with the numbers of the model"},
    {"partial_rotary_factor", "likewise"},
};

Status read_scaling(const Members& s, ModelConfig& c) {
  RopeConfig& r = c.rope;
  const char* type_key = s.has("rope_type") ? "rope_type" : "type";
  ONEPASS_ASSIGN(const std::string type, s.text(type_key));
  for (const char* other : {"rope_type", "type"})
    static_cast<void>(s.has(other));  // both are known
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
    const float usual = 1.0f + 0.1f * std::log(factor);
    ONEPASS_ASSIGN(const float magnitude, s.number_or("attention_factor", 1e-3, 1e3, usual));
    r.scaling.attn_factor = magnitude / usual;
    return {};
  }
  if (type == "longrope" || type == "su") {
    ONEPASS_ASSIGN(r.short_factors, s.factors("short_factor", r.dims / 2));
    ONEPASS_ASSIGN(r.long_factors, s.factors("long_factor", r.dims / 2));
    ONEPASS_ASSIGN(r.scaling.n_ctx_orig, s.count_or("original_max_position_embeddings", max_context,
                                                    r.scaling.n_ctx_orig));
    const auto original = static_cast<double>(r.scaling.n_ctx_orig);
    ONEPASS_ASSIGN(const float scale,
                   s.number_or("factor", 1e-3, 1e6, static_cast<float>(c.context / original)));
    const double usual =
        scale > 1.0f ? std::sqrt(1.0 + std::log(static_cast<double>(scale)) / std::log(original))
                     : 1.0;
    ONEPASS_ASSIGN(r.scaling.attn_factor,
                   s.number_or("attention_factor", 1e-3, 1e3, static_cast<float>(usual)));
    return {};
  }
  return s.refuse(ErrorCode::unsupported, type_key, "is " + io::clipped(type));
}

Status read_rope(const Members& m, ModelConfig& c) {
  RopeConfig& r = c.rope;
  const Architecture& a = *c.architecture;
  r.mode = a.rope == ops::RopeMode::interleaved && !pairs_rows(a) ? a.rope : ops::RopeMode::neox;
  ONEPASS_ASSIGN(const float part, m.number_or("partial_rotary_factor", 0.0, 1.0, 1.0f));
  r.dims = static_cast<std::uint32_t>(
      std::lround(static_cast<double>(part) * static_cast<double>(c.head_dim)));
  ONEPASS_ASSIGN(r.dims, m.count_or("rotary_dim", c.head_dim, r.dims));
  if (r.dims == 0 || r.dims % 2 != 0 || (r.dims < c.head_dim && !c.architecture->partial_rotary)) {
    return m.refuse(ErrorCode::unsupported, "partial_rotary_factor",
                    std::to_string(r.dims) + " of " + std::to_string(c.head_dim) +
                        " elements of a head would turn");
  }
  ONEPASS_ASSIGN(r.scaling.n_ctx_orig,
                 m.count_or("original_max_position_embeddings", max_context, c.context));
  // Layers with a window are never scaled.
  const Json local = m.local_rotation();
  if (!local.is_null()) {
    const Members members(local);
    ONEPASS_ASSIGN(const std::string type, members.text("rope_type"));
    const bool own_base = local["rope_theta"].number().value_or(0.0) != static_cast<double>(r.base);
    if (type != "default" || (own_base && c.architecture->scaled_windows)) {
      return local.error(ErrorCode::unsupported, "turns heads in a way of its own");
    }
    ONEPASS_TRY(members.check_all_used(harmless_scaling));
  }
  const Json scaling = m.has("rope_scaling") ? m.at("rope_scaling") : m.rotation();
  if (scaling.is_null()) return {};
  if (!scaling.is(JsonKind::object)) return scaling.error(ErrorCode::parse, "is not an object");
  const Members members(scaling);
  ONEPASS_TRY(read_scaling(members, c));
  return members.check_all_used(harmless_scaling);
}

// A list says which layers have a window, or a period does.
Status read_windows(const Members& m, ModelConfig& c) {
  const bool windows = c.architecture->window_pattern && c.window > 0;
  const std::uint32_t published = c.architecture->window_period;
  std::uint32_t period = published;
  if (c.architecture->window_pattern) {
    for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"}) {
      if (const auto letters = m.at(key).text()) {  // LLLG
        if (letters->find('G') + 1 != letters->size() || letters->size() > max_layers) {
          return m.refuse(ErrorCode::unsupported, key, "is " + io::clipped(*letters));
        }
        period = static_cast<std::uint32_t>(letters->size());
        continue;
      }
      if (m.at(key).integer().value_or(1) == 0) continue;  // says that there are no windows
      ONEPASS_ASSIGN(period, m.count_or(key, max_layers, period));
    }
  }
  const Json types = m.at("layer_types");
  if (types.is_null()) {
    if (windows) set_period(c, period);
    return {};
  }
  if (!types.is(JsonKind::array) || types.size() != c.n_layers) {
    return types.error(ErrorCode::parse,
                       "is not an array of " + std::to_string(c.n_layers) + " strings");
  }
  for (const Json item : types.items()) {
    const std::string_view type = item.text().value_or("");
    const bool local = type == "sliding_attention";
    if (type != "full_attention" && !(local && c.architecture->window_pattern)) {
      return types.error(ErrorCode::unsupported, "has a layer of " + io::clipped(type));
    }
    if (windows) c.local.push_back(local ? 1 : 0);
  }
  return {};
}

// A list of layers whose heads turn says what the architecture's table does.
Status check_still_layers(const Members& m, const ModelConfig& c) {
  const Json list = m.at("no_rope_layers");
  if (list.is_null()) return {};
  const std::vector<std::uint8_t>& still = c.rope.still;
  bool same = list.is(JsonKind::array) && list.size() == c.n_layers;
  std::size_t i = 0;
  for (const Json item : list.items()) {
    const auto turns = item.integer();
    same = same && turns && (*turns == 0) == (i < still.size() && still[i] != 0);
    ++i;
  }
  if (same) return {};
  return m.refuse(ErrorCode::unsupported, "no_rope_layers", "is not the list of this architecture");
}

Status check_activation(const Members& m, const ModelConfig& c) {
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    if (!m.has(key)) continue;
    ONEPASS_ASSIGN(const std::string name, m.text(key));
    const std::span<const std::string_view> known = activation_names(c.architecture->activation);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return m.refuse(ErrorCode::unsupported, key, "is " + io::clipped(name));
    }
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
      for (const Architecture* a : architectures()) {
        if (!a->model_types.empty()) known += " " + std::string(a->model_types);
      }
      return m.refuse(ErrorCode::unsupported, "model_type",
                      "is " + io::clipped(type) + ", which is not supported, nearest: " +
                          std::string(nearest_model_type(type)) + ", known:" + known);
    }
    c.name = type;
    const JsonKeys keys(m);
    ONEPASS_TRY(read_keys(keys, c));
    ONEPASS_TRY(read_rope(m, c));
    ONEPASS_TRY(read_windows(m, c));
    ONEPASS_TRY(check_activation(m, c));
    ONEPASS_TRY(finish_config(keys, c));
    ONEPASS_TRY(check_still_layers(m, c));
    ONEPASS_TRY(m.check_all_used(common_harmless_members()));
    return c;
  });
}

}  // namespace onepass::llm
