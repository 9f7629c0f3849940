#include "model/families/layers.h"

namespace onepass::llm {

// Qwen 3, with and without experts: a norm on each head of q and k before they turn.
Tensor qwen3(GraphSession& s, const ForwardArgs& a) {
  const Layers n(s, a);
  Tensor h = n.embed();
  for (std::uint32_t i = 0; i < a.config.n_layers; ++i) {
    const LayerWeights& w = a.weights.layers[i];
    const Tensor x = n.norm(h, w.attn_norm);
    if (a.ends_at(i)) {
      const Tensor k = n.norm_heads(n.linear(w.k, x), w.k_norm), v = n.linear(w.v, x);
      n.rotate(i, k);
      n.store(i, k, v);
      return {};
    }
    const Tensor wide_q = n.linear(w.q, x), wide_k = n.linear(w.k, x), v = n.linear(w.v, x);
    const Tensor q = n.norm_heads(wide_q, w.q_norm), k = n.norm_heads(wide_k, w.k_norm);
    n.rotate(i, q);
    n.rotate(i, k);
    const Tensor r = n.add(h, n.linear(w.o, n.attend(i, q, k, v)));

    const Tensor y = n.norm(r, w.ffn_norm);
    if (a.config.n_experts > 0) {
      h = n.experts(w, y, r);
    } else {
      h = n.add(r, n.linear(w.down, n.silu_mul(n.linear(w.gate, y), n.linear(w.up, y))));
    }
  }
  return h;
}

}  // namespace onepass::llm
