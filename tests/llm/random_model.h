// A small Llama with random weights: as a GGUF file and as the reference's model.
#pragma once

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "io/gguf_writer.h"
#include "llm/reference.h"

namespace onepass::test {

struct RandomModelOptions {
  std::uint32_t layers = 3, dim = 64, heads = 4, kv_heads = 2, head_dim = 16, ffn = 96, vocab = 97;
  std::uint32_t context = 64;
  std::uint32_t matrix_type = 0;  // ggml ids
  std::uint32_t norm_type = 0;
  float rope_base = 10000.0f;
  float rope_scale = 0.0f;    // 0: no key
  bool rope_factors = false;  // a rope_freqs tensor
  bool tied = false;          // no output tensor
  bool fused_qkv = false;
};

class RandomModel {
 public:
  explicit RandomModel(const RandomModelOptions& o, std::uint64_t seed = 1) : state_(seed) {
    reference::Model& m = model_;
    m.dim = o.dim, m.heads = o.heads, m.kv_heads = o.kv_heads, m.head_dim = o.head_dim;
    m.ffn = o.ffn, m.vocab = o.vocab, m.rope_base = static_cast<double>(o.rope_base);
    m.eps = static_cast<double>(1e-5f);
    writer.set("general.architecture", "llama").set("general.name", "random");
    writer.set("llama.block_count", o.layers).set("llama.embedding_length", o.dim);
    writer.set("llama.feed_forward_length", o.ffn).set("llama.context_length", o.context);
    writer.set("llama.attention.head_count", o.heads);
    writer.set("llama.attention.head_count_kv", o.kv_heads);
    writer.set("llama.attention.key_length", o.head_dim);
    writer.set("llama.attention.value_length", o.head_dim);
    writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.set("llama.rope.freq_base", o.rope_base).set("llama.vocab_size", o.vocab);
    writer.set("llama.rope.dimension_count", o.head_dim);
    add_rope(o);
    m.embedding = matrix("token_embd", o.vocab, o.dim, o.matrix_type);
    const std::uint32_t q = o.heads * o.head_dim, kv = o.kv_heads * o.head_dim;
    for (std::uint32_t i = 0; i < o.layers; ++i) {
      const std::string p = "blk." + std::to_string(i) + ".";
      reference::Layer l;
      l.attn_norm = norm(p + "attn_norm", o);
      if (o.fused_qkv) {
        const reference::Matrix all = matrix(p + "attn_qkv", q + 2 * kv, o.dim, o.matrix_type);
        l.q = part(all, 0, q);
        l.k = part(all, q, kv);
        l.v = part(all, q + kv, kv);
      } else {
        l.q = matrix(p + "attn_q", q, o.dim, o.matrix_type);
        l.k = matrix(p + "attn_k", kv, o.dim, o.matrix_type);
        l.v = matrix(p + "attn_v", kv, o.dim, o.matrix_type);
      }
      l.o = matrix(p + "attn_output", o.dim, q, o.matrix_type);
      l.ffn_norm = norm(p + "ffn_norm", o);
      l.gate = matrix(p + "ffn_gate", o.ffn, o.dim, o.matrix_type);
      l.up = matrix(p + "ffn_up", o.ffn, o.dim, o.matrix_type);
      l.down = matrix(p + "ffn_down", o.dim, o.ffn, o.matrix_type);
      m.layers.push_back(std::move(l));
    }
    m.output_norm = norm("output_norm", o);
    m.output = o.tied ? m.embedding : matrix("output", o.vocab, o.dim, o.matrix_type);
  }

  const reference::Model& model() const { return model_; }
  GgufWriter writer;

 private:
  // Uniform in [-1, 1), SplitMix64.
  float next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<float>(z >> 40) * (1.0f / 8388608.0f) - 1.0f;
  }
  reference::Matrix matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols,
                           std::uint32_t type) {
    reference::Matrix m{rows, cols, std::vector<float>(std::size_t{rows} * cols)};
    // Variance 1 / cols: activations keep their size.
    for (float& v : m.values) v = 1.7320508f / std::sqrt(static_cast<float>(cols)) * next();
    const std::vector<std::byte> bytes = reference::store(type, m.values);
    writer.tensor(name + ".weight", type, {cols, rows}, bytes);
    return m;
  }
  std::vector<float> norm(const std::string& name, const RandomModelOptions& o) {
    std::vector<float> values(o.dim);
    for (float& v : values) v = 1.0f + 0.2f * next();
    const std::vector<std::byte> bytes = reference::store(o.norm_type, values);
    writer.tensor(name + ".weight", o.norm_type, {o.dim}, bytes);
    return values;
  }
  static reference::Matrix part(const reference::Matrix& m, std::uint32_t begin, std::uint32_t n) {
    return {n, m.cols, std::vector<float>(m.row(begin), m.row(begin) + std::size_t{n} * m.cols)};
  }
  void add_rope(const RandomModelOptions& o) {
    const double scale = o.rope_scale != 0.0f ? static_cast<double>(o.rope_scale) : 1.0;
    if (o.rope_scale != 0.0f) {
      writer.set("llama.rope.scaling.type", "linear");
      writer.set("llama.rope.scaling.factor", o.rope_scale);
    }
    if (!o.rope_factors && o.rope_scale == 0.0f) return;
    std::vector<float> factors(o.head_dim / 2, 1.0f);
    if (o.rope_factors) {
      for (float& f : factors) f = 2.0f + next();
      writer.tensor("rope_freqs.weight", {o.head_dim / 2}, factors);
    }
    for (const float f : factors) model_.rope_factors.push_back(static_cast<double>(f) * scale);
  }

  std::uint64_t state_;
  reference::Model model_;
};

// A file that goes with the object.
class TempFile {
 public:
  explicit TempFile(std::span<const std::byte> bytes) {
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("onepass_" + std::to_string(getpid()) + "_" + std::to_string(++count) + ".gguf"))
                .string();
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace onepass::test
