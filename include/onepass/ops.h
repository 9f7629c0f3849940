// The ops. Each checks shapes and dtypes, then asks the session for one dispatch; an error sticks
// to the session with the place of the call.
//
//   namespace ops = onepass::ops;
//   ops::rms_norm(s, {.x = h, .weight = w, .out = n, .eps = 1e-5f});
//   ops::matmul(s, {.x = n, .weight = wq, .out = q});
#pragma once

#include <cstdint>

#include "onepass/session.h"

namespace onepass::ops {

// Place of a call; filled by the compiler.
struct Here {
  const char* file;
  int line;
  static constexpr Here now(const char* f = __builtin_FILE(), int l = __builtin_LINE()) {
    return {f, l};
  }
};

// y = x * rsqrt(mean(x^2) + eps) [* weight]. x, out [rows, dim]; weight [dim] or none.
struct RmsNorm {
  Tensor x;
  Tensor weight{};
  Tensor out;
  float eps = 1e-5f;
};
void rms_norm(GraphSession& s, const RmsNorm& a, Here here = Here::now());

// Elementwise, equal shapes. out may be an input.
struct Binary {
  Tensor a;
  Tensor b;
  Tensor out;
};
void add(GraphSession& s, const Binary& a, Here here = Here::now());
void mul(GraphSession& s, const Binary& a, Here here = Here::now());
void silu_mul(GraphSession& s, const Binary& a, Here here = Here::now());  // silu(a) * b

struct Unary {
  Tensor x;
  Tensor out;
};
void gelu(GraphSession& s, const Unary& a, Here here = Here::now());  // tanh form

// y = cap * tanh(x / cap).
struct Softcap {
  Tensor x;
  Tensor out;
  float cap;
};
void softcap(GraphSession& s, const Softcap& a, Here here = Here::now());

// Over the last dimension.
void softmax(GraphSession& s, const Unary& a, Here here = Here::now());

enum class RopeMode : std::uint8_t {
  interleaved,  // pairs (2i, 2i + 1)
  neox,         // pairs (i, i + rope_dim / 2)
  neox_full,    // pairs (i, i + head_dim / 2), exponent over head_dim, for rope_dim < head_dim
};
// x, out [rows, heads, head_dim]; out may be x.
struct Rope {
  Tensor x;
  Tensor out;
  View positions;  // a StepState, or u32 [rows] with positions_are_u32
  bool positions_are_u32 = false;
  float theta = 10000.0f;
  RopeMode mode = RopeMode::interleaved;
  std::uint32_t rope_dim = 0;  // 0: head_dim
  Tensor freq_factors{};       // f32 [rope_dim / 2] or none
};
void rope(GraphSession& s, const Rope& a, Here here = Here::now());

// out[m, n] = sum_k x[m, k] * weight[n, k]. x f32 [m, k], weight any format [n, k], out f32.
struct Matmul {
  Tensor x;
  Tensor weight;
  Tensor out;
};
void matmul(GraphSession& s, const Matmul& a, Here here = Here::now());

// MLX affine weights: w = q * scale + bias per group along k. weight u32 packed rows.
struct MatmulAffine {
  Tensor x;                       // f32 [m, k]
  Tensor weight;                  // u32 [n, k * bits / 32]
  Tensor scales;                  // f32, f16 or bf16 [n, k / group_size]
  Tensor biases;                  // as scales
  Tensor out;                     // f32 [m, n]
  std::uint32_t bits = 4;         // 2, 3, 4, 6 or 8
  std::uint32_t group_size = 64;  // 32, 64 or 128
};
void matmul_affine(GraphSession& s, const MatmulAffine& a, Here here = Here::now());

// out[t, j, n] = sum_k x[t, k] * weight[ids[t, j], n, k].
struct MatmulId {
  Tensor x;       // f32 [tokens, k]
  Tensor weight;  // [experts, n, k]
  Tensor ids;     // u32 [tokens, used]; an id out of range gives zeros
  Tensor out;     // f32 [tokens, used, n]
};
void matmul_id(GraphSession& s, const MatmulId& a, Here here = Here::now());

// Causal attention of the pass's rows over a cache. q, out [rows, heads, head_dim];
// k, v [slots, kv_heads, capacity, head_dim]. With a StepState, row r sees the keys of its slot up
// to its position; without, the rows are the last of kv_len keys.
struct Attention {
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor out;
  float scale = 0.0f;        // 0: 1 / sqrt(head_dim)
  View step{};               // StepState or none
  std::uint32_t kv_len = 0;  // without step
  bool causal = true;
  std::uint32_t window = 0;  // keys including the row itself; 0: all
  float softcap = 0.0f;      // 0: none
};
void attention(GraphSession& s, const Attention& a, Here here = Here::now());

// cache[slot, h, position, :] = x[row, h, :] for every row of the step. The recorded range is the
// whole cache: every legal position.
struct KvStore {
  Tensor x;      // [rows, kv_heads, head_dim]
  Tensor cache;  // [slots, kv_heads, capacity, head_dim]
  View step;
};
void kv_store(GraphSession& s, const KvStore& a, Here here = Here::now());

// out[row, :] = table[token of row, :], tokens from a StepState or u32 [rows].
struct Embed {
  Tensor table;  // any format [vocab, dim]
  Tensor out;    // f32 [rows, dim]
  View tokens;
  bool tokens_are_u32 = false;
};
void embed(GraphSession& s, const Embed& a, Here here = Here::now());

void copy(GraphSession& s, const Unary& a, Here here = Here::now());

// out u32 [rows]: index of the largest value of each row, the lowest on ties.
void argmax(GraphSession& s, const Unary& a, Here here = Here::now());

// Device feedback: row r takes tokens[r], its position and its slot's length grow by one.
struct StepAdvance {
  Tensor tokens;  // u32 [rows]
  View step;
};
void step_advance(GraphSession& s, const StepAdvance& a, Here here = Here::now());

}  // namespace onepass::ops
