// The experts of a layer where not all are in memory: some places, into which a dispatch of the
// pass reads those that the router has chosen and that are not there, for those whose last use is
// longest ago.
//
//   Tensor places = cache.record(s, ids);                         // which place has which expert
//   ops::matmul_id(s, {.x = x, .weight = w.gate_experts.weight, .ids = places, .out = gate});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/source.h"
#include "onepass/device.h"
#include "onepass/session.h"

namespace onepass::llm {

// On devices whose memory the host sees. Passes of one device run one after the other, so any
// number of decoders may use it.
class ExpertCache {
 public:
  // A pass may choose `places` different experts of `experts`.
  ExpertCache(std::shared_ptr<const WeightSource> source, std::uint32_t experts,
              std::uint32_t places);
  ExpertCache(const ExpertCache&) = delete;
  ExpertCache& operator=(const ExpertCache&) = delete;

  // Weights that experts have: rows from first_row on of each stored matrix, in weight
  // [places, rows, cols].
  Status add(const Device& device, const StoredTensor& stored, std::uint64_t first_row,
             const Tensor& weight);
  // After all weights were added.
  Status open(const Device& device);

  // u32 like ids: the place of each expert.
  Tensor record(GraphSession& s, const Tensor& ids) const;
  // What went wrong when an expert was read; its weights are zeros then.
  Status status() const;

 private:
  struct Part {
    StoredTensor stored;
    std::uint64_t first_row;
    Tensor weight;
    std::span<std::byte> memory;
  };
  static constexpr std::uint32_t none = ~0u;

  static void run(const KernelArgs& a) noexcept;
  void choose(std::span<const std::uint32_t> ids, std::uint32_t* places);
  std::uint32_t oldest() const;
  Status read(std::uint32_t expert, std::uint32_t place) const;

  std::shared_ptr<const WeightSource> source_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> place_of_, expert_in_;  // none: nowhere, nothing
  std::vector<std::uint64_t> used_;                  // by place: the pass of its last use
  std::uint64_t pass_ = 0;
  KernelId kernel_{};
  std::optional<Error> error_;
};

}  // namespace onepass::llm
