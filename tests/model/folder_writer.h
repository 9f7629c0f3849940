// Writes a reference model as a folder of Hugging Face or MLX: config.json and safetensors.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "support/forward_reference.h"
#include "support/temp_folder.h"

namespace onepass::test {

struct FolderOptions {
  std::string model_type = "llama";
  std::string dtype = "F32";  // of matrices, or of the scales of quantized ones
  std::uint32_t bits = 0;     // 0: not quantized
  std::uint32_t group_size = 64;
  std::string plain_module{};  // "quantization" says false for it
  std::string other_module{};  // has 8 bits in groups of 32
  std::uint32_t shards = 1;
  std::string extra{};  // more members of config.json, each followed by a comma
};

class FolderWriter {
 public:
  // The model's values become what was stored.
  FolderWriter(reference::Model& m, const FolderOptions& o) : o_(o), headers_(o.shards) {
    data_.resize(o.shards);
    const bool gemma = o.model_type.starts_with("gemma");
    const float shift = gemma ? 1.0f : 0.0f;
    matrix("model.embed_tokens", m.embedding);
    for (std::size_t i = 0; i < m.layers.size(); ++i) {
      const std::string p = "model.layers." + std::to_string(i) + ".";
      reference::Layer& l = m.layers[i];
      norm(p + "input_layernorm", l.attn_norm, shift);
      matrix(p + "self_attn.q_proj", l.q);
      matrix(p + "self_attn.k_proj", l.k);
      matrix(p + "self_attn.v_proj", l.v);
      matrix(p + "self_attn.o_proj", l.o);
      norm(p + "self_attn.q_norm", l.q_norm, shift);
      norm(p + "self_attn.k_norm", l.k_norm, shift);
      norm(p + (gemma ? "pre_feedforward_layernorm" : "post_attention_layernorm"), l.ffn_norm,
           shift);
      norm(p + "post_attention_layernorm", l.post_attention_norm, shift);
      norm(p + "post_feedforward_layernorm", l.post_ffn_norm, shift);
      matrix(p + "mlp.gate_proj", l.gate);
      matrix(p + "mlp.up_proj", l.up);
      matrix(p + "mlp.down_proj", l.down);
    }
    norm("model.norm", m.output_norm, shift);
    tied_ = m.output.values == m.embedding.values || o.model_type.starts_with("gemma");
    if (tied_) {
      m.output = m.embedding;
    } else {
      matrix("lm_head", m.output);
    }
    config_ = config(m);
  }

  std::string config_text() const { return config_; }
  void write(const TempFolder& folder) const {
    folder.write_text("config.json", config_);
    std::string map;
    for (std::size_t i = 0; i < headers_.size(); ++i) {
      const std::string name =
          headers_.size() == 1 ? "model.safetensors" : "part-" + std::to_string(i) + ".safetensors";
      std::string header = "{" + headers_[i];
      header.back() = '}';
      std::vector<std::byte> file(8 + header.size());
      const std::uint64_t n = header.size();
      std::memcpy(file.data(), &n, 8);
      std::memcpy(file.data() + 8, header.data(), header.size());
      file.insert(file.end(), data_[i].begin(), data_[i].end());
      folder.write(name, file);
      for (const std::string& tensor : names_) {
        if (headers_[i].find("\"" + tensor + "\"") != std::string::npos) {
          map += "\"" + tensor + "\":\"" + name + "\",";
        }
      }
    }
    if (headers_.size() == 1) return;
    map.back() = '}';
    folder.write_text("model.safetensors.index.json", "{\"weight_map\":{" + map + "}");
  }

