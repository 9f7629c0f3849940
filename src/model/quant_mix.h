// Which tensor of a model gets which format: the mixes that llama-quantize makes.
//
//   const QuantMix* mix = find_mix("q4_k_m");
//   DType type = mix_type(*mix, model, "blk.0.ffn_down.weight", dims);   // q6_k
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_file.h"
#include "onepass/dtype.h"

namespace onepass::llm {

struct QuantMix {
  std::string_view name;
  std::string_view alias;   // another name for it; empty: none
  std::uint32_t file_type;  // general.file_type
  DType base;
  std::string_view note;  // for lists
};
std::span<const QuantMix> quant_mixes() noexcept;
// Null: not known. Upper and lower case are the same.
const QuantMix* find_mix(std::string_view name) noexcept;

// What the rules look at.
struct MixModel {
  std::string architecture;
  std::uint64_t n_layers = 0;
  std::uint64_t queries_per_key = 1;  // heads
  std::uint64_t n_experts = 0;
  bool has_output = false;              // a head of its own, not the embedding
  bool has_importance = false;          // a matrix of it is used
  std::vector<std::uint64_t> values{};  // layers of tensors that hold values, ascending
  std::vector<std::uint64_t> downs{};   // of ffn_down and its kin
  bool pure = false;                    // one format for all matrices

  // For a tensor name of the model; sets has_output, values and downs.
  void add_tensor(std::string_view name);
};
// Keys that are missing leave the defaults.
MixModel mix_model(const io::GgufFile& file);

// Matrices of weights; norms, biases, routers and the like keep their type.
bool is_quantized_part(std::string_view name, std::uint32_t n_dims) noexcept;
// Of such a tensor with rows of `cols` values; a format whose blocks do not fit is replaced by
// one whose blocks do.
DType mix_type(const QuantMix& mix, const MixModel& model, std::string_view name,
               std::uint64_t cols) noexcept;
// Whether such a tensor loses too much where nothing is known of the importance of its columns.
bool needs_importance(const QuantMix& mix, std::string_view name, DType type) noexcept;

}  // namespace onepass::llm
