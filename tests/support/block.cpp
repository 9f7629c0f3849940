#include "block.h"

#include <cmath>

#include "onepass/ops.h"

namespace onepass::test {
namespace {

// SplitMix64: the same weights on every platform.
class WeightRandom {
 public:
  explicit WeightRandom(std::uint64_t seed) : state_(seed) {}
  // Uniform in [-1, 1).
  float next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<float>(z >> 40) * (1.0f / 8388608.0f) - 1.0f;
  }

 private:
  std::uint64_t state_;
};

class Maker {
 public:
  Maker(const Device& device, std::vector<Buffer>& memory, std::uint64_t seed)
      : device_(device), memory_(memory), random_(seed) {}

  Result<Tensor> weights(Shape shape, float mean = 0.0f) {
    std::vector<float> values(shape.elements());
    const float scale = mean == 0.0f ? 1.7f / std::sqrt(static_cast<float>(shape.last())) : 0.1f;
    for (float& v : values) v = mean + scale * random_.next();
    ONEPASS_ASSIGN(Tensor t, zeros(shape));
    ONEPASS_TRY(device_.write_as<float>(t.view, values));
    ONEPASS_TRY(memory_.back().set_immutable());
    return t;
  }
  Result<Tensor> zeros(Shape shape) {
    ONEPASS_ASSIGN(Buffer b, device_.allocate(shape.elements() * sizeof(float)));
    memory_.push_back(std::move(b));
    return memory_.back().tensor(DType::f32, shape);
  }

 private:
  const Device& device_;
  std::vector<Buffer>& memory_;
  WeightRandom random_;
};

}  // namespace

Result<Block> Block::create(const Device& device, const BlockShape& n, std::uint64_t seed) {
  if (n.heads == 0 || n.kv_heads == 0 || n.heads % n.kv_heads != 0) {
    return fail(ErrorCode::invalid_argument, "block: " + std::to_string(n.heads) +
                                                 " heads are no multiple of " +
                                                 std::to_string(n.kv_heads) + " kv heads");
  }
  Block b;
  b.device_ = device;
  b.shape_ = n;
  Maker make(device, b.memory_, seed);
  ONEPASS_ASSIGN(b.embedding_, make.weights({n.vocab, n.dim}));
  for (std::uint32_t i = 0; i < n.layers; ++i) {
    Layer l;
    const std::uint32_t q = n.heads * n.head_dim, kv = n.kv_heads * n.head_dim;
    ONEPASS_ASSIGN(l.attn_norm, make.weights({n.dim}, 1.0f));
    ONEPASS_ASSIGN(l.wq, make.weights({q, n.dim}));
    ONEPASS_ASSIGN(l.wk, make.weights({kv, n.dim}));
    ONEPASS_ASSIGN(l.wv, make.weights({kv, n.dim}));
    ONEPASS_ASSIGN(l.wo, make.weights({n.dim, q}));
    ONEPASS_ASSIGN(l.ffn_norm, make.weights({n.dim}, 1.0f));
    ONEPASS_ASSIGN(l.gate, make.weights({n.ffn, n.dim}));
    ONEPASS_ASSIGN(l.up, make.weights({n.ffn, n.dim}));
    ONEPASS_ASSIGN(l.down, make.weights({n.dim, n.ffn}));
    ONEPASS_ASSIGN(l.k_cache, make.zeros({1, n.kv_heads, n.context, n.head_dim}));
    ONEPASS_ASSIGN(l.v_cache, make.zeros({1, n.kv_heads, n.context, n.head_dim}));
    b.layers_.push_back(l);
  }
  ONEPASS_ASSIGN(b.final_norm_, make.weights({n.dim}, 1.0f));
  ONEPASS_ASSIGN(b.head_, make.weights({n.vocab, n.dim}));
  ONEPASS_ASSIGN(b.logits_, make.zeros({1, n.vocab}));
  ONEPASS_ASSIGN(b.step_, StepState::create(device, 1, 1));
  return b;
}

void Block::forward(GraphSession& s) const {
  const BlockShape& n = shape_;
  const View step = step_.view();
  const auto rows = [&](std::uint32_t columns) { return s.scratch(DType::f32, {1, columns}); };
  const auto heads = [&](std::uint32_t count) {
    return s.scratch(DType::f32, {1, count, n.head_dim});
  };
  const auto flat = [](Tensor t) {
    return tensor(t.view, t.dtype, {1, static_cast<std::uint32_t>(t.shape.elements())});
  };

  Tensor h = rows(n.dim);
  ops::embed(s, {.table = embedding_, .out = h, .tokens = step});
  for (const Layer& l : layers_) {
    const Tensor x = rows(n.dim);
    const Tensor q = heads(n.heads), k = heads(n.kv_heads), v = heads(n.kv_heads);
    ops::rms_norm(s, {.x = h, .weight = l.attn_norm, .out = x});
    ops::matmul(s, {.x = x, .weight = l.wq, .out = flat(q)});
    ops::matmul(s, {.x = x, .weight = l.wk, .out = flat(k)});
    ops::matmul(s, {.x = x, .weight = l.wv, .out = flat(v)});
    ops::rope(s, {.x = q, .out = q, .positions = step});
    ops::rope(s, {.x = k, .out = k, .positions = step});
    ops::kv_store(s, {.x = k, .cache = l.k_cache, .step = step});
    ops::kv_store(s, {.x = v, .cache = l.v_cache, .step = step});
    const Tensor a = heads(n.heads), o = rows(n.dim), r = rows(n.dim);
    ops::attention(s, {.q = q, .k = l.k_cache, .v = l.v_cache, .out = a, .step = step});
    ops::matmul(s, {.x = flat(a), .weight = l.wo, .out = o});
    ops::add(s, {.a = h, .b = o, .out = r});
    const Tensor y = rows(n.dim), g = rows(n.ffn), u = rows(n.ffn), m = rows(n.ffn);
    const Tensor d = rows(n.dim);
    h = rows(n.dim);
    ops::rms_norm(s, {.x = r, .weight = l.ffn_norm, .out = y});
    ops::matmul(s, {.x = y, .weight = l.gate, .out = g});
    ops::matmul(s, {.x = y, .weight = l.up, .out = u});
    ops::silu_mul(s, {.a = g, .b = u, .out = m});
    ops::matmul(s, {.x = m, .weight = l.down, .out = d});
    ops::add(s, {.a = r, .b = d, .out = h});
  }
  const Tensor f = rows(n.dim);
  const Tensor token = s.scratch(DType::u32, {1});
  ops::rms_norm(s, {.x = h, .weight = final_norm_, .out = f});
  ops::matmul(s, {.x = f, .weight = head_, .out = logits_});
  ops::argmax(s, {.x = logits_, .out = token});
  ops::step_advance(s, {.tokens = token, .step = step});
}

Status Block::restart(std::uint32_t token, std::uint32_t position) const {
  for (const Layer& l : layers_) {
    for (const Tensor* t : {&l.k_cache, &l.v_cache}) {
      const std::vector<float> zero(t->shape.elements());
      ONEPASS_TRY(device_.write_as<float>(t->view, zero));
    }
  }
  const SingleStep one(token, position);
  std::vector<std::byte> bytes(step_.view().bytes);
  ONEPASS_TRY(step_.serialize(one.values(), bytes));
  return device_.write(step_.view(), bytes);
}

}  // namespace onepass::test
