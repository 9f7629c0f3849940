// Llama forward pass, written once and computed in any arithmetic: float64 is the reference.
//
//   reference::Forward<reference::Float64> forward(model);
//   std::vector<double> logits = forward.next(token);      // keeps the keys and values
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "io/gguf_file.h"
#include "llm/config.h"
#include "ops/shared/scalar.h"
#include "quant/q4_0.h"
#include "quant/q8_0.h"

namespace onepass::test::reference {

// Weights as the numbers their format stores: exact in f32.
struct Matrix {
  std::uint32_t rows = 0, cols = 0;
  std::vector<float> values;
  const float* row(std::uint32_t r) const { return values.data() + std::size_t{r} * cols; }
};

struct Layer {
  std::vector<float> attn_norm, ffn_norm;
  Matrix q, k, v, o, gate, up, down;
};

struct Model {
  std::uint32_t dim = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  double eps = 1e-5, rope_base = 10000.0;
  std::vector<double> rope_factors;  // divisors of the angle; empty: none
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
    Row q, k, v, o, gate, up;
    for (std::size_t l = 0; l < m_.layers.size(); ++l) {
      const Layer& w = m_.layers[l];
      const Row x = norm(h, w.attn_norm);
      Arithmetic::multiply(w.q, x, q);
      Arithmetic::multiply(w.k, x, k);
      Arithmetic::multiply(w.v, x, v);
      rotate(q);
      rotate(k);
      keys_[l].insert(keys_[l].end(), k.begin(), k.end());
      values_[l].insert(values_[l].end(), v.begin(), v.end());
      Arithmetic::multiply(w.o, attend(q, keys_[l], values_[l]), o);
      for (std::size_t i = 0; i < h.size(); ++i) h[i] += o[i];
      const Row y = norm(h, w.ffn_norm);
      Arithmetic::multiply(w.gate, y, gate);
      Arithmetic::multiply(w.up, y, up);
      for (std::size_t i = 0; i < gate.size(); ++i) {
        gate[i] = gate[i] / (Real{1} + std::exp(-gate[i])) * up[i];
      }
      Arithmetic::multiply(w.down, gate, o);
      for (std::size_t i = 0; i < h.size(); ++i) h[i] += o[i];
    }
    ++position_;
    Row logits;
    Arithmetic::multiply(m_.output, norm(h, m_.output_norm), logits);
    return logits;
  }

 private:
  Row norm(const Row& x, const std::vector<float>& weight) const {
    const Real squares = Arithmetic::sum(x.size(), [&](std::size_t i) { return x[i] * x[i]; });
    const Real scale =
        Real{1} / std::sqrt(squares / static_cast<Real>(x.size()) + static_cast<Real>(m_.eps));
    Row y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * static_cast<Real>(weight[i]);
    return y;
  }
  // Pairs (2i, 2i + 1) of every head.
  void rotate(Row& x) const {
    for (std::size_t i = 0; i < m_.head_dim / 2; ++i) {
      const double factor = m_.rope_factors.empty() ? 1.0 : m_.rope_factors[i];
      const double exponent = -2.0 * static_cast<double>(i) / m_.head_dim;
      const double angle = position_ * std::pow(m_.rope_base, exponent) / factor;
      const Real c = static_cast<Real>(std::cos(angle)), s = static_cast<Real>(std::sin(angle));
      for (std::size_t at = 2 * i; at < x.size(); at += m_.head_dim) {
        const Real x0 = x[at], x1 = x[at + 1];
        x[at] = x0 * c - x1 * s;
        x[at + 1] = x0 * s + x1 * c;
      }
    }
  }
  Row attend(const Row& q, const Row& keys, const Row& values) const {
    const std::size_t d = m_.head_dim, stride = std::size_t{m_.kv_heads} * d;
    const std::size_t n = keys.size() / stride;
    Row out(q.size()), p(n);
    for (std::size_t h = 0; h < m_.heads; ++h) {
      const std::size_t kv = h / (m_.heads / m_.kv_heads) * d;
      for (std::size_t t = 0; t < n; ++t) {
        p[t] = Arithmetic::sum(
                   d, [&](std::size_t i) { return q[h * d + i] * keys[t * stride + kv + i]; }) /
               std::sqrt(static_cast<Real>(d));
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
std::vector<std::byte> store_blocks(std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() / 32 * sizeof(Block));
  for (std::size_t i = 0; i < values.size() / 32; ++i) {
    Block block;
    quant::quantize(values.data() + 32 * i, block);
    quant::dequantize(block, values.data() + 32 * i);
    std::memcpy(bytes.data() + i * sizeof(Block), &block, sizeof(Block));
  }
  return bytes;
}
inline std::vector<std::byte> store(std::uint32_t ggml_type, std::vector<float>& values) {
  if (ggml_type == 2) return store_blocks<quant::BlockQ4_0>(values);
  if (ggml_type == 8) return store_blocks<quant::BlockQ8_0>(values);
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

// A model of a file with f32, q4_0 and q8_0 tensors. Empty layers: something is missing.
inline Model from_file(const io::GgufFile& file) {
  const Result<llm::ModelConfig> config = llm::read_config(file.metadata());
  if (!config) return {};
  const llm::ModelConfig& c = *config;
  bool complete = true;
  const auto values = [&](const std::string& name) {
    std::vector<float> out;
    const auto source = file.find(name);
    if (!source) {
      complete = false;
      return out;
    }
    std::vector<std::byte> bytes(source->info->bytes);
    complete = complete && bool(file.read(*source, bytes));
    const std::uint32_t type = source->info->type->id;
    const auto blocks = [&](auto block) {
      out.resize(bytes.size() / sizeof block * 32);
      for (std::size_t i = 0; i * sizeof block < bytes.size(); ++i) {
        std::memcpy(&block, bytes.data() + i * sizeof block, sizeof block);
        quant::dequantize(block, out.data() + 32 * i);
      }
    };
    if (type == 2) {
      blocks(quant::BlockQ4_0{});
    } else if (type == 8) {
      blocks(quant::BlockQ8_0{});
    } else if (type == 0) {
      out.resize(bytes.size() / 4);
      std::memcpy(out.data(), bytes.data(), bytes.size());
    } else {
      complete = false;
    }
    return out;
  };
  const auto matrix = [&](const std::string& name, std::uint32_t rows, std::uint32_t cols) {
    return Matrix{rows, cols, values(name + ".weight")};
  };
  Model m;
  m.dim = c.dim, m.heads = c.n_heads, m.kv_heads = c.n_kv_heads, m.head_dim = c.head_dim;
  m.ffn = c.ffn_dim, m.vocab = c.vocab;
  m.eps = static_cast<double>(c.norm_eps), m.rope_base = static_cast<double>(c.rope_base);
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
