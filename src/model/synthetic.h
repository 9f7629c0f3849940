// Models of the shape of real ones with random weights, without a file: for timing and tests.
//
//   ONEPASS_ASSIGN(SyntheticSource source, SyntheticSource::create("synthetic:llama1b:q4_0"));
//   ONEPASS_ASSIGN(std::shared_ptr<const Model> model,
//                  Model::load(device, source.config(), source));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/source.h"

namespace onepass::llm {

inline constexpr std::string_view synthetic_prefix = "synthetic:";

struct SyntheticPreset {
  std::string_view name, architecture;
  std::uint32_t dim, layers, heads, kv_heads, head_dim, ffn, vocab;
  float rope_base;
  std::uint32_t experts = 0, experts_used = 0, expert_ffn = 0;
  std::uint32_t shared_ffn = 0;
  std::uint32_t window = 0;  // of the architecture's local layers
  std::uint32_t head_dim_local = 0, per_layer = 0, shared_kv = 0;  // as in ModelConfig
};
// Some by hand, and "tiny-ARCHITECTURE" of each other one.
std::span<const SyntheticPreset> synthetic_presets();

// Every byte is a function of preset, format, seed and place: reading in parts gives the same.
class SyntheticSource final : public WeightSource {
 public:
  // "synthetic:PRESET:QUANT", hyphens of PRESET left out or not, QUANT a type of GGUF files. Rows
  // that are no whole blocks fall back to q8_0, then f16, as in published files.
  static Result<SyntheticSource> create(std::string_view spec, std::uint64_t seed = 1);
  // all: with every tensor that a file may have, as far as they do not exclude each other.
  static SyntheticSource create(const SyntheticPreset& preset, DType type, std::uint64_t seed,
                                bool all = false);
  const ModelConfig& config() const noexcept { return config_; }

  std::optional<StoredTensor> find(std::string_view name) const override;
  std::vector<StoredTensor> stored() const override { return tensors_; }
  const Harmless* harmless(std::string_view) const override { return nullptr; }
  Status read(const StoredTensor& tensor, std::uint64_t offset,
              std::span<std::byte> out) const override;

 private:
  DType matrix_type(std::uint32_t cols) const noexcept;
  void list_tensors(bool all);

  ModelConfig config_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  DType quant_ = DType::f32;
  std::uint64_t seed_ = 1;
};

}  // namespace onepass::llm
