#include "model/families/layers.h"
#include "model/families/tables.h"

namespace onepass::llm {

// Attention, then a feed-forward network or experts, each added to what came before. The norms that
// a model has stand where its weights say: before, after or on heads of queries and keys.
Tensor transformer(GraphSession& s, const ForwardArgs& a) {
  const Layers n(s, a);
  Tensor h = n.embed();
  for (std::uint32_t i = 0; i < a.config.n_layers; ++i) {
    const LayerWeights& w = a.weights.layers[i];
    const Tensor x = n.norm(h, w.attn_norm);
    if (a.ends_at(i)) {
      n.fill_cache(i, x);
      return {};
    }
    const Tensor r = n.join(h, n.attention(i, x), w.post_attention_norm);
    const Tensor y = n.norm(r, w.ffn_norm);
    h = n.feed_forward(i, y, r);
  }
  return h;
}

}  // namespace onepass::llm
