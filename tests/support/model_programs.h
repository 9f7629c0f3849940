// One decode token of several transformer families as programs: every intermediate tensor is a
// scratch region of its real size, KV caches are buffers, weights (immutable) are left out.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "program_builder.h"

namespace onepass::test {

// Per row; all activations are f32, KV caches f16.
struct ModelShape {
  std::uint32_t layers = 8;
  std::uint32_t hidden = 4096, heads = 32, kv_heads = 8, head_dim = 128, ffn = 14336;
  std::uint32_t experts = 128, experts_used = 8, expert_ffn = 768, shared_ffn = 2048;
  std::uint32_t vocab = 128256, context = 4096;
};

// Emits the parts of a layer. Order within a part is how an engine without a scheduler records it:
// each projection directly followed by what is done to its result.
class ModelRecorder {
 public:
  explicit ModelRecorder(const ModelShape& shape, std::uint32_t sequences = 1) : shape_(shape) {
    const std::uint64_t cache = std::uint64_t{2} * shape.kv_heads * shape.context * shape.head_dim;
    for (std::uint32_t l = 0; l < shape.layers; ++l) {
      k_cache_.push_back(b_.buffer(cache * sequences));
      v_cache_.push_back(b_.buffer(cache * sequences));
    }
    cache_bytes_ = cache;
    logits_ = b_.buffer(std::uint64_t{4} * shape.vocab * sequences);
    for (std::uint32_t s = 0; s < sequences; ++s) embedded_.push_back(b_.buffer(row_bytes()));
  }

  Bytes input(std::uint32_t sequence = 0) const { return embedded_[sequence]; }

  Bytes norm(Bytes x) { return unary(x, floats(shape_.hidden)); }
  Bytes unary(Bytes x, Bytes out) {
    b_.dispatch({x}, {out});
    return out;
  }
  Bytes binary(Bytes x, Bytes y, Bytes out) {
    b_.dispatch({x, y}, {out});
    return out;
  }

  // 10 dispatches, 12 with head norms: projections, rope in place, cache stores, attention, output.
  Bytes attention(Bytes x, std::uint32_t layer, bool head_norms, std::uint32_t sequence = 0) {
    const std::uint64_t q_bytes = std::uint64_t{shape_.heads} * shape_.head_dim;
    const std::uint64_t kv_bytes = std::uint64_t{shape_.kv_heads} * shape_.head_dim;
    const Bytes q = head(x, q_bytes, head_norms);
    const Bytes k = head(x, kv_bytes, head_norms);
    const Bytes v = unary(x, floats(kv_bytes));
    const Bytes keys = slot(k_cache_[layer], sequence), values = slot(v_cache_[layer], sequence);
    b_.dispatch({k}, {keys});
    b_.dispatch({v}, {values});
    const Bytes a = floats(q_bytes);
    b_.dispatch({q, keys, values}, {a}, false);
    return unary(a, floats(shape_.hidden));
  }

  // 4 dispatches: gate, up, activation, down.
  Bytes feed_forward(Bytes x, std::uint64_t width) {
    const Bytes gate = unary(x, floats(width));
    const Bytes up = unary(x, floats(width));
    return unary(binary(gate, up, floats(width)), floats(shape_.hidden));
  }

  // 19 dispatches with 8 experts used: unfused routing, experts, weighted sum by a chain of adds.
  Bytes experts(Bytes x) {
    const std::uint32_t used = shape_.experts_used;
    const Bytes logits = unary(x, floats(shape_.experts));
    const Bytes probabilities = b_.scratch(std::uint64_t{4} * shape_.experts);
    b_.dispatch({logits}, {probabilities}, false);
    const Bytes ids = b_.scratch(std::uint64_t{4} * used);
    b_.dispatch({probabilities}, {ids}, false);
    const Bytes picked = binary(probabilities, ids, floats(used));
    const Bytes total = unary(picked, floats(1));
    const Bytes clamped = unary(total, floats(1));
    const Bytes weights = binary(picked, clamped, floats(used));
    const std::uint64_t width = std::uint64_t{used} * shape_.expert_ffn;
    const Bytes up = binary(x, ids, floats(width));
    const Bytes gate = binary(x, ids, floats(width));
    const Bytes activated = binary(gate, up, floats(width));
    const Bytes down = binary(activated, ids, floats(std::uint64_t{used} * shape_.hidden));
    const Bytes weighted = binary(down, weights, floats(std::uint64_t{used} * shape_.hidden));
    Bytes sum = expert_row(weighted, 0);
    for (std::uint32_t e = 1; e < used; ++e) {
      sum = binary(sum, expert_row(weighted, e), floats(shape_.hidden));
    }
    return sum;
  }

