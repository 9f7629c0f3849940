// Model architectures: one row each. A forward pass is a straight list of ops.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "llm/config.h"
#include "llm/weights.h"
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
  View step;           // StepState with the pass's rows
  std::uint32_t rows;  // recorded; those beyond the step's n_rows have no effect
};

struct Architecture {
  std::string_view name;  // general.architecture
  ops::RopeMode rope;
  // From the step's tokens to the hidden rows [rows, dim] that the output norm takes; stores the
  // rows' keys and values in the cache on the way.
  Tensor (*forward)(GraphSession& s, const Architecture& architecture, const ForwardArgs& args);
};

// Null when it is not known.
const Architecture* find_architecture(std::string_view name) noexcept;
std::span<const Architecture> architectures() noexcept;

}  // namespace onepass::llm
