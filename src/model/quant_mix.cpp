#include "model/quant_mix.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace onepass::llm {
namespace {

constexpr QuantMix mixes[] = {
    {"f32", "", 0, DType::f32, ""},
    {"f16", "", 1, DType::f16, ""},
    {"bf16", "", 32, DType::bf16, ""},
    {"q8_0", "", 7, DType::q8_0, ""},
    {"q6_k", "", 18, DType::q6_k, ""},
    {"q5_k_m", "q5_k", 17, DType::q5_k, "q5_k and q6_k"},
    {"q5_k_s", "", 16, DType::q5_k, ""},
    {"q5_1", "", 9, DType::q5_1, ""},
    {"q5_0", "", 8, DType::q5_0, ""},
    {"q4_k_m", "q4_k", 15, DType::q4_k, "q4_k and q6_k"},
    {"q4_k_s", "", 14, DType::q4_k, "q4_k and q5_k"},
    {"q4_1", "", 3, DType::q4_1, ""},
    {"q4_0", "", 2, DType::q4_0, ""},
    {"mxfp4_moe", "", 38, DType::mxfp4, "mxfp4 for experts, else q8_0"},
    {"nvfp4", "", 39, DType::nvfp4, ""},
    {"iq4_nl", "", 25, DType::iq4_nl, "iq4_nl and q5_k"},
    {"iq4_xs", "", 30, DType::iq4_xs, "iq4_xs and q5_k"},
    {"q3_k_l", "", 13, DType::q3_k, "q3_k and q5_k"},
    {"q3_k_m", "q3_k", 12, DType::q3_k, "q3_k, q4_k and q5_k"},
    {"q3_k_s", "", 11, DType::q3_k, ""},
    {"iq3_m", "", 27, DType::iq3_s, "iq3_s and q4_k"},
    {"iq3_s", "", 26, DType::iq3_s, ""},
    {"iq3_xs", "", 22, DType::iq3_s, "iq3_s and iq3_xxs"},
    {"iq3_xxs", "", 23, DType::iq3_xxs, "iq3_xxs, iq2_s and iq3_s"},
    {"q2_k", "", 10, DType::q2_k, "q2_k, q3_k and q4_k"},
    {"q2_k_s", "", 21, DType::q2_k, "q2_k and q4_k"},
    {"iq2_m", "", 29, DType::iq2_s, "iq2_s and iq3_s"},
    {"iq2_s", "", 28, DType::iq2_xs, "iq2_xs and iq3_s"},
    {"iq2_xs", "", 20, DType::iq2_xs, "iq2_xs and q2_k"},
    {"iq2_xxs", "", 19, DType::iq2_xxs, "iq2_xxs and q2_k"},
    {"iq1_m", "", 31, DType::iq1_m, "iq1_m, iq2_xxs and q2_k"},
    {"iq1_s", "", 24, DType::iq1_s, "iq1_s, iq2_xxs and q2_k"},
    {"q2_0", "", 41, DType::q2_0, "q2_0 and q4_k"},
    {"tq2_0", "", 37, DType::tq2_0, "tq2_0 and q4_k"},
    {"tq1_0", "", 36, DType::tq1_0, "tq1_0 and q4_k"},
    {"q1_0", "", 40, DType::q1_0, ""},
};

bool is_mix(const QuantMix& mix, std::initializer_list<std::string_view> names) noexcept {
  return std::find(names.begin(), names.end(), mix.name) != names.end();
}

// "blk.12.attn_v.weight" -> 12.
std::optional<std::uint64_t> layer_of(std::string_view name) noexcept {
  if (!name.starts_with("blk.")) return std::nullopt;
  std::uint64_t layer = 0;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + 4, end, layer);
  if (error != std::errc() || at == end || *at != '.') return std::nullopt;
  return layer;
}

