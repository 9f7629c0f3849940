// Forward pass of every architecture, written once and computed in any arithmetic: float64 is the
// reference.
//
//   reference::Forward<reference::Float64> forward(model);
//   std::vector<double> logits = forward.next(token);      // keeps the keys and values
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "io/gguf_file.h"
#include "model/config.h"
#include "ops/shared/scalar.h"
#include "quant/blocks.h"

namespace onepass::test::reference {

// Weights as the numbers their format stores: exact in f32.
struct Matrix {
  std::uint32_t rows = 0, cols = 0;
  std::vector<float> values;
  std::vector<float> bias;  // of the product; empty: none
  const float* row(std::uint32_t r) const { return values.data() + std::size_t{r} * cols; }
};

// Empty parts are left out of the pass.
struct Layer {
  std::vector<float> attn_norm, ffn_norm, q_norm, k_norm, post_attention_norm, post_ffn_norm;
  Matrix q, k, v, o, gate, up, down;
  Matrix router;
  std::vector<Matrix> gate_experts, up_experts, down_experts;
  bool local = false;
};

struct Model {
  std::uint32_t dim = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  double eps = 1e-5, embedding_scale = 1.0;
  double attention_scale = 0.0;                         // 0: 1 / sqrt(head_dim)
  double attention_softcap = 0.0, final_softcap = 0.0;  // 0: none
  std::uint32_t window = 0, experts_used = 0;
  bool gelu = false;

  bool neox = false;
  std::uint32_t rope_dims = 0;  // 0: head_dim
  double rope_base = 10000.0, rope_base_local = 10000.0;
  std::vector<double> rope_factors;  // divisors of the angle; empty: none
  double rope_scale = 1.0, rope_attn_factor = 1.0;
  std::uint32_t yarn_context = 0;  // original context; 0: linear scaling

  Matrix embedding, output;
  std::vector<float> output_norm;
  std::vector<Layer> layers;
};

struct Float64 {
  using Real = double;
  // f(0) + ... + f(n - 1)
  template <class F>
  static Real sum(std::size_t n, const F& f) {
    Real total = 0.0;
    for (std::size_t i = 0; i < n; ++i) total += f(i);
    return total;
  }
  static void multiply(const Matrix& m, const std::vector<Real>& x, std::vector<Real>& y) {
    y.resize(m.rows);
    for (std::uint32_t r = 0; r < m.rows; ++r) {
      const float* w = m.row(r);
      y[r] = sum(m.cols, [&](std::size_t i) { return static_cast<Real>(w[i]) * x[i]; });
    }
  }
};

// As Float64, with the inputs of every product rounded as kernels for quantized weights do: 8 bits
// and one scale per 32. What this changes is the noise that such kernels may have.
struct Rounded : Float64 {
  static void multiply(const Matrix& m, const std::vector<Real>& x, std::vector<Real>& y) {
    std::vector<Real> rounded(x);
    for (std::size_t begin = 0; begin < x.size(); begin += 32) {
      const std::size_t end = std::min(begin + 32, x.size());
      Real most = 0.0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(x[i]));
      if (most == 0.0) continue;
      for (std::size_t i = begin; i < end; ++i) {
        rounded[i] = std::nearbyint(x[i] / most * 127.0) * most / 127.0;
      }
    }
    Float64::multiply(m, rounded, y);
  }
};

// Arithmetic: Real, sum(n, f) in its order, multiply(matrix, x, y).
template <class Arithmetic>
class Forward {
 public:
  using Real = typename Arithmetic::Real;
  using Row = std::vector<Real>;

  explicit Forward(const Model& model)
      : m_(model), keys_(model.layers.size()), values_(model.layers.size()) {}

