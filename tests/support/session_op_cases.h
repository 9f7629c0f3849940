// The fifteen session ops with operands and their results in float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "devices.h"
#include "support/float64.h"

namespace onepass::test {

using Doubles = std::vector<double>;

// One op of one session: its inputs, its output and what it should be.
struct OpRun {
  Device device;
  compat::GraphSession& s;
  std::vector<Buffer> kept{};
  Tensor out{};
  Doubles expected{};
  double tolerance = 1e-5;
  std::mt19937 random{11};

  Buffer& keep(Buffer b) {
    kept.push_back(std::move(b));
    return kept.back();
  }
  // Multiples of 1 / 1024: exact as float.
  Doubles values(std::size_t n, double scale = 1.0) {
    Doubles v(n);
    for (double& x : v) x = (static_cast<double>(random() % 2049) / 1024.0 - 1.0) * scale;
    return v;
  }
  Tensor tensor(const Doubles& v, Shape shape) {
    std::vector<float> narrow;
    for (const double x : v) narrow.push_back(static_cast<float>(x));
    return keep(test::floats(device, narrow)).tensor(DType::f32, shape);
  }
  template <class T>
  View words(const std::vector<T>& v) {
    Buffer& b = keep(*device.allocate(v.size() * sizeof(T)));
    EXPECT_TRUE(device.write_as<T>(b.view(), v));
    return b.view();
  }
  Tensor output(Shape shape) {
    out = keep(*device.allocate(shape.elements() * 4)).tensor(DType::f32, shape);
    return out;
  }
  void expect_output() {
    const std::vector<float> got = test::read_floats(device, out.view);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], tolerance) << "element " << i;
    }
  }
};

inline std::uint16_t to_bf16(float f) {
  std::uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return static_cast<std::uint16_t>(bits >> 16);
}

inline void norm(OpRun& r, bool weighted) {
  const std::uint32_t rows = 3, dim = 7;
  const auto x = r.values(rows * dim), w = r.values(dim);
  const Tensor in = r.tensor(x, {rows, dim}), out = r.output({rows * dim});
  if (weighted) {
    r.s.rms_norm(in, r.tensor(w, {dim}), out, 1e-3f, rows, dim);
  } else {
    r.s.rms_norm_no_scale_f32(in, out, 1e-3f, rows, dim);
  }
  r.expected.assign(x.begin(), x.end());
  test::rms_norm(r.expected, weighted ? Doubles(w.begin(), w.end()) : Doubles(dim, 1.0), 1e-3);
}

inline void affine(OpRun& r, std::uint32_t m, std::uint32_t k, std::uint32_t n, std::uint32_t group,
                   std::uint32_t bits, bool simd) {
  const std::uint32_t per_word = 32 / bits, groups = k / group;
  const auto x = r.values(m * k);
  std::vector<std::uint32_t> packed(n * k / per_word), q(n * k);
  for (std::uint32_t i = 0; i < n * k; ++i) {
    q[i] = static_cast<std::uint32_t>(r.random() % (1u << bits));
    packed[i / per_word] |= q[i] << (bits * (i % per_word));
  }
  std::vector<std::uint16_t> scales, biases;
  Doubles scale, bias;
  for (std::uint32_t i = 0; i < n * groups; ++i) {  // exact in bf16
    scale.push_back(0.125 / (1 << bits) * (1 + i % 3));
    bias.push_back(-0.0625 * (1 + i % 2));
    scales.push_back(to_bf16(static_cast<float>(scale.back())));
    biases.push_back(to_bf16(static_cast<float>(bias.back())));
  }
  const Tensor in = r.tensor(x, {m, k});
  const View weight = r.words(packed);
  const Shape per_group{n, groups};
  const Tensor s = tensor(r.words(scales), DType::bf16, per_group);
  const Tensor b = tensor(r.words(biases), DType::bf16, per_group);
  const compat::QuantizedMatmulParams p{m, k, n, group, bits};
  Result<Buffer> out = simd ? r.s.quantized_matmul_simd(in, weight, s, b, p)
                            : r.s.quantized_matmul(in, weight, s, b, p);
  ASSERT_TRUE(test::is_ok(out));
  EXPECT_EQ(out->bytes(), m * n * 4);
  r.out = r.keep(std::move(*out)).tensor(DType::f32, {m, n});
  for (std::uint32_t i = 0; i < m; ++i) {
    for (std::uint32_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::uint32_t c = 0; c < k; ++c) {
        const std::uint32_t g = j * groups + c / group;
        sum += x[i * k + c] * (q[j * k + c] * scale[g] + bias[g]);
      }
      r.expected.push_back(sum);
    }
  }
}