// The first and last eighth of n layers, and every third one between.
bool is_sensitive(std::uint64_t i, std::uint64_t n) noexcept {
  return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

// iq1_s, iq1_m and the mixes of two bits, whose rules are their own.
bool is_tiny(const QuantMix& mix) noexcept {
  return is_mix(mix, {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m"});
}
bool is_larger_tiny(const QuantMix& mix) noexcept { return is_mix(mix, {"iq2_s", "iq2_m"}); }

DType head_type(const QuantMix& mix, std::uint64_t cols) noexcept {
  if (mix.base == DType::q8_0 || cols % info(mix.base).block_elements != 0) return DType::q8_0;
  return is_tiny(mix) || mix.name == "iq3_xxs" ? DType::q5_k : DType::q6_k;
}

DType embedding_type(const QuantMix& mix) noexcept {
  if (is_mix(mix, {"tq1_0", "tq2_0", "q2_0"})) return DType::q4_k;
  if (is_larger_tiny(mix) || mix.name == "iq3_xxs") return DType::iq3_s;
  return is_tiny(mix) ? DType::q2_k : mix.base;
}

// Of the values, alone or with queries and keys; the i-th of them.
DType value_type(const QuantMix& mix, const MixModel& model, std::uint64_t i) noexcept {
  DType type = mix.base;
  const bool shared = model.queries_per_key >= 4;
  if (is_tiny(mix)) {
    if (shared || model.n_experts >= 4) return DType::q4_k;
    return is_larger_tiny(mix) ? DType::iq3_s : DType::q2_k;
  }
  if (mix.name == "q2_k") {
    type = shared ? DType::q4_k : DType::q3_k;
  } else if (mix.name == "iq3_xxs") {
    type = shared ? DType::q4_k : model.has_importance ? DType::iq3_xxs : DType::iq3_s;
  } else if (mix.name == "iq3_m" || (is_mix(mix, {"q2_k_s", "iq3_xs", "iq3_s"}) && shared)) {
    type = DType::q4_k;
  } else if (mix.name == "q3_k_m") {
    type = i < 2 ? DType::q5_k : DType::q4_k;
  } else if (mix.name == "q3_k_l" || (is_mix(mix, {"iq4_nl", "iq4_xs"}) && shared)) {
    type = DType::q5_k;
  } else if (is_mix(mix, {"q4_k_m", "q5_k_m"}) && is_sensitive(i, model.values.size())) {
    type = DType::q6_k;
  } else if (mix.name == "q4_k_s" && i < 4) {
    type = DType::q5_k;
  }
  // Models of 70B share a value among eight heads: five bits cost next to nothing.
  const bool large = model.n_layers == 80 && model.queries_per_key > 1 &&
                     (model.architecture == "llama" || model.architecture == "qwen2");
  if (large && (type == DType::q3_k || type == DType::q4_k)) type = DType::q5_k;
  return model.n_experts == 8 ? DType::q8_0 : type;
}

DType query_type(const QuantMix& mix) noexcept {
  if (mix.name == "iq3_xs") return DType::iq3_xxs;
  return mix.name == "iq3_xxs" ? DType::iq2_s : mix.base;
}

DType key_type(const QuantMix& mix, const MixModel& model) noexcept {
  if (model.n_experts == 8) return is_tiny(mix) ? DType::q4_k : DType::q8_0;
  return query_type(mix);
}

// Of layer i; the rank is that among all such tensors.
DType down_type(const QuantMix& mix, const MixModel& model, std::uint64_t i,
                std::uint64_t rank) noexcept {
  const std::uint64_t n = model.n_layers;
  const bool early = i < n / 8;
  if (is_tiny(mix)) {
    if (rank >= n / 8) return mix.base;
    return is_larger_tiny(mix) ? DType::iq3_s : DType::q2_k;
  }
  if (mix.name == "q2_k") return DType::q3_k;
  if (mix.name == "q2_k_s") return early ? DType::q4_k : mix.base;
  if (mix.name == "q3_k_m") return i < n / 16 ? DType::q5_k : DType::q4_k;
  if (mix.name == "q3_k_l") return DType::q5_k;
  if (mix.name == "iq3_m") {
    return early || (model.n_experts == 8 && is_sensitive(i, n)) ? DType::q4_k : mix.base;
  }
  if (is_mix(mix, {"q4_k_m", "q5_k_m"}) && is_sensitive(i, n)) return DType::q6_k;
  if (mix.name == "q4_k_s" && early) return DType::q5_k;
  if (model.has_importance) {
    if (mix.name == "q4_0" && early) return DType::q4_1;
    if (mix.name == "q5_0" && early) return DType::q5_1;
  } else {
    if (mix.name == "iq3_xxs") return early ? DType::q4_k : DType::q3_k;
    if (is_mix(mix, {"iq4_nl", "iq4_xs"}) && early) return DType::q5_k;
  }
  return mix.base;
}

DType attention_output_type(const QuantMix& mix, const MixModel& model) noexcept {
  if (model.n_experts == 8) {
    return is_tiny(mix) || is_mix(mix, {"q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "iq4_nl",
                                        "iq4_xs", "iq3_xxs", "iq3_xs", "iq3_s", "iq3_m"})
               ? DType::q5_k
               : mix.base;
  }
  if (is_mix(mix, {"iq1_s", "iq1_m"})) return DType::iq2_xxs;
  if (is_larger_tiny(mix) || mix.name == "iq3_xxs") return DType::iq3_s;
  if (mix.name == "q2_k") return DType::q3_k;
  if (is_mix(mix, {"q3_k_m", "iq3_m"})) return DType::q4_k;
  if (mix.name == "q3_k_l") return DType::q5_k;
  return mix.base;
}

DType wide_type(const QuantMix& mix, const MixModel& model, std::uint64_t i) noexcept {
  const std::uint64_t n = model.n_layers;
  const bool inner = i >= n / 8 && i < 7 * n / 8;
  return mix.name == "iq3_xs" && inner ? DType::iq3_xxs : mix.base;
}

bool is_embedding(std::string_view name) noexcept {
  return name == "token_embd.weight" || name == "per_layer_token_embd.weight";
}
bool has_values(std::string_view name) noexcept {
  return name.ends_with("attn_v.weight") || name.ends_with("attn_qkv.weight") ||
         name.ends_with("attn_kv_b.weight");
}

DType wanted_type(const QuantMix& mix, const MixModel& model, std::string_view name,
                  std::uint64_t cols) noexcept {
  const bool head = name == "output.weight" || (is_embedding(name) && !model.has_output);
  if (mix.name == "mxfp4_moe") {
    return !head && name.ends_with("_exps.weight") ? DType::mxfp4 : DType::q8_0;
  }
  if (head) return head_type(mix, cols);
  if (is_embedding(name)) return embedding_type(mix);
  const std::uint64_t layer = layer_of(name).value_or(0);
  const auto rank = [layer](const std::vector<std::uint64_t>& layers) {
    const auto at = std::lower_bound(layers.begin(), layers.end(), layer);
    return static_cast<std::uint64_t>(at - layers.begin());
  };
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (has_values(name)) return value_type(mix, model, rank(model.values));
  if (name.ends_with("attn_k.weight")) return key_type(mix, model);
  if (name.ends_with("attn_q.weight")) return query_type(mix);
  if (has("ffn_down")) {
    // Experts come before the shared one.
    return down_type(mix, model, layer, rank(model.downs) + (has("_shexp") ? 1 : 0));
  }
  if (name.ends_with("attn_output.weight")) return attention_output_type(mix, model);
  if (has("ffn_gate") || has("ffn_up")) return wide_type(mix, model, layer);
  return mix.base;
}

// With blocks of 32 values instead of 256, in about as many bits.
DType smaller_blocks(DType type) noexcept {
  switch (type) {
    case DType::q1_0:
    case DType::q2_0:
    case DType::q2_k:
    case DType::q3_k:
    case DType::tq1_0:
    case DType::tq2_0:
      return DType::q4_0;
    case DType::q4_k:
      return DType::q5_0;
    case DType::q5_k:
      return DType::q5_1;
    case DType::q6_k:
      return DType::q8_0;
    default:
      return DType::iq4_nl;
  }
}

std::uint64_t first_integer(const io::Gguf& file, const std::string& key, std::uint64_t fallback) {
  const io::GgufValue* value = file.find(key);
  if (value == nullptr || value->count == 0) return fallback;
  const auto n = io::integer_at(*value, 0, key);
  return n ? *n : fallback;
}

}  // namespace

std::span<const QuantMix> quant_mixes() noexcept { return mixes; }

const QuantMix* find_mix(std::string_view name) noexcept {
  const auto same = [name](std::string_view known) {
    return !known.empty() &&
           std::equal(name.begin(), name.end(), known.begin(), known.end(), [](char a, char b) {
             return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
           });
  };
  for (const QuantMix& mix : mixes) {
    if (same(mix.name) || same(mix.alias)) return &mix;
  }
  return nullptr;
}

void MixModel::add_tensor(std::string_view name) {
  if (name == "output.weight") has_output = true;
  const auto layer = layer_of(name);
  if (!layer) return;
  const auto add = [&](std::vector<std::uint64_t>& layers) {
    layers.insert(std::upper_bound(layers.begin(), layers.end(), *layer), *layer);
  };
  if (has_values(name)) add(values);
  if (name.find("ffn_down") != name.npos && name.ends_with(".weight")) add(downs);
}

MixModel mix_model(const io::GgufFile& file) {
  const io::Gguf& metadata = file.metadata();
  MixModel model;
  if (const auto architecture = metadata.text("general.architecture")) {
    model.architecture = *architecture;
  }
  const auto integer = [&](const char* key, std::uint64_t fallback) {
    return first_integer(metadata, model.architecture + "." + key, fallback);
  };
  model.n_layers = integer("block_count", 0);
  model.n_experts = integer("expert_count", 0);
  const std::uint64_t heads = integer("attention.head_count", 1);
  const std::uint64_t kv_heads = integer("attention.head_count_kv", heads);
  if (kv_heads != 0) model.queries_per_key = heads / kv_heads;
  for (std::size_t i = 0; i < file.n_shards(); ++i) {
    for (const io::GgufTensor& t : file.shard(i).tensors()) model.add_tensor(t.name);
  }
  return model;
}

bool is_quantized_part(std::string_view name, std::uint32_t n_dims) noexcept {
  if (n_dims < 2 || !name.ends_with("weight")) return false;
  for (const std::string_view part :
       {"_norm.weight", "ffn_gate_inp.weight", "position_embd.weight", "token_types.weight",
        "attn_rel_b.weight", "ssm_conv1d.weight", "shortconv.conv.weight", "time_mix_", "altup",
        "laurel", "per_layer_model_proj"}) {
    if (name.find(part) != name.npos) return false;
  }
  return true;
}

DType mix_type(const QuantMix& mix, const MixModel& model, std::string_view name,
               std::uint64_t cols) noexcept {
  if (!is_block_format(mix.base)) return mix.base;
  DType type = model.pure ? mix.base : wanted_type(mix, model, name, cols);
  if (cols % info(type).block_elements == 0) return type;
  if (info(type).block_elements > 32) type = smaller_blocks(type);
  return cols % info(type).block_elements == 0 ? type : DType::f16;
}

bool needs_importance(const QuantMix& mix, std::string_view name, DType type) noexcept {
  if (is_embedding(name) || name == "output.weight") return false;
  switch (type) {
    case DType::iq3_xxs:
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
    case DType::iq1_m:
    case DType::iq1_s:
      return true;
    default:
      return type == DType::q2_k && mix.name == "q2_k_s";
  }
}

}  // namespace onepass::llm
