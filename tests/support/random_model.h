// A small model with random weights: as a GGUF file and as the reference's model.
#pragma once

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "forward_reference.h"
#include "gguf_writer.h"

namespace onepass::test {

struct RandomModelOptions {
  std::uint32_t layers = 3, dim = 64, heads = 4, kv_heads = 2, head_dim = 16, ffn = 96, vocab = 97;
  std::uint32_t context = 64;
  std::uint32_t matrix_type = 0;  // ggml ids
  std::uint32_t norm_type = 0;
  float rope_base = 10000.0f;
  float rope_scale = 0.0f;    // factor of rope.scaling; 0: no key
  bool rope_factors = false;  // a rope_freqs tensor
  bool tied = false;          // no output tensor
  bool fused_qkv = false;
  const char* architecture = "llama";
  bool qkv_bias = false, all_biases = false;
  std::uint32_t experts = 0, experts_used = 2;
  std::uint32_t rope_dims = 0;  // 0: all of a head
  bool yarn = false;
  std::uint32_t original_context = 0;    // of yarn, and where long factors begin
  bool long_short = false;               // rope_factors_long and rope_factors_short
  std::uint32_t window = 0, period = 0;  // keys of gemma; period 0: as the architecture says
  bool tensor_scales = false;            // of every matrix but the embedding and routers
};

// Weights and reference are made side by side; only the file's layout differs.
class RandomModel {
 public:
  explicit RandomModel(const RandomModelOptions& options, std::uint64_t seed = 1)
      : o_(options), arch_(options.architecture), state_(seed) {
    set_numbers();
    add_rope();
    reference::Model& m = model_;
    m.embedding = matrix("token_embd", o_.vocab, o_.dim);
    for (std::uint32_t i = 0; i < o_.layers; ++i) m.layers.push_back(layer(i));
    m.output_norm = norm("output_norm", o_.dim);
    m.output = o_.tied ? m.embedding : matrix("output", o_.vocab, o_.dim, o_.all_biases);
  }

  const reference::Model& model() const { return model_; }
  GgufWriter writer;

 private:
  bool is(std::string_view name) const { return arch_ == name; }
  bool gemma() const { return is("gemma2") || is("gemma3"); }
  bool head_norms() const { return is("qwen3") || is("qwen3moe") || is("gemma3"); }
  template <class T>
  void set(const std::string& key, const T& value) {
    writer.set(arch_ + "." + key, value);
  }

  void set_numbers() {
    reference::Model& m = model_;
    m.dim = o_.dim, m.heads = o_.heads, m.kv_heads = o_.kv_heads, m.head_dim = o_.head_dim;
    m.ffn = o_.ffn, m.vocab = o_.vocab, m.rope_base = static_cast<double>(o_.rope_base);
    m.eps = static_cast<double>(1e-5f);
    m.neox = !is("llama") && !is("internlm2");
    writer.set("general.architecture", o_.architecture).set("general.name", "random");
    set("block_count", o_.layers), set("embedding_length", o_.dim);
    set("feed_forward_length", o_.ffn), set("context_length", o_.context);
    set("attention.head_count", o_.heads), set("attention.head_count_kv", o_.kv_heads);
    set("attention.key_length", o_.head_dim), set("attention.value_length", o_.head_dim);
    set("attention.layer_norm_rms_epsilon", 1e-5f), set("vocab_size", o_.vocab);
    set("rope.freq_base", o_.rope_base);
    set("rope.dimension_count", o_.rope_dims != 0 ? o_.rope_dims : o_.head_dim);
    if (o_.experts > 0) {
      m.experts_used = o_.experts_used;
      set("expert_count", o_.experts), set("expert_used_count", o_.experts_used);
      if (is("qwen3moe")) set("expert_feed_forward_length", o_.ffn / 2);
    }
    if (gemma()) {
      m.gelu = true;
      m.embedding_scale = std::sqrt(static_cast<double>(o_.dim));
      m.window = o_.window;
      if (o_.window > 0) set("attention.sliding_window", o_.window);
      if (o_.period > 0) set("attention.sliding_window_pattern", o_.period);
      m.rope_base_local = is("gemma2") ? m.rope_base : 10000.0;
    }
    if (is("gemma2")) {
      m.attention_softcap = 2.0, m.final_softcap = 1.5;
      set("attn_logit_softcapping", 2.0f), set("final_logit_softcapping", 1.5f);
    }
  }