// Rows of blocks and their values. d is 0.5 or 0.25.
inline std::vector<std::uint8_t> q8_0_rows(OpRun& r, std::uint32_t n, Doubles& w) {
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t block = 0; block < n / 32; ++block) {
    const bool half = block % 2 == 0;
    bytes.push_back(0x00);
    bytes.push_back(half ? 0x38 : 0x34);
    for (int i = 0; i < 32; ++i) {
      const int q = static_cast<int>(r.random() % 255) - 127;
      bytes.push_back(static_cast<std::uint8_t>(q));
      w.push_back(q * (half ? 0.5 : 0.25));
    }
  }
  return bytes;
}
inline std::vector<std::uint8_t> q4_0_rows(OpRun& r, std::uint32_t n, Doubles& w) {
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t block = 0; block < n / 32; ++block) {
    bytes.push_back(0x00);
    bytes.push_back(0x38);
    const std::size_t first = w.size();
    w.resize(first + 32);
    for (std::size_t i = 0; i < 16; ++i) {
      const auto byte = static_cast<std::uint8_t>(r.random() % 256);
      bytes.push_back(byte);
      w[first + i] = ((byte & 15) - 8) * 0.5;
      w[first + i + 16] = ((byte >> 4) - 8) * 0.5;
    }
  }
  return bytes;
}

inline void ggml(OpRun& r) {
  const std::uint32_t m = 2, n = 3, k = 64;
  const auto x = r.values(m * k);
  Doubles w;
  const View weight = r.words(q8_0_rows(r, n * k, w));
  r.s.quantized_matmul_ggml(r.tensor(x, {m, k}), weight, r.output({m, n}), {m, n, k, DType::q8_0});
  r.tolerance = 1e-3;
  for (std::uint32_t i = 0; i < m; ++i) {
    for (std::uint32_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::uint32_t c = 0; c < k; ++c) sum += x[i * k + c] * w[j * k + c];
      r.expected.push_back(sum);
    }
  }
}

inline void id_ggml(OpRun& r) {
  const std::uint32_t tokens = 2, top_k = 2, n = 3, k = 32, experts = 3;
  const auto x = r.values(tokens * k);
  Doubles w;
  const View weight = r.words(q4_0_rows(r, experts * n * k, w));
  const std::vector<std::uint32_t> ids{2, 0, 1, 2};
  const Tensor id = tensor(r.words(ids), DType::u32, {tokens, top_k});
  r.s.quantized_matmul_id_ggml(r.tensor(x, {tokens, k}), weight, id, r.output({tokens, top_k, n}),
                               {tokens, top_k, n, k, experts, n * 18, DType::q4_0});
  for (std::uint32_t t = 0; t < tokens; ++t) {
    for (std::uint32_t j = 0; j < top_k; ++j) {
      for (std::uint32_t row = 0; row < n; ++row) {
        double sum = 0;
        for (std::uint32_t c = 0; c < k; ++c) {
          sum += x[t * k + c] * w[(ids[t * top_k + j] * n + row) * k + c];
        }
        r.expected.push_back(sum);
      }
    }
  }
}

