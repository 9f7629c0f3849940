// The numbers of a model, read and checked: none that is divided by is 0.
//
//   ONEPASS_ASSIGN(ModelConfig c, read_config(file.metadata()));
//   c.n_layers * 2 * c.n_kv_heads * c.head_dim;                   // cache elements per token
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "io/json.h"
#include "onepass/ops/rope.h"
#include "onepass/result.h"

namespace onepass::llm {

struct Architecture;

inline constexpr std::uint32_t max_layers = 1024;
inline constexpr std::uint32_t max_heads = 65536;
inline constexpr std::uint32_t max_experts = 1024;
inline constexpr std::uint32_t max_vocab = 1u << 22;
inline constexpr std::uint32_t max_context = 1u << 26;
inline constexpr std::uint32_t max_width = 1u << 20;  // of an embedding, head or feed-forward row

struct RopeConfig {
  ops::RopeMode mode = ops::RopeMode::interleaved;
  std::uint32_t dims = 0;        // of a head that turn; even, 0: heads do not turn
  std::uint32_t dims_local = 0;  // of layers with a window; 0: as the others
  float base = 10000.0f;
  float alpha = 0.0f;           // in a file that says the base apart from it
  float base_local = 10000.0f;  // of layers with a window, which are never scaled
  ops::RopeScaling scaling{};
  // Divisors of the angles [dims / 2], where the file has them among its numbers.
  std::vector<float> factors;
  // Sets of factors for sequences up to scaling.n_ctx_orig tokens and for longer ones.
  std::vector<float> short_factors, long_factors;
  std::vector<std::uint8_t> still;  // per layer 1: heads do not turn; empty: all layers turn
};

// Of the experts' gate: how logits become weights.
struct GateConfig {
  std::uint32_t function = 1;  // as GGUF files number them: 1 softmax over all experts, 2 sigmoid
  bool renormalise = true;     // weights of the chosen ones add up to 1
  float scale = 1.0f;          // of the weights
};

struct ModelConfig {
  const Architecture* architecture = nullptr;
  std::string name;
  std::uint32_t n_layers = 0;
  std::uint32_t n_prediction_layers = 0;  // behind them, which are left out
  std::uint32_t dim = 0;
  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;  // divides n_heads
  std::uint32_t head_dim = 0;    // even
  std::uint32_t value_dim = 0;   // of a head; head_dim
  std::uint32_t ffn_dim = 0;
  // Of layers with a window; 0: as the others.
  std::uint32_t head_dim_local = 0, value_dim_local = 0;
  // Per layer, where they differ; then the numbers above are the largest.
  std::vector<std::uint32_t> layer_kv_heads, layer_ffn_dims;
  std::uint32_t shared_kv_layers = 0;  // the last ones, which use caches of others
  std::uint32_t per_layer_dim = 0;     // of each layer's own input; 0: there are none
  std::uint32_t n_experts = 0;         // 0: one feed-forward network for all
  std::uint32_t n_experts_used = 0;
  std::uint32_t expert_ffn_dim = 0;
  std::uint32_t n_shared_experts = 0;  // run for every token, as one network
  std::uint32_t shared_ffn_dim = 0;    // of them together; 0: there are none
  std::uint32_t dense_layers = 0;      // the first ones, without experts
  std::uint32_t expert_step = 1;       // layers i with (i + 1) % expert_step == 0 have experts
  GateConfig gate;
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;  // as trained
  float norm_eps = 0.0f;
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // of what a layer adds
  float logit_scale = 1.0f;
  float logit_divisor = 1.0f;
  float query_scalar = 0.0f;       // queries are divided by its root; 0: by that of head_dim
  float attention_scale = 0.0f;    // 0: 1 / sqrt(head_dim)
  float attention_softcap = 0.0f;  // 0: none
  float final_softcap = 0.0f;
  bool parallel_residual = false;   // attention and feed-forward network read the same rows
  std::uint32_t window = 0;         // keys that a local layer sees; 0: no layer is local
  std::vector<std::uint8_t> local;  // per layer 0 or 1; empty: none is
  RopeConfig rope;

  bool is_local(std::uint32_t layer) const noexcept {
    return layer < local.size() && local[layer] != 0;
  }
  std::uint32_t head_dim_of(std::uint32_t layer) const noexcept {
    return is_local(layer) && head_dim_local != 0 ? head_dim_local : head_dim;
  }
  std::uint32_t kv_heads_of(std::uint32_t layer) const noexcept {
    return layer < layer_kv_heads.size() ? layer_kv_heads[layer] : n_kv_heads;
  }
  std::uint32_t ffn_dim_of(std::uint32_t layer) const noexcept {
    return layer < layer_ffn_dims.size() ? layer_ffn_dims[layer] : ffn_dim;
  }
  // The first ones have caches of their own. Later layers use the last one with or without a
  // window, as they have one or not.
  std::uint32_t cache_layers() const noexcept { return n_layers - shared_kv_layers; }
  bool has_cache(std::uint32_t layer) const noexcept { return layer < cache_layers(); }
  std::uint32_t cache_layer(std::uint32_t layer) const noexcept {
    return has_cache(layer) ? layer : cache_layers() - (is_local(layer) ? 2 : 1);
  }
  bool has_experts(std::uint32_t layer) const noexcept {
    return n_experts > 0 && layer >= dense_layers && (layer + 1) % expert_step == 0;
  }
};

// How the modules of an MLX folder are quantized.
struct AffineFormat {
  std::uint32_t bits = 4;
  std::uint32_t group_size = 64;
};
struct Quantization {
  bool any = false;
  AffineFormat all;
  struct Module {
    std::string path;  // "model.layers.0.mlp.down_proj"
    bool quantized = true;
    AffineFormat format;
  };
  std::vector<Module> modules;
};

// Divisors of the angles of Llama 3: long waves are divided by `factor`, short ones stay, in
// between it fades.
std::vector<float> llama3_factors(std::uint32_t dims, double base, double factor, double low,
                                  double high, double original);

// A missing key is not_found, an impossible value parse or limit, what cannot be run or is not
// known unsupported; the error names the key.
Result<ModelConfig> read_config(const io::Gguf& file);
// config.json of a Hugging Face or MLX folder.
Result<ModelConfig> read_config(const io::Json& json);
Result<Quantization> read_quantization(const io::Json& json);

}  // namespace onepass::llm