  // 7 dispatches: an always active expert scaled by its own gate.
  Bytes shared_expert(Bytes x) {
    const Bytes y = feed_forward(x, shape_.shared_ffn);
    const Bytes gate = unary(x, floats(1));
    const Bytes scale = unary(gate, floats(1));
    return binary(y, scale, floats(shape_.hidden));
  }

  Bytes add(Bytes x, Bytes y) { return binary(x, y, floats(shape_.hidden)); }

  // 2 dispatches: final norm, output projection.
  void output(Bytes h, std::uint32_t sequence = 0) {
    const Bytes normed = norm(h);
    const std::uint64_t bytes = std::uint64_t{4} * shape_.vocab;
    b_.dispatch({normed}, {{logits_.region, bytes * sequence, bytes * (sequence + 1)}});
  }

  Bytes floats(std::uint64_t n) { return b_.scratch(4 * n); }
  Bytes keys(std::uint32_t layer) const { return k_cache_[layer]; }
  Bytes values(std::uint32_t layer) const { return v_cache_[layer]; }
  Bytes logits() const { return logits_; }
  const ModelShape& shape() const { return shape_; }
  ProgramBuilder& builder() { return b_; }
  ProgramBuilder take() { return std::move(b_); }

 private:
  Bytes head(Bytes x, std::uint64_t n, bool head_norm) {
    Bytes y = unary(x, floats(n));
    if (head_norm) y = unary(y, floats(n));
    b_.dispatch({y}, {y});
    return y;
  }
  std::uint64_t row_bytes() const { return std::uint64_t{4} * shape_.hidden; }
  Bytes expert_row(Bytes rows, std::uint32_t e) const {
    return {rows.region, row_bytes() * e, row_bytes() * (e + 1)};
  }
  Bytes slot(Bytes cache, std::uint32_t sequence) const {
    return {cache.region, cache_bytes_ * sequence, cache_bytes_ * (sequence + 1)};
  }

