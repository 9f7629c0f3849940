// A small transformer with random weights: embedding, layers, head, greedy choice, feedback.
#pragma once

#include <cstdint>
#include <vector>

#include "onepass/onepass.hpp"

namespace onepass::test {

struct BlockShape {
  std::uint32_t dim = 256;
  std::uint32_t layers = 1;
  std::uint32_t heads = 8;
  std::uint32_t kv_heads = 4;
  std::uint32_t head_dim = 32;
  std::uint32_t ffn = 704;
  std::uint32_t vocab = 512;
  std::uint32_t context = 256;
};

class Block {
 public:
  static Result<Block> create(const Device& device, const BlockShape& shape, std::uint64_t seed);

  // One token's pass: the step state's row in, logits and the next step state out.
  void forward(GraphSession& s) const;
  // Empties the caches and sets the step state to one row.
  Status restart(std::uint32_t token, std::uint32_t position) const;

  const StepState& step() const { return step_; }
  const Tensor& logits() const { return logits_; }
  const BlockShape& shape() const { return shape_; }

 private:
  struct Layer {
    Tensor attn_norm, wq, wk, wv, wo, ffn_norm, gate, up, down;
    Tensor k_cache, v_cache;
  };
  Block() = default;

  Device device_{nullptr};
  BlockShape shape_;
  std::vector<Buffer> memory_;
  std::vector<Layer> layers_;
  Tensor embedding_, final_norm_, head_, logits_;
  StepState step_;
};

}  // namespace onepass::test