  // Logits after one more token.
  Row next(std::uint32_t token) {
    const float* embedded = m_.embedding.row(token);
    Row h(embedded, embedded + m_.dim);
    for (Real& x : h) x *= static_cast<Real>(m_.embedding_scale);
    for (std::size_t l = 0; l < m_.layers.size(); ++l) {
      const Layer& w = m_.layers[l];
      const Row x = norm(h, w.attn_norm);
      Row q = linear(w.q, x), k = linear(w.k, x);
      const Row v = linear(w.v, x);
      if (!w.q_norm.empty()) {
        q = norm(q, w.q_norm);
        k = norm(k, w.k_norm);
      }
      rotate(q, w.local);
      rotate(k, w.local);
      keys_[l].insert(keys_[l].end(), k.begin(), k.end());
      values_[l].insert(values_[l].end(), v.begin(), v.end());
      Row o = linear(w.o, attend(q, keys_[l], values_[l], w.local));
      if (!w.post_attention_norm.empty()) o = norm(o, w.post_attention_norm);
      for (std::size_t i = 0; i < h.size(); ++i) h[i] += o[i];
      const Row y = norm(h, w.ffn_norm);
      Row f = w.router.rows > 0 ? experts(w, y) : gated(w.gate, w.up, w.down, y);
      if (!w.post_ffn_norm.empty()) f = norm(f, w.post_ffn_norm);
      for (std::size_t i = 0; i < h.size(); ++i) h[i] += f[i];
    }
    ++position_;
    Row logits = linear(m_.output, norm(h, m_.output_norm));
    if (m_.final_softcap > 0.0) {
      const Real cap = static_cast<Real>(m_.final_softcap);
      for (Real& x : logits) x = cap * std::tanh(x / cap);
    }
    return logits;
  }

