// The parts that forward passes are made of. Every call records ops and returns a scratch tensor.
//
//   const Layers n(s, args);
//   Tensor h = n.embed();
//   h = n.join(h, n.attention(i, n.norm(h, w.attn_norm)), w.post_attention_norm);
#pragma once

#include <cstdint>

#include "model/architecture.h"

namespace onepass::llm {

class Layers {
 public:
  Layers(GraphSession& s, const ForwardArgs& a) : s_(s), a_(a), c_(a.config) {}

  Tensor embed() const;  // [rows, dim] of the step's tokens, with learned positions
  // Rows of a table for the step's tokens.
  Tensor embed(const Linear& table, float scale) const;
  // Of the architecture's kind; x itself where the model has none there.
  Tensor norm(const Tensor& x, const Linear& w) const;
  // Each head of x [rows, heads * head_dim] on its own, or whole rows, as the weights are.
  Tensor norm_heads(const Tensor& x, const Linear& w) const;
  Tensor linear(const Linear& w, const Tensor& x) const;
  Tensor add(const Tensor& a, const Tensor& b) const;
  // residual + scale of residuals * norm(x).
  Tensor join(const Tensor& residual, const Tensor& x, const Linear& norm_after) const;

  // Attention of layer i, with its products, norms of heads and rotation. Values are the keys where
  // the layer has no weights for them; one without a cache of its own has only queries.
  Tensor attention(std::uint32_t i, const Tensor& x) const;
  // Of it, only what later tokens need.
  void fill_cache(std::uint32_t i, const Tensor& x) const;
  // Turns every head of x by its row's position, as layer i does.
  void rotate(std::uint32_t i, const Tensor& x) const;
  void store(std::uint32_t i, const Tensor& k, const Tensor& v) const;  // in the cache of layer i
  // What q may see in the cache of layer i.
  Tensor attend(std::uint32_t i, const Tensor& q) const;

  // residual + the feed-forward network or the experts of layer i.
  Tensor feed_forward(std::uint32_t i, const Tensor& x, const Tensor& residual) const;
  // With a gate or, where there is none, without.
  Tensor network(const Linear& gate, const Linear& up, const Linear& down, const Tensor& x) const;
  // The weighted sum of the experts that logits [rows, experts] pick for each row of x, with those
  // that every row uses; + residual where one is given.
  Tensor experts(const LayerWeights& w, const Tensor& x, const Tensor& logits,
                 const Tensor& residual) const;

 private:
  Tensor rows(std::uint32_t width) const { return s_.scratch(DType::f32, {a_.rows, width}); }
  Tensor heads(std::uint32_t i, const Tensor& x) const {  // of layer i
    const std::uint32_t dim = c_.head_dim_of(i);
    return tensor(x.view, x.dtype, {a_.rows, x.shape.last() / dim, dim});
  }
  // Heads of queries or keys of layer i, turned and normed.
  Tensor turned(std::uint32_t i, const Tensor& x, const Linear& norm) const;
  Tensor norm_values(std::uint32_t i, const Tensor& v) const;
  Tensor gated(const Tensor& gate, const Tensor& up) const;
  Tensor scaled(const Tensor& x) const;  // by that of residuals

  GraphSession& s_;
  const ForwardArgs& a_;
  const ModelConfig& c_;
};

// Logits [rows, vocab] of the hidden rows of a pass.
void output_head(GraphSession& s, const ForwardArgs& a, const Tensor& hidden, const Tensor& logits);

// out = x * weight^T [+ bias].
void linear(GraphSession& s, const Linear& w, const Tensor& x, const Tensor& out);

}  // namespace onepass::llm