// Attention of one query over keys [first, last).
inline void attend(const double* q, const double* k, const double* v, std::uint32_t dim,
                   std::uint32_t first, std::uint32_t last, double scale, double cap,
                   Doubles& out) {
  Doubles p;
  double max = -1e300, sum = 0;
  for (std::uint32_t i = first; i < last; ++i) {
    double dot = 0;
    for (std::uint32_t c = 0; c < dim; ++c) dot += q[c] * k[i * dim + c];
    dot *= scale;
    p.push_back(cap == 0 ? dot : cap * std::tanh(dot / cap));
    max = std::max(max, p.back());
  }
  for (double& e : p) sum += e = std::exp(e - max);
  for (std::uint32_t c = 0; c < dim; ++c) {
    double y = 0;
    for (std::uint32_t i = first; i < last; ++i) y += p[i - first] / sum * v[i * dim + c];
    out.push_back(y);
  }
}

inline void sdpa(OpRun& r, std::uint32_t seq) {
  const std::uint32_t batch = 2, heads = 4, kv_heads = 2, dim = 8, kv = 5, capacity = 6;
  const auto q = r.values(batch * heads * seq * dim);
  const auto k = r.values(batch * kv_heads * capacity * dim);
  const auto v = r.values(batch * kv_heads * capacity * dim);
  const Shape cache{batch, kv_heads, capacity, dim}, rows{batch, heads, seq, dim};
  r.s.sdpa(r.tensor(q, rows), r.tensor(k, cache), r.tensor(v, cache), r.output(rows),
           {heads, kv_heads, dim, seq, kv, 0.4f, capacity}, batch);
  for (std::uint32_t b = 0; b < batch; ++b) {
    for (std::uint32_t h = 0; h < heads; ++h) {
      const std::size_t kv_at = (b * kv_heads + h / 2) * capacity * dim;
      for (std::uint32_t i = 0; i < seq; ++i) {
        attend(&q[((b * heads + h) * seq + i) * dim], &k[kv_at], &v[kv_at], dim, 0,
               kv - seq + i + 1, double(0.4f), 0, r.expected);
      }
    }
  }
}

inline void flash(OpRun& r) {
  const std::uint32_t heads = 4, kv_heads = 2, dim = 16, kv = 7, capacity = 8, window = 4;
  const auto q = r.values(heads * dim);
  const auto k = r.values(kv_heads * capacity * dim), v = r.values(kv_heads * capacity * dim);
  const Shape cache{kv_heads, capacity, dim};
  r.s.flash_attn_vec(r.tensor(q, {heads, dim}), r.tensor(k, cache), r.tensor(v, cache),
                     r.output({heads, dim}), {},
                     {heads, kv_heads, dim, kv, capacity, 0.25f, 2, window, 1.5f});
  for (std::uint32_t h = 0; h < heads; ++h) {
    const std::size_t kv_at = h / 2 * capacity * dim;
    attend(&q[h * dim], &k[kv_at], &v[kv_at], dim, kv - window, kv, 0.25, 1.5, r.expected);
  }
}

inline void elementwise(OpRun& r, bool product) {
  const std::uint32_t n = 13;
  const auto a = r.values(n), b = r.values(n);
  const View va = r.tensor(a, {n}).view, vb = r.tensor(b, {n}).view, vo = r.output({n}).view;
  product ? r.s.elementwise_mul(va, vb, vo, n, DType::f32)
          : r.s.elementwise_add(va, vb, vo, n, DType::f32);
  for (std::uint32_t i = 0; i < n; ++i) {
    r.expected.push_back(product ? a[i] * b[i] : a[i] + b[i]);
  }
}