 private:
  static Row linear(const Matrix& m, const Row& x) {
    Row y;
    Arithmetic::multiply(m, x, y);
    for (std::size_t i = 0; i < m.bias.size(); ++i) y[i] += static_cast<Real>(m.bias[i]);
    return y;
  }
  // Every part of x as long as the weight on its own.
  Row norm(const Row& x, const std::vector<float>& weight) const {
    Row y(x.size());
    for (std::size_t begin = 0; begin < x.size(); begin += weight.size()) {
      const Real squares = Arithmetic::sum(
          weight.size(), [&](std::size_t i) { return x[begin + i] * x[begin + i]; });
      const Real scale = Real{1} / std::sqrt(squares / static_cast<Real>(weight.size()) +
                                             static_cast<Real>(m_.eps));
      for (std::size_t i = 0; i < weight.size(); ++i) {
        y[begin + i] = x[begin + i] * scale * static_cast<Real>(weight[i]);
      }
    }
    return y;
  }
  Row gated(const Matrix& gate, const Matrix& up, const Matrix& down, const Row& x) const {
    Row g = linear(gate, x);
    const Row u = linear(up, x);
    for (std::size_t i = 0; i < g.size(); ++i) {
      const Real cubic = static_cast<Real>(0.7978845608028654) *
                         (g[i] + static_cast<Real>(0.044715) * g[i] * g[i] * g[i]);
      g[i] = u[i] * (m_.gelu ? g[i] / Real{2} * (Real{1} + std::tanh(cubic))
                             : g[i] / (Real{1} + std::exp(-g[i])));
    }
    return linear(down, g);
  }
  Row experts(const Layer& w, const Row& x) const {
    Row p = linear(w.router, x);
    const Real top = *std::max_element(p.begin(), p.end());
    Real total = 0;
    for (Real& v : p) total += v = std::exp(v - top);
    for (Real& v : p) v /= total;
    std::vector<std::size_t> order(p.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
    order.resize(m_.experts_used);
    Real sum = 0;
    for (const std::size_t e : order) sum += p[e];
    Row out(x.size(), Real{0});
    for (const std::size_t e : order) {
      const Row y = gated(w.gate_experts[e], w.up_experts[e], w.down_experts[e], x);
      const Real weight = p[e] / std::max(sum, static_cast<Real>(6.103515625e-5));
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * y[i];
    }
    return out;
  }
  // Pairs turn by their angle; angles in double, as they are no matter of precision here.
  void rotate(Row& x, bool local) const {
    const std::uint32_t dims = m_.rope_dims != 0 ? m_.rope_dims : m_.head_dim;
    const double base = local ? m_.rope_base_local : m_.rope_base;
    const double turns = std::log(base) * 2.0;
    const auto pair_of = [&](double beta) {
      return dims * std::log(m_.yarn_context / (2.0 * 3.14159265358979323846 * beta)) / turns;
    };
    double magnitude = local ? 1.0 : m_.rope_attn_factor;
    if (m_.yarn_context != 0 && !local) magnitude *= 1.0 + 0.1 * std::log(1.0 / m_.rope_scale);
    for (std::uint32_t i = 0; i < dims / 2; ++i) {
      double angle = position_ * std::pow(base, -2.0 * i / dims);
      if (!local) {
        if (!m_.rope_factors.empty()) angle /= m_.rope_factors[i];
        double kept = 0.0;
        if (m_.yarn_context != 0) {
          const double lo = std::max(0.0, std::floor(pair_of(32.0)));
          const double hi = std::min(dims - 1.0, std::ceil(pair_of(1.0)));
          kept = 1.0 - std::clamp((i - lo) / std::max(0.001, hi - lo), 0.0, 1.0);
        }
        angle *= m_.rope_scale * (1.0 - kept) + kept;
      }
      const Real c = static_cast<Real>(magnitude * std::cos(angle));
      const Real s = static_cast<Real>(magnitude * std::sin(angle));
      for (std::size_t head = 0; head < x.size(); head += m_.head_dim) {
        const std::size_t a = head + (m_.neox ? i : 2 * i), b = m_.neox ? a + dims / 2 : a + 1;
        const Real x0 = x[a], x1 = x[b];
        x[a] = x0 * c - x1 * s;
        x[b] = x0 * s + x1 * c;
      }
    }
  }
  Row attend(const Row& q, const Row& keys, const Row& values, bool local) const {
    const std::size_t d = m_.head_dim, stride = std::size_t{m_.kv_heads} * d;
    const std::size_t all = keys.size() / stride;
    const std::size_t first = local && all > m_.window ? all - m_.window : 0, n = all - first;
    const Real scale = m_.attention_scale > 0.0 ? static_cast<Real>(m_.attention_scale)
                                                : Real{1} / std::sqrt(static_cast<Real>(d));
    Row out(q.size()), p(n);
    for (std::size_t h = 0; h < m_.heads; ++h) {
      const std::size_t kv = first * stride + h / (m_.heads / m_.kv_heads) * d;
      for (std::size_t t = 0; t < n; ++t) {
        p[t] = scale * Arithmetic::sum(d, [&](std::size_t i) {
                 return q[h * d + i] * keys[t * stride + kv + i];
               });
        if (m_.attention_softcap > 0.0) {
          const Real cap = static_cast<Real>(m_.attention_softcap);
          p[t] = cap * std::tanh(p[t] / cap);
        }
      }
      const Real top = *std::max_element(p.begin(), p.end());
      for (Real& x : p) x = std::exp(x - top);
      const Real total = Arithmetic::sum(n, [&](std::size_t t) { return p[t]; });
      for (std::size_t i = 0; i < d; ++i) {
        out[h * d + i] =
            Arithmetic::sum(n, [&](std::size_t t) { return p[t] * values[t * stride + kv + i]; }) /
            total;
      }
    }
    return out;
  }

  const Model& m_;
  std::vector<Row> keys_, values_;  // per layer [position, kv_heads, head_dim]
  double position_ = 0;
};

// sum (a - b)^2 / sum b^2
template <class A, class B>
double nmse(const std::vector<A>& a, const std::vector<B>& b) {
  double error = 0.0, power = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    error += (x - y) * (x - y);
    power += y * y;
  }
  return error / power;
}

template <class T>
std::uint32_t largest(const std::vector<T>& values) {
  return static_cast<std::uint32_t>(std::max_element(values.begin(), values.end()) -
                                    values.begin());
}

