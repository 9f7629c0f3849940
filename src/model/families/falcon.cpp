#include "model/families/layers.h"
#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array norms{
    TensorRow{.gguf = "output_norm",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::output_norm,
              .bias = Need::required},
    TensorRow{.gguf = "attn_norm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::attn_norm}},
              .bias = Need::required},
    TensorRow{.gguf = "attn_norm_2",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::attn_norm_2}},
              .need = Need::optional,
              .bias = Need::optional},
};
constexpr auto keys = join(size_keys, layer_norm_keys, rope_keys);
constexpr auto tensors = join(model_tensors, norms, fused_attention_tensors<Need::never>,
                              plain_ffn_tensors<Need::never>);

// Attention and network side by side. Of two norms the second one is that of attention.
Tensor falcon(GraphSession& s, const ForwardArgs& a) {
  const Layers n(s, a);
  Tensor h = n.embed();
  for (std::uint32_t i = 0; i < a.config.n_layers; ++i) {
    const LayerWeights& w = a.weights.layers[i];
    const Tensor y = n.norm(h, w.attn_norm);
    const Tensor x = w.attn_norm_2 ? n.norm(h, w.attn_norm_2) : y;
    if (a.ends_at(i)) {
      n.fill_cache(i, x);
      return {};
    }
    const Tensor r = n.add(h, n.attention(i, x));
    h = n.feed_forward(i, y, r);
  }
  return h;
}

}  // namespace

// Falcon: one norm in models of 7B, two in those of 40B.
constinit const Architecture falcon_row{
    .name = "falcon",
    .rope = ops::RopeMode::neox,
    .forward = falcon,
    .keys = keys,
    .tensors = tensors,
    .norm = NormKind::layer,
    .activation = Activation::gelu,
};

}  // namespace onepass::llm