inline void rope(OpRun& r) {
  const std::uint32_t seq = 4, dim = 8;
  const auto x = r.values(seq * dim);
  const std::vector<std::uint32_t> positions{0, 3, 17, 1000};
  r.s.rope(r.tensor(x, {seq, dim}), r.output({seq, dim}), 10000.0f, r.words(positions), seq, dim);
  r.tolerance = 2e-5;
  r.expected.resize(x.size());
  for (std::uint32_t t = 0; t < seq; ++t) {
    for (std::uint32_t i = 0; i < dim / 2; ++i) {
      const double angle = positions[t] * std::pow(10000.0, -2.0 * i / dim);
      const double a = x[t * dim + 2 * i], b = x[t * dim + 2 * i + 1];
      r.expected[t * dim + 2 * i] = a * std::cos(angle) - b * std::sin(angle);
      r.expected[t * dim + 2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
  }
}

inline void rope_neox(OpRun& r) {
  const std::uint32_t seq = 3, heads = 2, dim = 8, rope_dim = 4;
  const auto x = r.values(seq * heads * dim);
  const std::vector<std::uint32_t> positions{1, 5, 100};
  const Doubles factors{1.0, 2.5};
  const Shape shape{seq, heads, dim};
  r.s.rope_neox_f32(r.tensor(x, shape), r.output(shape), 500.0f, r.words(positions),
                    r.tensor(factors, {2}), seq, heads, dim, rope_dim);
  r.expected.assign(x.begin(), x.end());
  for (std::uint32_t row = 0; row < seq * heads; ++row) {
    for (std::uint32_t i = 0; i < rope_dim / 2; ++i) {
      const double angle = positions[row / heads] * std::pow(500.0, -2.0 * i / dim) / factors[i];
      const std::size_t lo = row * dim + i, hi = lo + dim / 2;
      r.expected[lo] = x[lo] * std::cos(angle) - x[hi] * std::sin(angle);
      r.expected[hi] = x[lo] * std::sin(angle) + x[hi] * std::cos(angle);
    }
  }
}

inline void gelu(OpRun& r) {
  const auto x = r.values(11, 4);
  r.s.gelu(r.tensor(x, {11}), r.output({11}));
  for (const double v : x) {
    const double inner = std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v);
    r.expected.push_back(0.5 * v * (1 + std::tanh(inner)));
  }
}

inline void softmax(OpRun& r) {
  const std::uint32_t rows = 3, cols = 9;
  const auto x = r.values(rows * cols, 20);
  r.s.softmax(r.tensor(x, {rows, cols}), r.output({rows, cols}), rows, cols);
  for (std::uint32_t i = 0; i < rows; ++i) {
    double max = -1e300, sum = 0;
    for (std::uint32_t c = 0; c < cols; ++c) max = std::max(max, x[i * cols + c]);
    for (std::uint32_t c = 0; c < cols; ++c) sum += std::exp(x[i * cols + c] - max);
    for (std::uint32_t c = 0; c < cols; ++c) {
      r.expected.push_back(std::exp(x[i * cols + c] - max) / sum);
    }
  }
}

inline void softcap(OpRun& r) {
  const auto x = r.values(10, 50);
  r.s.softcap(r.tensor(x, {10}), r.output({10}), 30.0f);
  for (const double v : x) r.expected.push_back(30 * std::tanh(v / 30));
  r.tolerance = 1e-4;
}

struct SessionOpCase {
  const char* name;
  std::function<void(OpRun&)> record;
};
inline const std::vector<SessionOpCase>& session_op_cases() {
  static const std::vector<SessionOpCase> list{
      {"rms_norm", [](OpRun& r) { norm(r, true); }},
      {"quantized_matmul", [](OpRun& r) { affine(r, 2, 64, 3, 32, 4, false); }},
      {"quantized_matmul_simd", [](OpRun& r) { affine(r, 1, 256, 8, 64, 8, true); }},
      {"quantized_matmul_ggml", ggml},
      {"quantized_matmul_id_ggml", id_ggml},
      {"sdpa", [](OpRun& r) { sdpa(r, 3); }},
      {"sdpa_one_query", [](OpRun& r) { sdpa(r, 1); }},
      {"flash_attn_vec", flash},
      {"elementwise_add", [](OpRun& r) { elementwise(r, false); }},
      {"elementwise_mul", [](OpRun& r) { elementwise(r, true); }},
      {"rope", rope},
      {"gelu", gelu},
      {"softmax", softmax},
      {"softcap", softcap},
      {"rms_norm_no_scale_f32", [](OpRun& r) { norm(r, false); }},
      {"rope_neox_f32", rope_neox},
  };
  return list;
}

}  // namespace onepass::test