  reference::Layer layer(std::uint32_t i) {
    const std::string p = "blk." + std::to_string(i) + ".";
    const std::uint32_t q = o_.heads * o_.head_dim, kv = o_.kv_heads * o_.head_dim;
    const bool qkv_bias = o_.qkv_bias || o_.all_biases;
    reference::Layer l;
    l.attn_norm = norm(p + "attn_norm", o_.dim);
    if (o_.fused_qkv || is("phi3")) {
      const reference::Matrix all = matrix(p + "attn_qkv", q + 2 * kv, o_.dim, qkv_bias);
      l.q = part(all, 0, q);
      l.k = part(all, q, kv);
      l.v = part(all, q + kv, kv);
    } else {
      l.q = matrix(p + "attn_q", q, o_.dim, qkv_bias);
      l.k = matrix(p + "attn_k", kv, o_.dim, qkv_bias);
      l.v = matrix(p + "attn_v", kv, o_.dim, qkv_bias);
    }
    l.o = matrix(p + "attn_output", o_.dim, q, o_.all_biases);
    if (head_norms()) {
      l.q_norm = norm(p + "attn_q_norm", o_.head_dim);
      l.k_norm = norm(p + "attn_k_norm", o_.head_dim);
    }
    l.ffn_norm = norm(p + (is("seed_oss") ? "post_attention_norm" : "ffn_norm"), o_.dim);
    if (gemma()) {
      l.post_attention_norm = norm(p + "post_attention_norm", o_.dim);
      l.post_ffn_norm = norm(p + "post_ffw_norm", o_.dim);
      const std::uint32_t period = o_.period > 0 ? o_.period : is("gemma2") ? 2 : 6;
      l.local = o_.window > 0 && i % period + 1 < period;
    }
    if (o_.experts > 0) {
      const std::uint32_t ffn = is("qwen3moe") ? o_.ffn / 2 : o_.ffn;
      l.router = matrix(p + "ffn_gate_inp", o_.experts, o_.dim, false, 0);
      l.gate_experts = matrices(p + "ffn_gate_exps", ffn, o_.dim);
      l.up_experts = matrices(p + "ffn_up_exps", ffn, o_.dim);
      l.down_experts = matrices(p + "ffn_down_exps", o_.dim, ffn);
      return l;
    }
    if (is("phi3")) {
      const reference::Matrix both = matrix(p + "ffn_up", 2 * o_.ffn, o_.dim);
      l.gate = part(both, 0, o_.ffn);
      l.up = part(both, o_.ffn, o_.ffn);
    } else {
      l.gate = matrix(p + "ffn_gate", o_.ffn, o_.dim, o_.all_biases);
      l.up = matrix(p + "ffn_up", o_.ffn, o_.dim, o_.all_biases);
    }
    l.down = matrix(p + "ffn_down", o_.dim, o_.ffn, o_.all_biases);
    return l;
  }

