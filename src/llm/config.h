// The numbers of a model, read and checked: whoever divides by one of them may rely on it.
//
//   ONEPASS_ASSIGN(ModelConfig c, read_config(file.metadata()));
//   c.n_layers * 2 * c.n_kv_heads * c.head_dim;                   // cache elements per token
#pragma once

#include <cstdint>
#include <string>

#include "io/gguf.h"
#include "onepass/result.h"

namespace onepass::llm {

struct Architecture;

inline constexpr std::uint32_t max_layers = 1024;
inline constexpr std::uint32_t max_heads = 65536;
inline constexpr std::uint32_t max_vocab = 1u << 22;
inline constexpr std::uint32_t max_context = 1u << 26;
inline constexpr std::uint32_t max_width = 1u << 20;  // of an embedding, head or feed-forward row

struct ModelConfig {
  const Architecture* architecture = nullptr;
  std::string name;
  std::uint32_t n_layers = 0;
  std::uint32_t dim = 0;
  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;  // divides n_heads
  std::uint32_t head_dim = 0;    // even
  std::uint32_t ffn_dim = 0;
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;  // as trained
  float norm_eps = 0.0f;
  float rope_base = 0.0f;
  float rope_factor = 1.0f;  // positions are divided by it
};

// A missing key is not_found, an impossible value parse or limit, what cannot be run unsupported;
// the error names the key.
Result<ModelConfig> read_config(const io::Gguf& file);

}  // namespace onepass::llm
