#include "model/families/layers.h"
#include "model/families/tables.h"

namespace onepass::llm {

// Attention and a feed-forward network side by side: both read the rows that came in, through one
// norm or one each, and both are added.
Tensor parallel(GraphSession& s, const ForwardArgs& a) {
  const Layers n(s, a);
  Tensor h = n.embed();
  for (std::uint32_t i = 0; i < a.config.n_layers; ++i) {
    const LayerWeights& w = a.weights.layers[i];
    const Tensor x = n.norm(h, w.attn_norm);
    if (a.ends_at(i)) {
      n.fill_cache(i, x);
      return {};
    }
    const Tensor y = w.ffn_norm ? n.norm(h, w.ffn_norm) : x;
    const Tensor r = n.add(h, n.attention(i, x));
    h = n.feed_forward(i, y, r);
  }
  return h;
}

}  // namespace onepass::llm
