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
    {"q2_k", "", 10, DType::q2_k, "q2_k, q3_k and q4_k"},
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

DType value_type(const QuantMix& mix, const MixModel& model, std::uint64_t i) noexcept {
  DType type = mix.base;
  const bool shared = model.queries_per_key >= 4;
  if (mix.name == "q2_k") {
    type = shared ? DType::q4_k : DType::q3_k;
  } else if (mix.name == "q3_k_m") {
    type = i < 2 ? DType::q5_k : DType::q4_k;
  } else if (mix.name == "q3_k_l") {
    type = DType::q5_k;
  } else if (is_mix(mix, {"iq4_nl", "iq4_xs"}) && shared) {
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

DType down_type(const QuantMix& mix, const MixModel& model, std::uint64_t i) noexcept {
  const std::uint64_t n = model.n_layers;
  if (mix.name == "q2_k") return DType::q3_k;
  if (mix.name == "q3_k_m") return i < n / 16 ? DType::q5_k : DType::q4_k;
  if (mix.name == "q3_k_l") return DType::q5_k;
  if (is_mix(mix, {"q4_k_m", "q5_k_m"}) && is_sensitive(i, n)) return DType::q6_k;
  if (is_mix(mix, {"iq4_nl", "iq4_xs", "q4_k_s"}) && i < n / 8) return DType::q5_k;
  return mix.base;
}

DType attention_output_type(const QuantMix& mix, const MixModel& model) noexcept {
  if (model.n_experts == 8) {
    return is_mix(mix, {"q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "iq4_nl", "iq4_xs"})
               ? DType::q5_k
               : mix.base;
  }
  if (mix.name == "q2_k") return DType::q3_k;
  if (mix.name == "q3_k_m") return DType::q4_k;
  if (mix.name == "q3_k_l") return DType::q5_k;
  return mix.base;
}

DType fused_type(const QuantMix& mix) noexcept {
  if (is_mix(mix, {"q3_k_m", "q3_k_l"})) return DType::q4_k;
  if (mix.name == "q4_k_m") return DType::q5_k;
  if (mix.name == "q5_k_m") return DType::q6_k;
  return mix.base;
}

DType wanted_type(const QuantMix& mix, const MixModel& model, std::string_view name) noexcept {
  const bool head = name == "output.weight" || (name == "token_embd.weight" && !model.has_output);
  if (mix.name == "mxfp4_moe") {
    return !head && name.ends_with("_exps.weight") ? DType::mxfp4 : DType::q8_0;
  }
  if (head) return mix.base == DType::q8_0 ? DType::q8_0 : DType::q6_k;
  if (name == "token_embd.weight") {
    return is_mix(mix, {"tq1_0", "tq2_0", "q2_0"}) ? DType::q4_k : mix.base;
  }
  const std::uint64_t layer = layer_of(name).value_or(0);
  if (name.ends_with("attn_v.weight")) {
    const auto at = std::lower_bound(model.values.begin(), model.values.end(), layer);
    return value_type(mix, model, static_cast<std::uint64_t>(at - model.values.begin()));
  }
  if (name.ends_with("attn_k.weight")) return model.n_experts == 8 ? DType::q8_0 : mix.base;
  if (name.find("ffn_down") != name.npos) return down_type(mix, model, layer);
  if (name.ends_with("attn_output.weight")) return attention_output_type(mix, model);
  if (name.ends_with("attn_qkv.weight")) return fused_type(mix);
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
  if (!name.ends_with("attn_v.weight") && !name.ends_with("attn_qkv.weight")) return;
  const auto layer = layer_of(name);
  if (!layer) return;
  values.insert(std::upper_bound(values.begin(), values.end(), *layer), *layer);
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
        "attn_rel_b.weight", "ssm_conv1d.weight", "shortconv.conv.weight", "time_mix_"}) {
    if (name.find(part) != name.npos) return false;
  }
  return true;
}

DType mix_type(const QuantMix& mix, const MixModel& model, std::string_view name,
               std::uint64_t cols) noexcept {
  if (!is_block_format(mix.base)) return mix.base;
  DType type = model.pure ? mix.base : wanted_type(mix, model, name);
  if (cols % info(type).block_elements == 0) return type;
  if (info(type).block_elements > 32) type = smaller_blocks(type);
  return cols % info(type).block_elements == 0 ? type : DType::f16;
}

}  // namespace onepass::llm