// Stores values in a format and gives back the bytes; values become what was stored.
template <class Block>
std::vector<std::byte> store_blocks(std::vector<float>& values, std::size_t elements) {
  std::vector<std::byte> bytes(values.size() / elements * sizeof(Block));
  for (std::size_t i = 0; i < values.size() / elements; ++i) {
    Block block;
    quant::quantize(values.data() + elements * i, block);
    quant::dequantize(block, values.data() + elements * i);
    std::memcpy(bytes.data() + i * sizeof(Block), &block, sizeof(Block));
  }
  return bytes;
}
inline std::vector<std::byte> store(std::uint32_t ggml_type, std::vector<float>& values) {
#define ONEPASS_STORE(format, Block)                                               \
  if (static_cast<int>(ggml_type) == info(DType::format).ggml_id) {                \
    return store_blocks<quant::Block>(values, info(DType::format).block_elements); \
  }
  ONEPASS_BLOCK_FORMATS(ONEPASS_STORE)
#undef ONEPASS_STORE
  const std::size_t size = ggml_type == 0 ? 4 : 2;
  std::vector<std::byte> bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    if (ggml_type == 0) {
      std::memcpy(&bits, &values[i], 4);
    } else if (ggml_type == 1) {
      bits = ops::op_f32_to_f16(values[i]);
      values[i] = ops::op_f16_to_f32(bits);
    } else {
      bits = ops::op_f32_to_bf16(values[i]);
      values[i] = ops::op_bf16_to_f32(bits);
    }
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

// f32 and block formats.
template <class Block>
std::vector<float> load_blocks(const std::vector<std::byte>& bytes, std::size_t elements) {
  std::vector<float> values(bytes.size() / sizeof(Block) * elements);
  for (std::size_t i = 0; i * sizeof(Block) < bytes.size(); ++i) {
    Block block;
    std::memcpy(&block, bytes.data() + i * sizeof(Block), sizeof(Block));
    quant::dequantize(block, values.data() + elements * i);
  }
  return values;
}
inline std::vector<float> load(std::uint32_t ggml_type, const std::vector<std::byte>& bytes) {
#define ONEPASS_LOAD(format, Block)                                              \
  if (static_cast<int>(ggml_type) == info(DType::format).ggml_id) {              \
    return load_blocks<quant::Block>(bytes, info(DType::format).block_elements); \
  }
  ONEPASS_BLOCK_FORMATS(ONEPASS_LOAD)
#undef ONEPASS_LOAD
  std::vector<float> values(ggml_type == 0 ? bytes.size() / 4 : 0);
  if (ggml_type == 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A Llama of a file. Empty layers: something is missing.
inline Model from_file(const io::GgufFile& file) {
  const Result<llm::ModelConfig> config = llm::read_config(file.metadata());
  if (!config) return {};
  const llm::ModelConfig& c = *config;
  bool complete = true;
  const auto values = [&](const std::string& name) {
    const auto source = file.find(name);
    if (!source) {
      complete = false;
      return std::vector<float>();
    }
    std::vector<std::byte> bytes(source->info->bytes);
    complete = complete && bool(file.read(*source, bytes));
    std::vector<float> out = load(source->info->type->id, bytes);
    complete = complete && !out.empty();
    return out;
  };
  const auto matrix = [&](const std::string& name, std::uint32_t rows, std::uint32_t cols) {
    return Matrix{rows, cols, values(name + ".weight"), {}};
  };
  Model m;
  m.dim = c.dim, m.heads = c.n_heads, m.kv_heads = c.n_kv_heads, m.head_dim = c.head_dim;
  m.ffn = c.ffn_dim, m.vocab = c.vocab;
  m.eps = static_cast<double>(c.norm_eps), m.rope_base = static_cast<double>(c.rope.base);
  m.embedding = matrix("token_embd", c.vocab, c.dim);
  m.output = file.find("output.weight") ? matrix("output", c.vocab, c.dim) : m.embedding;
  m.output_norm = values("output_norm.weight");
  const std::uint32_t q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
  for (std::uint32_t i = 0; i < c.n_layers; ++i) {
    const std::string p = "blk." + std::to_string(i) + ".";
    Layer l;
    l.attn_norm = values(p + "attn_norm.weight");
    l.ffn_norm = values(p + "ffn_norm.weight");
    l.q = matrix(p + "attn_q", q, c.dim);
    l.k = matrix(p + "attn_k", kv, c.dim);
    l.v = matrix(p + "attn_v", kv, c.dim);
    l.o = matrix(p + "attn_output", c.dim, q);
    l.gate = matrix(p + "ffn_gate", c.ffn_dim, c.dim);
    l.up = matrix(p + "ffn_up", c.ffn_dim, c.dim);
    l.down = matrix(p + "ffn_down", c.dim, c.ffn_dim);
    m.layers.push_back(std::move(l));
  }
  if (!complete) m.layers.clear();
  return m;
}

}  // namespace onepass::test::reference
