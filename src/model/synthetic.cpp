#include "model/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>

#include "core/guarded.h"
#include "model/architecture.h"
#include "model/keys.h"
#include "ops/shared/scalar.h"
#include "quant/nvfp4.h"

namespace onepass::llm {
namespace {

constexpr SyntheticPreset named_presets[] = {
    {"tiny", "llama", 256, 4, 8, 4, 32, 704, 4096, 10000.0f},
    {"stories15m", "llama", 288, 6, 6, 6, 48, 768, 32000, 10000.0f},
    {"smollm135m", "llama", 576, 30, 9, 3, 64, 1536, 49152, 10000.0f},
    {"qwen3-0.6b", "qwen3", 1024, 28, 16, 8, 128, 3072, 151936, 1000000.0f},
    {"llama1b", "llama", 2048, 16, 32, 8, 64, 8192, 128256, 500000.0f},
    {"llama8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256, 500000.0f},
    {"tiny-qwen2", "qwen2", 256, 4, 8, 4, 32, 768, 4096, 10000.0f},
    {"tiny-qwen3", "qwen3", 256, 4, 8, 4, 64, 768, 4096, 1000000.0f},
    {"tiny-qwen3moe", "qwen3moe", 256, 4, 8, 4, 64, 768, 4096, 1000000.0f, 8, 2, 256},
    {"tiny-gemma2", "gemma2", 256, 4, 8, 4, 32, 768, 4096, 10000.0f, 0, 0, 0, 0, 32},
    {"tiny-gemma3", "gemma3", 256, 6, 8, 4, 64, 768, 4096, 1000000.0f, 0, 0, 0, 0, 32},
    {"tiny-phi3", "phi3", 256, 4, 8, 4, 32, 768, 4096, 10000.0f},
    {.name = "tiny-gemma4",
     .architecture = "gemma4",
     .dim = 256,
     .layers = 12,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 64,
     .ffn = 768,
     .vocab = 4096,
     .rope_base = 1000000.0f,
     .window = 32,
     .head_dim_local = 32,
     .per_layer = 64,
     .shared_kv = 6},
    {.name = "gpt-oss-8x1b",
     .architecture = "gpt-oss",
     .dim = 1440,
     .layers = 12,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 64,
     .ffn = 1440,
     .vocab = 50304,
     .rope_base = 150000.0f,
     .experts = 32,
     .experts_used = 4,
     .expert_ffn = 1440,
     .window = 128},
    {.name = "gemma4-e1b",
     .architecture = "gemma4",
     .dim = 1152,
     .layers = 24,
     .heads = 8,
     .kv_heads = 1,
     .head_dim = 512,
     .ffn = 4608,
     .vocab = 131072,
     .rope_base = 1000000.0f,
     .window = 512,
     .head_dim_local = 256,
     .per_layer = 256,
     .shared_kv = 12},
    {.name = "granite1b",
     .architecture = "granite",
     .dim = 2048,
     .layers = 24,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 64,
     .ffn = 4096,
     .vocab = 49152,
     .rope_base = 10000000.0f},
};

// Where a block's scales are, what multiple of the wanted standard deviation they are when all
// other bytes are random, and how they are stored.
enum class ScaleCode : std::uint8_t { f16, f16_digits, e8m0, e4m3 };
struct Scale {
  std::uint32_t at;
  float factor;
  ScaleCode code = ScaleCode::f16;
};
struct Format {
  DType type;
  std::array<Scale, 4> scales;
  int n_scales;
  bool ternary = false;  // only 0, 1 and 2 of the codes of 2 bits, which lie around 1
};
constexpr Format formats[] = {
    {DType::f32, {}, 0},
    {DType::f16, {}, 0},
    {DType::bf16, {}, 0},
    {DType::q8_0, {{{0, 1.0f / 74.0f}}}, 1},
    {DType::q4_0, {{{0, 1.0f / 4.6f}}}, 1},
    {DType::q4_1, {{{0, 1.0f / 4.6f}, {2, -7.5f / 4.6f}}}, 2},
    {DType::q5_0, {{{0, 1.0f / 9.2f}}}, 1},
    {DType::q5_1, {{{0, 1.0f / 9.2f}, {2, -15.5f / 9.2f}}}, 2},
    {DType::q2_k, {{{80, 1.0f / 13.9f}, {82, 1.5f / 13.9f}}}, 2},
    {DType::q3_k, {{{108, 1.0f / 18.5f / 2.35f}}}, 1},
    {DType::q4_k, {{{0, 1.0f / 4.6f / 31.0f}, {2, 7.5f / 4.6f / 31.0f}}}, 2},
    {DType::q5_k, {{{0, 1.0f / 9.2f / 31.0f}, {2, 15.5f / 9.2f / 31.0f}}}, 2},
    {DType::q6_k, {{{208, 1.0f / 18.5f / 74.0f}}}, 1},
    {DType::iq3_s, {{{0, 1.0f / 140.5f}}}, 1},
    {DType::iq3_xxs, {{{0, 1.0f / 142.3f}}}, 1},
    {DType::iq2_xs, {{{0, 1.0f / 55.9f}}}, 1},
    {DType::iq2_s, {{{0, 1.0f / 56.4f}}}, 1},
    {DType::iq2_xxs, {{{0, 1.0f / 53.5f}}}, 1},
    {DType::iq1_s, {{{0, 1.0f / 7.2f}}}, 1},
    {DType::iq1_m, {{{48, 1.0f / 7.2f, ScaleCode::f16_digits}}}, 1},
    {DType::iq4_nl, {{{0, 1.0f / 67.4f}}}, 1},
    {DType::iq4_xs, {{{0, 1.0f / 18.5f / 67.4f}}}, 1},
    {DType::mxfp4, {{{0, 1.0f / 5.85f, ScaleCode::e8m0}}}, 1},
    {DType::nvfp4,
     {{{0, 1.0f / 5.85f, ScaleCode::e4m3},
       {1, 1.0f / 5.85f, ScaleCode::e4m3},
       {2, 1.0f / 5.85f, ScaleCode::e4m3},
       {3, 1.0f / 5.85f, ScaleCode::e4m3}}},
     4},
    {DType::tq1_0, {{{52, 1.0f / 0.816f}}}, 1},
    {DType::tq2_0, {{{64, 1.0f / 0.707f}}}, 1, true},
    {DType::q1_0, {{{0, 1.0f}}}, 1},
    {DType::q2_0, {{{0, 1.0f / 0.707f}}}, 1, true},
};
const Format* find_format(DType type) noexcept {
  for (const Format& f : formats) {
    if (f.type == type) return &f;
  }
  return nullptr;
}

std::uint64_t mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
// Word i of a stream.
std::uint64_t word(std::uint64_t stream, std::uint64_t i) noexcept {
  return mix(stream + (i + 1) * 0x9e3779b97f4a7c15u);
}
// Uniform in [-1, 1).
float uniform(std::uint64_t bits) noexcept {
  return static_cast<float>(bits >> 40) * (1.0f / 8388608.0f) - 1.0f;
}
std::uint64_t hash(std::string_view text) noexcept {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

void put_scale(ScaleCode code, float value, float uniform_part, std::byte* out) noexcept {
  std::uint32_t bits = 0;
  switch (code) {
    case ScaleCode::f16:
      bits = ops::op_f32_to_f16(value);
      std::memcpy(out, &bits, 2);
      return;
    case ScaleCode::f16_digits:  // four bits in each of four words
      bits = ops::op_f32_to_f16(value);
      for (std::uint32_t digit = 0; digit < 4; ++digit) {
        std::byte& high = out[2 * digit + 1];
        high = (high & std::byte{15}) | static_cast<std::byte>((bits >> (4 * digit) & 15) << 4);
      }
      return;
    case ScaleCode::e8m0: {  // one of the powers of two around it, by how near they are
      const std::uint32_t exponent = ops::op_to_bits(value) >> 23;
      const float fraction = value / ops::op_from_bits(exponent << 23) - 1.0f;
      bits = exponent + 1 + (fraction > 0.5f + 0.5f * uniform_part ? 1 : 0);
      break;
    }
    case ScaleCode::e4m3:
      bits = static_cast<std::uint32_t>(quant::e4m3_below(value));
      break;
  }
  *out = static_cast<std::byte>(bits);
}

// Block i of a stream of weights with standard deviation `deviation`.
void make_block(const Format& format, std::uint64_t stream, std::uint64_t i, float deviation,
                float mean, std::byte* out) noexcept {
  const std::uint32_t bytes = info(format.type).block_bytes;
  if (format.n_scales == 0) {
    const float x = mean + 1.7320508f * deviation * uniform(word(stream, i));
    std::uint32_t bits = 0;
    if (format.type == DType::f32) std::memcpy(&bits, &x, 4);
    if (format.type == DType::f16) bits = ops::op_f32_to_f16(x);
    if (format.type == DType::bf16) bits = ops::op_f32_to_bf16(x);
    std::memcpy(out, &bits, bytes);
    return;
  }
  const std::uint64_t own = word(stream, i);
  for (std::uint32_t at = 0; at < bytes; at += 8) {
    const std::uint64_t random = word(own, at);
    std::memcpy(out + at, &random, std::min(bytes - at, 8u));
  }
  for (std::uint32_t at = 0; format.ternary && at < bytes; ++at) {  // sums of two bits
    const auto both = static_cast<unsigned>(out[at]);
    out[at] = static_cast<std::byte>((both & 0x55u) + (both >> 1 & 0x55u));
  }
  for (int s = 0; s < format.n_scales; ++s) {
    const Scale& scale = format.scales[static_cast<std::size_t>(s)];
    const float value = deviation * scale.factor * (1.0f + 0.2f * uniform(word(own, 1 + scale.at)));
    put_scale(scale.code, value, uniform(word(own, 2 + scale.at)), out + scale.at);
  }
}

std::string known_names() {
  std::string text;
  for (const SyntheticPreset& p : synthetic_presets()) text += " " + std::string(p.name);
  text += "; formats:";
  for (const Format& f : formats) text += std::string(" ") + name(f.type);
  return text;
}

bool same_preset(std::string_view a, std::string_view b) {
  std::string plain[2];
  for (const char c : a) plain[0] += c == '-' ? "" : std::string(1, c);
  for (const char c : b) plain[1] += c == '-' ? "" : std::string(1, c);
  return plain[0] == plain[1];
}

// Those of the preset, the rest as files of the architecture that do not say it.
void set_numbers(const SyntheticPreset& preset, ModelConfig& c) {
  const Architecture& a = *find_architecture(preset.architecture);
  c.architecture = &a;
  c.n_layers = preset.layers, c.dim = preset.dim, c.ffn_dim = preset.ffn;
  c.n_heads = preset.heads, c.n_kv_heads = preset.kv_heads;
  c.head_dim = c.value_dim = preset.head_dim;
  c.head_dim_local = c.value_dim_local = preset.head_dim_local;
  c.rope.dims_local = preset.head_dim_local;
  c.per_layer_dim = preset.per_layer, c.shared_kv_layers = preset.shared_kv;
  c.vocab = preset.vocab, c.context = 8192, c.norm_eps = 1e-5f;
  c.rope.mode = a.rope, c.rope.dims = c.head_dim, c.rope.base = preset.rope_base;
  for (const Key& key : a.keys) {
    if (key.fallback == nullptr || value_of(key, c) != value_of(key, {})) continue;
    const double value = key.fallback(c);
    if (key.count != nullptr) key.count(c) = static_cast<std::uint32_t>(value);
    if (key.number != nullptr) key.number(c) = static_cast<float>(value);
    if (key.flag != nullptr) key.flag(c) = value != 0.0;
  }
  c.rope.scaling.n_ctx_orig = c.context;
  c.n_experts = preset.experts, c.n_experts_used = preset.experts_used;
  c.expert_ffn_dim = preset.expert_ffn;
  if (preset.shared_ffn != 0) c.shared_ffn_dim = preset.shared_ffn;
  c.window = preset.window;
  if (c.window > 0) set_period(c, a.window_period);
  derive_config(c);
}

}  // namespace

std::span<const SyntheticPreset> synthetic_presets() {
  struct List {
    std::vector<SyntheticPreset> presets{std::begin(named_presets), std::end(named_presets)};
    std::deque<std::string> names;
  };
  static const List list = [] {
    List l;
    for (const Architecture* a : architectures()) {
      const std::string name = "tiny-" + std::string(a->name);
      const bool by_hand = std::any_of(l.presets.begin(), l.presets.end(), [&](const auto& p) {
        return p.architecture == a->name && p.name.starts_with("tiny");
      });
      if (by_hand) continue;
      const bool mixture = key_of(*a, at<&ModelConfig::n_experts>).min > 0.0;
      const bool shared = key_of(*a, at<&ModelConfig::shared_ffn_dim>).count != nullptr;
      SyntheticPreset p{l.names.emplace_back(name), a->name, 256, 4, 8, 4, 32, 768, 4096, 10000.0f};
      if (mixture) p.experts = 8, p.experts_used = 2, p.expert_ffn = 256;
      if (mixture && shared) p.shared_ffn = 256;
      if (a->window_pattern) p.window = 32;
      l.presets.push_back(p);
    }
    return l;
  }();
  return list.presets;
}

Result<SyntheticSource> SyntheticSource::create(std::string_view spec, std::uint64_t seed) {
  return guarded([&]() -> Result<SyntheticSource> {
    std::string_view rest = spec;
    if (rest.starts_with(synthetic_prefix)) rest.remove_prefix(synthetic_prefix.size());
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string_view preset_name = rest.substr(0, colon);
    const std::string_view quant = colon < rest.size() ? rest.substr(colon + 1) : "f32";
    const std::span<const SyntheticPreset> presets = synthetic_presets();
    const auto preset = std::find_if(presets.begin(), presets.end(), [&](const auto& p) {
      return same_preset(p.name, preset_name);
    });
    const auto type = dtype_from_name(quant);
    if (preset == presets.end() || !type || find_format(*type) == nullptr) {
      return fail(ErrorCode::not_found,
                  "no synthetic model \"" + io::clipped(spec) + "\"; presets:" + known_names());
    }
    return create(*preset, *type, seed);
  });
}

SyntheticSource SyntheticSource::create(const SyntheticPreset& preset, DType type,
                                        std::uint64_t seed, bool all) {
  SyntheticSource s;
  s.quant_ = type;
  s.seed_ = seed;
  set_numbers(preset, s.config_);
  s.config_.name = "synthetic-" + std::string(preset.name) + "-" + onepass::name(type);
  s.list_tensors(all);
  return s;
}

DType SyntheticSource::matrix_type(std::uint32_t cols) const noexcept {
  if (cols % info(quant_).block_elements == 0) return quant_;
  const bool wide = info(quant_).block_elements > 32 && cols % 32 == 0;
  return wide ? DType::q8_0 : DType::f16;
}

void SyntheticSource::list_tensors(bool all) {
  const auto add = [&](const std::string& name, DType type, std::vector<std::uint64_t> dims) {
    StoredTensor t;
    t.name = name;
    t.dtype = type;
    t.type = onepass::name(type);
    t.rank = static_cast<std::uint32_t>(dims.size());
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) elements *= t.dims[i] = dims[i];
    t.bytes = *storage_bytes(type, elements);
    by_name_[name] = tensors_.size();
    tensors_.push_back(std::move(t));
  };
  const Status listed =
      for_each_tensor(config_, [&](const TensorRow& row, std::uint32_t i) -> Status {
        const auto excluded = [&](const TensorRow& other) {
          const auto same = [&](const Target& t) { return t.weights == row.into[0].weights; };
          return &other != &row && other.need == Need::required && row.model == nullptr &&
                 std::any_of(std::begin(other.into), std::end(other.into), same);
        };
        const std::span<const TensorRow> table = config_.architecture->tensors;
        if (row.need == Need::optional &&
            (!all || std::any_of(table.begin(), table.end(), excluded))) {
          return {};
        }
        const std::uint64_t rows = row_count(row, config_, i);
        const std::uint32_t cols = extent(row.cols, config_, i);
        const std::string part = gguf_part(row, i);
        std::vector<std::uint64_t> dims{cols};
        if (rows != 0) dims.insert(dims.begin(), rows);
        if (row.form == TensorForm::experts) dims.insert(dims.begin(), config_.n_experts);
        const bool plain = rows == 0 || row.plain;
        add(part + std::string(row.suffix), plain ? DType::f32 : matrix_type(cols), dims);
        if (row.bias == Need::never || (row.bias == Need::optional && !all)) return {};
        dims.pop_back();
        add(part + ".bias", DType::f32, rows != 0 ? dims : std::vector<std::uint64_t>{cols});
        return {};
      });
  static_cast<void>(listed);  // nothing in it fails
}

std::optional<StoredTensor> SyntheticSource::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return std::nullopt;
  return tensors_[at->second];
}

Status SyntheticSource::read(const StoredTensor& tensor, std::uint64_t offset,
                             std::span<std::byte> out) const {
  const Format* format = tensor.dtype ? find_format(*tensor.dtype) : nullptr;
  if (format == nullptr || offset > tensor.bytes || out.size() > tensor.bytes - offset) {
    return fail(ErrorCode::invalid_argument, "read " + tensor.name + ": out of range");
  }
  const bool matrix = tensor.rank > 1;
  const auto cols = static_cast<float>(tensor.dims[tensor.rank - 1]);
  const float deviation = matrix ? 1.0f / std::sqrt(cols) : 0.05f;
  const float mean = matrix || tensor.name.ends_with(".bias") ? 0.0f : 1.0f;
  const std::uint64_t stream = mix(hash(tensor.name) + seed_ * 0x9e3779b97f4a7c15u);
  const std::uint64_t bytes = info(format->type).block_bytes;
  std::array<std::byte, 256> block;
  std::size_t done = 0;
  for (std::uint64_t i = offset / bytes; done < out.size(); ++i) {
    const std::uint64_t skip = done == 0 ? offset % bytes : 0;
    const std::size_t n = std::min(out.size() - done, static_cast<std::size_t>(bytes - skip));
    make_block(*format, stream, i, deviation, mean, block.data());
    std::memcpy(out.data() + done, block.data() + skip, n);
    done += n;
  }
  return {};
}

}  // namespace onepass::llm
