#include "llm/architecture.h"

namespace onepass::llm {
namespace {

Tensor llama(GraphSession& s, const Architecture& arch, const ForwardArgs& a) {
  const ModelConfig& c = a.config;
  const View step = a.step;
  const auto rows = [&](std::uint32_t width) { return s.scratch(DType::f32, {a.rows, width}); };
  // The same memory as [rows, heads, head_dim].
  const auto heads = [&](const Tensor& t, std::uint32_t n) {
    return tensor(t.view, t.dtype, {a.rows, n, c.head_dim});
  };
  const auto rotate = [&](const Tensor& x) {
    ops::rope(s, {.x = x,
                  .out = x,
                  .positions = step,
                  .theta = c.rope_base,
                  .mode = arch.rope,
                  .freq_factors = a.weights.rope_factors});
  };

  Tensor h = rows(c.dim);
  ops::embed(s, {.table = a.weights.embedding, .out = h, .tokens = step});
  for (std::uint32_t i = 0; i < c.n_layers; ++i) {
    const LayerWeights& w = a.weights.layers[i];
    const KvLayer& kv = a.cache[i];
    const Tensor x = rows(c.dim), q = rows(c.n_heads * c.head_dim);
    const Tensor k = rows(c.n_kv_heads * c.head_dim), v = rows(c.n_kv_heads * c.head_dim);
    ops::rms_norm(s, {.x = h, .weight = w.attn_norm, .out = x, .eps = c.norm_eps});
    ops::matmul(s, {.x = x, .weight = w.q, .out = q});
    ops::matmul(s, {.x = x, .weight = w.k, .out = k});
    ops::matmul(s, {.x = x, .weight = w.v, .out = v});
    rotate(heads(q, c.n_heads));
    rotate(heads(k, c.n_kv_heads));
    ops::kv_store(s, {.x = heads(k, c.n_kv_heads), .cache = kv.k, .step = step});
    ops::kv_store(s, {.x = heads(v, c.n_kv_heads), .cache = kv.v, .step = step});
    const Tensor attended = rows(c.n_heads * c.head_dim), o = rows(c.dim), r = rows(c.dim);
    ops::attention(s, {.q = heads(q, c.n_heads),
                       .k = kv.k,
                       .v = kv.v,
                       .out = heads(attended, c.n_heads),
                       .step = step});
    ops::matmul(s, {.x = attended, .weight = w.o, .out = o});
    ops::add(s, {.a = h, .b = o, .out = r});

    const Tensor y = rows(c.dim), gate = rows(c.ffn_dim), up = rows(c.ffn_dim);
    const Tensor gated = rows(c.ffn_dim), down = rows(c.dim);
    ops::rms_norm(s, {.x = r, .weight = w.ffn_norm, .out = y, .eps = c.norm_eps});
    ops::matmul(s, {.x = y, .weight = w.gate, .out = gate});
    ops::matmul(s, {.x = y, .weight = w.up, .out = up});
    ops::silu_mul(s, {.a = gate, .b = up, .out = gated});
    ops::matmul(s, {.x = gated, .weight = w.down, .out = down});
    h = rows(c.dim);
    ops::add(s, {.a = r, .b = down, .out = h});
  }
  return h;
}

constexpr Architecture table[] = {
    {"llama", ops::RopeMode::interleaved, llama},
};

}  // namespace

std::span<const Architecture> architectures() noexcept { return table; }

const Architecture* find_architecture(std::string_view name) noexcept {
  for (const Architecture& a : table) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

}  // namespace onepass::llm
