#include "model/families/layers.h"

namespace onepass::llm {

// Gemma 2 and 3: a norm before and after attention and feed-forward network, GELU, local layers
// among global ones; Gemma 3 with a norm on each head of q and k.
Tensor gemma(GraphSession& s, const ForwardArgs& a) {
  const Layers n(s, a);
  Tensor h = n.embed();
  for (std::uint32_t i = 0; i < a.config.n_layers; ++i) {
    const LayerWeights& w = a.weights.layers[i];
    const Tensor x = n.norm(h, w.attn_norm);
    if (a.ends_at(i)) {
      const Tensor k = n.linear(w.k, x), v = n.linear(w.v, x);
      const Tensor turned = w.k_norm ? n.norm_heads(k, w.k_norm) : k;
      n.rotate(i, turned);
      n.store(i, turned, v);
      return {};
    }
    Tensor q = n.linear(w.q, x), k = n.linear(w.k, x);
    const Tensor v = n.linear(w.v, x);
    if (w.q_norm) {
      q = n.norm_heads(q, w.q_norm);
      k = n.norm_heads(k, w.k_norm);
    }
    n.rotate(i, q);
    n.rotate(i, k);
    const Tensor o = n.linear(w.o, n.attend(i, q, k, v));
    const Tensor r = n.add(h, n.norm(o, w.post_attention_norm));

    const Tensor y = n.norm(r, w.ffn_norm);
    const Tensor f = n.linear(w.down, n.gelu_mul(n.linear(w.gate, y), n.linear(w.up, y)));
    h = n.add(r, n.norm(f, w.post_ffn_norm));
  }
  return h;
}

}  // namespace onepass::llm