  ProgramBuilder b_;
  ModelShape shape_;
  std::vector<Bytes> k_cache_, v_cache_, embedded_;
  Bytes logits_;
  std::uint64_t cache_bytes_ = 0;
};

// 17 dispatches and 12 levels per layer, 19 and 13 with head norms (Qwen3).
inline Bytes dense_layer(ModelRecorder& r, Bytes h, std::uint32_t layer, bool head_norms,
                         std::uint32_t sequence = 0) {
  h = r.add(r.attention(r.norm(h), layer, head_norms, sequence), h);
  return r.add(r.feed_forward(r.norm(h), r.shape().ffn), h);
}

inline ProgramBuilder llama_dense(const ModelShape& shape) {
  ModelRecorder r(shape);
  Bytes h = r.input();
  for (std::uint32_t l = 0; l < shape.layers; ++l) h = dense_layer(r, h, l, false);
  r.output(h);
  return r.take();
}

inline ProgramBuilder qwen3_dense(const ModelShape& shape) {
  ModelRecorder r(shape);
  Bytes h = r.input();
  for (std::uint32_t l = 0; l < shape.layers; ++l) h = dense_layer(r, h, l, true);
  r.output(h);
  return r.take();
}

// 34 dispatches and 25 levels per layer; 42 and 26 with a shared expert.
inline ProgramBuilder qwen3_moe(const ModelShape& shape, bool shared_expert) {
  ModelRecorder r(shape);
  Bytes h = r.input();
  for (std::uint32_t l = 0; l < shape.layers; ++l) {
    h = r.add(r.attention(r.norm(h), l, true), h);
    const Bytes x = r.norm(h);
    Bytes y = r.experts(x);
    if (shared_expert) y = r.add(y, r.shared_expert(x));
    h = r.add(y, h);
  }
  r.output(h);
  return r.take();
}

// 16 dispatches and 8 levels per layer.
inline ProgramBuilder parallel_block(const ModelShape& shape) {
  ModelRecorder r(shape);
  Bytes h = r.input();
  for (std::uint32_t l = 0; l < shape.layers; ++l) {
    const Bytes x = r.norm(h);
    const Bytes a = r.attention(x, l, false);
    const Bytes m = r.feed_forward(x, shape.ffn);
    h = r.add(r.add(a, m), h);
  }
  r.output(h);
  return r.take();
}

// Independent sequences recorded layer by layer in turn; they share cache and logits buffers but no
// byte of them.
inline ProgramBuilder llama_sequences(const ModelShape& shape, std::uint32_t sequences) {
  ModelRecorder r(shape, sequences);
  std::vector<Bytes> h;
  for (std::uint32_t s = 0; s < sequences; ++s) h.push_back(r.input(s));
  for (std::uint32_t l = 0; l < shape.layers; ++l) {
    for (std::uint32_t s = 0; s < sequences; ++s) h[s] = dense_layer(r, h[s], l, false, s);
  }
  for (std::uint32_t s = 0; s < sequences; ++s) r.output(h[s], s);
  return r.take();
}

inline ModelShape gemma4_shape(std::uint32_t layers) {
  ModelShape shape;
  shape.layers = layers;
  shape.hidden = 2816;
  shape.heads = 16;
  shape.kv_heads = 8;
  shape.head_dim = 256;
  shape.ffn = 2112;
  shape.expert_ffn = 704;
  shape.vocab = 262144;
  return shape;
}

// Dense and expert feed-forward side by side, fused norms and routing, split attention: 29
// dispatches per layer; every sixth layer is global with fewer, wider KV heads of equal size.
inline ProgramBuilder gemma4_moe(const ModelShape& shape) {
  ModelRecorder r(shape);
  ProgramBuilder& b = r.builder();
  const Bytes token = b.buffer(4);
  Bytes h = r.unary(token, r.floats(shape.hidden));
  const std::uint32_t used = shape.experts_used;
  for (std::uint32_t l = 0; l < shape.layers; ++l) {
    const bool global = l % 6 == 5;
    const std::uint64_t q_width = std::uint64_t{shape.heads} * shape.head_dim * (global ? 2 : 1);
    const std::uint64_t kv_width =
        std::uint64_t{shape.kv_heads} * shape.head_dim / (global ? 2 : 1);
    const std::uint64_t splits = global ? 16 : 4;
    const Bytes n = r.norm(h);
    const Bytes q = r.unary(n, r.floats(q_width));
    const Bytes k = r.unary(n, r.floats(kv_width));
    const Bytes v = r.unary(n, r.floats(kv_width));
    const Bytes q_rotated = r.unary(q, r.floats(q_width));
    const Bytes k_rotated = r.unary(k, r.floats(kv_width));
    const Bytes v_normed = r.unary(v, r.floats(kv_width));
    b.dispatch({k_rotated}, {r.keys(l)});
    b.dispatch({v_normed}, {r.values(l)});
    const Bytes partial = r.floats(splits * (q_width + 2 * shape.heads));
    b.dispatch({q_rotated, r.keys(l), r.values(l)}, {partial}, false);
    const Bytes a = r.unary(partial, r.floats(q_width));
    const Bytes o = r.unary(a, r.floats(shape.hidden));
    const Bytes residual = r.add(o, h);
    const Bytes n1 = r.norm(residual), n2 = r.norm(residual), n3 = r.norm(residual);
    const Bytes gate = r.unary(n1, r.floats(shape.ffn));
    const Bytes up = r.unary(n1, r.floats(shape.ffn));
    const Bytes router = r.unary(n3, r.floats(shape.experts));
    const Bytes activated = r.binary(gate, up, r.floats(shape.ffn));
    const Bytes ids = r.floats(used), weights = r.floats(used);
    b.dispatch({router}, {ids, weights}, false);
    const Bytes down = r.unary(activated, r.floats(shape.hidden));
    const Bytes gate_up = r.binary(n2, ids, r.floats(std::uint64_t{2} * used * shape.expert_ffn));
    const Bytes expert = r.unary(gate_up, r.floats(std::uint64_t{used} * shape.expert_ffn));
    const Bytes rows = r.binary(expert, ids, r.floats(std::uint64_t{used} * shape.hidden));
    const Bytes dense = r.norm(down);
    const Bytes sum = r.binary(rows, weights, r.floats(shape.hidden));
    const Bytes combined = r.add(sum, dense);
    h = r.add(combined, residual);
  }
  const Bytes normed = r.norm(h);
  b.dispatch({normed}, {r.logits()});
  b.dispatch({r.logits()}, {r.logits()});
  b.dispatch({r.logits()}, {token}, false);
  return r.take();
}

struct ModelProgram {
  std::string name;
  ProgramBuilder program;
};

inline std::vector<ModelProgram> all_model_programs(std::uint32_t layers) {
  ModelShape dense;
  dense.layers = layers;
  ModelShape moe = dense;
  moe.hidden = 2048;
  moe.kv_heads = 4;
  std::vector<ModelProgram> programs;
  programs.push_back({"llama_dense", llama_dense(dense)});
  programs.push_back({"qwen3_dense", qwen3_dense(dense)});
  programs.push_back({"qwen3_moe", qwen3_moe(moe, false)});
  programs.push_back({"moe_shared_expert", qwen3_moe(moe, true)});
  programs.push_back({"parallel_block", parallel_block(dense)});
  programs.push_back({"two_sequences", llama_sequences(dense, 2)});
  programs.push_back({"gemma4_moe", gemma4_moe(gemma4_shape(layers))});
  return programs;
}

}  // namespace onepass::test