  // Uniform in [-1, 1), SplitMix64.
  float next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<float>(z >> 40) * (1.0f / 8388608.0f) - 1.0f;
  }
  std::vector<float> random_rows(std::uint32_t rows, std::uint32_t cols) {
    std::vector<float> values(std::size_t{rows} * cols);
    // Variance 1 / cols: activations keep their size.
    for (float& v : values) v = 1.7320508f / std::sqrt(static_cast<float>(cols)) * next();
    return values;
  }
  // As published files do: formats whose blocks do not fit fall back to smaller ones.
  std::uint32_t type_for(std::uint32_t cols) const {
    const io::GgmlType* t = io::ggml_type(o_.matrix_type);
    if (cols % t->block_elements == 0) return o_.matrix_type;
    return cols % 32 == 0 ? 8 : 1;
  }
  reference::Matrix matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols,
                           bool bias = false) {
    return matrix(name, rows, cols, bias, type_for(cols));
  }
  reference::Matrix matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols,
                           bool bias, std::uint32_t type) {
    reference::Matrix m{rows, cols, random_rows(rows, cols), {}};
    const bool scaled = o_.tensor_scales && type == o_.matrix_type && name != "token_embd";
    const float scale = scaled ? 0.01f * (2.0f + next()) : 1.0f;
    const std::vector<std::byte> bytes = store_scaled(type, scale, m.values);
    writer.tensor(name + ".weight", type, {cols, rows}, bytes);
    if (scaled) {
      writer.tensor(name + ".scale", {1}, {scale});
      writer.tensor(name + ".input_scale", {1}, {7.0f});
    }
    if (bias) {
      for (std::uint32_t i = 0; i < rows; ++i) m.bias.push_back(0.3f * next());
      writer.tensor(name + ".bias", {rows}, m.bias);
    }
    return m;
  }
  // One matrix per expert, one tensor.
  std::vector<reference::Matrix> matrices(const std::string& name, std::uint32_t rows,
                                          std::uint32_t cols) {
    std::vector<reference::Matrix> list;
    std::vector<std::byte> all;
    std::vector<float> scales;
    for (std::uint32_t e = 0; e < o_.experts; ++e) {
      reference::Matrix m{rows, cols, random_rows(rows, cols), {}};
      scales.push_back(o_.tensor_scales ? 0.01f * (2.0f + next()) : 1.0f);
      const std::vector<std::byte> bytes = store_scaled(type_for(cols), scales.back(), m.values);
      all.insert(all.end(), bytes.begin(), bytes.end());
      list.push_back(std::move(m));
    }
    writer.tensor(name + ".weight", type_for(cols), {cols, rows, o_.experts}, all);
    if (o_.tensor_scales) writer.tensor(name + ".scale", {o_.experts}, scales);
    return list;
  }
  // The bytes of values / scale; values become what they stand for.
  static std::vector<std::byte> store_scaled(std::uint32_t type, float scale,
                                             std::vector<float>& values) {
    for (float& v : values) v /= scale;
    std::vector<std::byte> bytes = reference::store(type, values);
    for (float& v : values) v *= scale;
    return bytes;
  }
  std::vector<float> norm(const std::string& name, std::uint32_t n) {
    std::vector<float> values(n);
    for (float& v : values) v = 1.0f + 0.2f * next();
    const std::vector<std::byte> bytes = reference::store(o_.norm_type, values);
    writer.tensor(name + ".weight", o_.norm_type, {n}, bytes);
    return values;
  }
  static reference::Matrix part(const reference::Matrix& m, std::uint32_t begin, std::uint32_t n) {
    reference::Matrix p{
        n, m.cols, std::vector<float>(m.row(begin), m.row(begin) + std::size_t{n} * m.cols), {}};
    if (!m.bias.empty()) p.bias.assign(m.bias.begin() + begin, m.bias.begin() + begin + n);
    return p;
  }

  void add_rope() {
    reference::Model& m = model_;
    const std::uint32_t dims = o_.rope_dims != 0 ? o_.rope_dims : o_.head_dim;
    m.rope_dims = dims;
    const auto factors = [&](const char* name) {
      std::vector<float> list(dims / 2);
      for (float& f : list) f = 2.0f + next();
      writer.tensor(name, {dims / 2}, list);
      return std::vector<double>(list.begin(), list.end());
    };
    if (o_.rope_scale != 0.0f) {
      set("rope.scaling.type", std::string(o_.yarn ? "yarn" : "linear"));
      set("rope.scaling.factor", o_.rope_scale);
      m.rope_scale = 1.0 / static_cast<double>(o_.rope_scale);
      if (o_.yarn) m.yarn_context = o_.original_context;
    }
    if (o_.original_context != 0) set("rope.scaling.original_context_length", o_.original_context);
    if (o_.rope_factors) m.rope_factors = factors("rope_freqs.weight");
    if (o_.long_short) {
      set("rope.scaling.attn_factor", 1.25f);
      m.rope_attn_factor = 1.25;
      const std::vector<double> longer = factors("rope_factors_long.weight");
      const std::vector<double> shorter = factors("rope_factors_short.weight");
      m.rope_factors = o_.context > o_.original_context ? longer : shorter;
    }
  }

  RandomModelOptions o_;
  std::string arch_;
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
