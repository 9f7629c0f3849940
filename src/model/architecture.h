// Model architectures: one row each. A forward pass is a straight list of calls.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/config.h"
#include "model/weights.h"
#include "onepass/ops.h"
#include "onepass/session.h"

namespace onepass::llm {

struct KvLayer {
  Tensor k, v;  // [slots, kv_heads, capacity, head_dim]
};

struct ForwardArgs {
  const ModelConfig& config;
  const Weights& weights;
  std::span<const KvLayer> cache;
  View step;              // StepState with the pass's rows
  std::uint32_t rows;     // recorded; those beyond the step's n_rows have no effect
  std::uint32_t context;  // most tokens of a sequence
  bool hidden;            // false: only the cache is wanted, and forward returns nothing

  // The keys and values of layer i are all that is left to compute.
  bool ends_at(std::uint32_t i) const noexcept { return !hidden && i + 1 == config.n_layers; }
};

enum class Experts : std::uint8_t { none, optional, required };

struct Architecture {
  std::string_view name;         // general.architecture
  std::string_view model_types;  // model_type of config.json, separated by spaces; empty: none
  ops::RopeMode rope;            // as GGUF files order the rows; config.json always means neox
  // From the step's tokens to the hidden rows [rows, dim] that the output norm takes; stores the
  // rows' keys and values in the cache on the way.
  Tensor (*forward)(GraphSession& s, const ForwardArgs& args);
  bool head_norms = false;      // attn_q_norm and attn_k_norm
  bool post_norms = false;      // post_attention_norm and post_ffw_norm; rows scaled by sqrt(dim)
  bool fused = false;           // attn_qkv, and ffn_up with the rows of the gate first
  bool partial_rotary = false;  // rope.dimension_count may be less than a head
  Experts experts = Experts::none;
  std::uint32_t window = 0;         // default of attention.sliding_window
  std::uint32_t window_period = 0;  // the last of so many layers sees everything; 0: no windows
  std::uint32_t wide_layers = 0;    // with so many layers queries are scaled by dim / heads
  float attention_softcap = 0.0f;   // default of attn_logit_softcapping; 0: key not read
  float final_softcap = 0.0f;       // default of final_logit_softcapping
};

// Null when it is not known.
const Architecture* find_architecture(std::string_view name) noexcept;
const Architecture* find_model_type(std::string_view model_type) noexcept;
std::span<const Architecture> architectures() noexcept;

Tensor llama(GraphSession& s, const ForwardArgs& args);
Tensor qwen3(GraphSession& s, const ForwardArgs& args);
Tensor gemma(GraphSession& s, const ForwardArgs& args);

}  // namespace onepass::llm