 private:
  void tensor(const std::string& name, const std::string& dtype, std::uint64_t rows,
              std::uint64_t cols, std::span<const std::byte> bytes) {
    const std::size_t shard = names_.size() % headers_.size();
    const std::string shape =
        rows == 0 ? std::to_string(cols) : std::to_string(rows) + "," + std::to_string(cols);
    headers_[shard] += "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
                       "],\"data_offsets\":[" + std::to_string(data_[shard].size()) + "," +
                       std::to_string(data_[shard].size() + bytes.size()) + "]},";
    data_[shard].insert(data_[shard].end(), bytes.begin(), bytes.end());
    names_.push_back(name);
  }
  static std::uint32_t ggml_id(const std::string& dtype) {
    return dtype == "F32" ? 0 : dtype == "F16" ? 1 : 30;
  }
  void norm(const std::string& name, std::vector<float> values, float shift) {
    if (values.empty()) return;
    for (float& v : values) v -= shift;
    tensor(name + ".weight", "F32", 0, values.size(), std::as_bytes(std::span(values)));
  }
  void matrix(const std::string& name, reference::Matrix& m) {
    if (o_.bits == 0 || name == o_.plain_module) {
      tensor(name + ".weight", o_.dtype, m.rows, m.cols,
             reference::store(ggml_id(o_.dtype), m.values));
    } else {
      const bool other = name == o_.other_module;
      quantize(name, m, other ? 8 : o_.bits, other ? 32 : o_.group_size);
    }
    if (!m.bias.empty()) {
      tensor(name + ".bias", "F32", 0, m.bias.size(), std::as_bytes(std::span(m.bias)));
    }
  }
  // w = scale * q + bias for each group, values as one stream of bits per row.
  void quantize(const std::string& name, reference::Matrix& m, std::uint32_t bits,
                std::uint32_t group) {
    std::vector<float> scales, biases;
    std::vector<std::byte> packed(std::size_t{m.rows} * m.cols * bits / 8);
    const float top = static_cast<float>((1u << bits) - 1);
    for (std::size_t g = 0; g < m.values.size() / group; ++g) {
      const auto begin = m.values.begin() + static_cast<std::ptrdiff_t>(g * group);
      const auto [low, high] = std::minmax_element(begin, begin + group);
      // Some groups count down from the largest value: scales may be negative.
      const bool down = g % 3 == 1;
      scales.push_back((*high - *low) / top * (down ? -1.0f : 1.0f));
      biases.push_back(down ? *high : *low);
    }
    const std::vector<std::byte> scale_bytes = reference::store(ggml_id(o_.dtype), scales);
    const std::vector<std::byte> bias_bytes = reference::store(ggml_id(o_.dtype), biases);
    for (std::size_t i = 0; i < m.values.size(); ++i) {
      const float scale = scales[i / group], bias = biases[i / group];
      const float q = std::min(std::max(std::round((m.values[i] - bias) / scale), 0.0f), top);
      m.values[i] = static_cast<float>(static_cast<double>(scale) * static_cast<double>(q) +
                                       static_cast<double>(bias));
      const auto number = static_cast<std::uint32_t>(q);
      for (std::uint32_t b = 0; b < bits; ++b) {
        const std::size_t at = i * bits + b;  // rows are whole bytes
        packed[at / 8] |= static_cast<std::byte>((number >> b & 1) << (at % 8));
      }
    }
    tensor(name + ".weight", "U32", m.rows, std::uint64_t{m.cols} * bits / 32, packed);
    tensor(name + ".scales", o_.dtype, m.rows, m.cols / group, scale_bytes);
    tensor(name + ".biases", o_.dtype, m.rows, m.cols / group, bias_bytes);
  }

  std::string config(const reference::Model& m) const {
    const auto number = [](const char* key, double v) {
      char text[96];
      std::snprintf(text, sizeof text, "\"%s\": %.9g,\n", key, v);
      return std::string(text);
    };
    std::string s = "{\"model_type\": \"" + o_.model_type + "\",\n" + o_.extra;
    s += number("hidden_size", m.dim) + number("num_attention_heads", m.heads);
    s += number("num_key_value_heads", m.kv_heads) + number("head_dim", m.head_dim);
    s += number("intermediate_size", m.ffn) + number("vocab_size", m.vocab);
    s += number("num_hidden_layers", static_cast<double>(m.layers.size()));
    s += number("max_position_embeddings", 64) + number("rms_norm_eps", m.eps);
    s += number("rope_theta", m.rope_base);
    if (m.window > 0) s += number("sliding_window", m.window);
    if (m.attention_softcap > 0) s += number("attn_logit_softcapping", m.attention_softcap);
    if (m.final_softcap > 0) s += number("final_logit_softcapping", m.final_softcap);
    if (o_.bits > 0) {
      s += "\"quantization\": {" + number("bits", o_.bits) + number("group_size", o_.group_size);
      if (!o_.plain_module.empty()) s += "\"" + o_.plain_module + "\": false,";
      if (!o_.other_module.empty()) {
        s += "\"" + o_.other_module + "\": {\"bits\": 8, \"group_size\": 32},";
      }
      s += "\"mode\": \"affine\"},\n";
    }
    return s + "\"tie_word_embeddings\": " + (tied_ ? "true" : "false") + "}";
  }

  FolderOptions o_;
  std::vector<std::string> headers_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<std::string> names_;
  std::string config_;
  bool tied_ = false;
};

}  // namespace onepass::test
