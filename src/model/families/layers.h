// The parts that forward passes are made of. Every call records ops and returns a scratch tensor.
//
//   const Layers n(s, args);
//   Tensor h = n.embed();
//   h = n.add(h, n.linear(w.o, n.attend(i, q, k, v)));
#pragma once

#include <cstdint>

#include "model/architecture.h"

namespace onepass::llm {

class Layers {
 public:
  Layers(GraphSession& s, const ForwardArgs& a) : s_(s), a_(a), c_(a.config) {}

  Tensor embed() const;  // [rows, dim] of the step's tokens
  Tensor norm(const Tensor& x, const Tensor& weight) const;
  // Each head of x [rows, heads * head_dim] on its own.
  Tensor norm_heads(const Tensor& x, const Tensor& weight) const;
  Tensor linear(const Linear& w, const Tensor& x) const;
  Tensor add(const Tensor& a, const Tensor& b) const;
  // Turns every head of x by its row's position, as layer i does.
  void rotate(std::uint32_t i, const Tensor& x) const;
  void store(std::uint32_t i, const Tensor& k, const Tensor& v) const;  // in the cache of layer i
  // Stores k and v and attends to what q may see in the cache of layer i.
  Tensor attend(std::uint32_t i, const Tensor& q, const Tensor& k, const Tensor& v) const;
  Tensor silu_mul(const Tensor& gate, const Tensor& up) const;
  Tensor gelu_mul(const Tensor& gate, const Tensor& up) const;
  // residual + the weighted sum of the experts that the router picks for each row of x.
  Tensor experts(const LayerWeights& w, const Tensor& x, const Tensor& residual) const;

 private:
  Tensor rows(std::uint32_t width) const { return s_.scratch(DType::f32, {a_.rows, width}); }
  Tensor heads(const Tensor& x) const {
    return tensor(x.view, x.dtype, {a_.rows, x.shape.last() / c_.head_dim, c_.head_dim});
  }

  GraphSession& s_;
  const ForwardArgs& a_;
  const ModelConfig& c_;
};

// out = x * weight^T [+ bias].
void linear(GraphSession& s, const Linear& w, const Tensor& x, const Tensor& out);

}  // namespace onepass::llm
