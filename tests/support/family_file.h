// Tiny GGUF files of every architecture, made from its tables: random weights that depend on their
// names alone, with the keys and optional tensors that are asked for.
//
//   const FamilyFile f(*llm::find_architecture("granite"), {.keys = true});
//   for (const std::string& name : f.optional()) ...            // "attn_q.bias"
//   std::vector<std::byte> bytes = f.bytes({"attn_q.bias"});
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "model/architecture.h"
#include "model/keys.h"
#include "model/recipe_file.h"
#include "support/gguf_writer.h"

namespace onepass::test {

struct FamilyOptions {
  bool keys = false;     // every key, with a value that is not the one without it
  bool experts = false;  // also where an architecture need not have them
};

class FamilyFile {
 public:
  FamilyFile(const llm::Architecture& a, const FamilyOptions& options) : a_(a), options_(options) {
    config_.n_layers = 3, config_.dim = 64, config_.n_heads = 4, config_.head_dim = 16;
    set_keys();
    const std::vector<std::byte> bytes = head_.finish();
    const auto file = io::Gguf::parse(bytes);
    config_ = llm::read_config(file.value()).value();
  }

  const llm::ModelConfig& config() const { return config_; }
  // What a file may have: "attn_q.bias", "attn_qkv.weight" (instead of the three). Tensors that
  // ordinary files have are always there.
  std::vector<std::string> optional() const {
    std::vector<std::string> names;
    const auto add = [&](const std::string& name) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    const Status listed =
        llm::for_each_tensor(config_, [&](const llm::TensorRow& row, std::uint32_t) -> Status {
          if (row.need == llm::Need::optional) add(name_of(row));
          if (row.bias == llm::Need::optional) add(std::string(row.gguf) + ".bias");
          return {};
        });
    static_cast<void>(listed);
    return names;
  }
  std::vector<std::byte> bytes(const std::set<std::string>& optional) const {
    GgufWriter w = head_;
    for (const char* set : {"rope_factors_short.weight", "rope_factors_long.weight"}) {
      if (!optional.contains(set)) continue;
      const std::string prefix = std::string(a_.name) + ".rope.scaling.";
      w.erase(prefix + "original_context_length");
      w.erase(prefix + "type");
      w.set(prefix + "type", std::string("longrope"));
      w.set(prefix + "original_context_length", optional.contains("long context") ? 32u : 512u);
    }
    const Status listed = llm::for_each_tensor(
        config_, [&](const llm::TensorRow& row, std::uint32_t layer) -> Status {
          if (!is_there(row, layer, optional)) return {};
          std::vector<std::uint64_t> dims{llm::extent(row.cols, config_, layer)};
          const std::uint64_t rows = llm::row_count(row, config_, layer);
          const std::uint64_t width = rows != 0 ? rows : dims[0];
          if (rows != 0) dims.push_back(rows);
          const bool experts = row.form == llm::TensorForm::experts;
          if (experts) dims.push_back(config_.n_experts);
          const std::string part = llm::gguf_part(row, layer), bias = part + ".bias";
          const std::string name = part + std::string(row.suffix);
          w.tensor(name, dims, recipe_values(name, dims));
          const bool biased = row.bias == llm::Need::required || row.bias == llm::Need::usual ||
                              optional.contains(std::string(row.gguf) + ".bias");
          if (row.bias == llm::Need::never || !biased) return {};
          std::vector<std::uint64_t> bias_dims{width};
          if (experts) bias_dims.push_back(config_.n_experts);
          w.tensor(bias, bias_dims, recipe_values(bias, bias_dims));
          return {};
        });
    static_cast<void>(listed);
    return w.finish();
  }

 private:
  static std::string name_of(const llm::TensorRow& row) {
    return std::string(row.gguf) + std::string(row.suffix);
  }
  bool is_there(const llm::TensorRow& row, std::uint32_t layer,
                const std::set<std::string>& optional) const {
    if (row.need == llm::Need::optional && !optional.contains(name_of(row))) return false;
    if (row.model == &llm::Weights::output && is({"gemma2"})) return false;
    // Not beside one that was asked for and gives the same.
    return std::none_of(a_.tensors.begin(), a_.tensors.end(), [&](const llm::TensorRow& other) {
      if (&other == &row || other.need != llm::Need::optional || row.model != nullptr) return false;
      if (!optional.contains(name_of(other)) || !llm::applies(other, config_, layer)) return false;
      return std::any_of(std::begin(other.into), std::end(other.into), [&](const auto& t) {
        return t.weights != nullptr && t.weights == row.into[0].weights;
      });
    });
  }

  // Other readers of such files know only some shapes of these.
  bool is(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), a_.name) != names.end();
  }
  double count_of(const llm::Key& key) const {
    using C = llm::ModelConfig;
    const std::pair<std::uint32_t& (*)(C&), double> values[] = {
        {llm::at<&C::n_layers>, std::max(3u, a_.window_period)},
        {llm::at<&C::dim>, 64},
        {llm::at<&C::n_heads>, 4},
        {llm::at<&C::n_kv_heads>, is({"dots1", "gptneox", "olmoe"}) ? 4 : 2},
        {llm::at<&C::head_dim>, 16},
        {llm::at<&C::value_dim>, 16},
        {llm::at<&C::ffn_dim>, 96},
        {llm::at<&C::vocab>, 101},
        {llm::at<&C::context>, 512},
        {llm::at<&C::n_experts>, 8},
        {llm::at<&C::n_experts_used>, 3},
        {llm::at<&C::expert_ffn_dim>, is({"hunyuan-moe", "minimax-m2"}) ? 96 : 48},
        {llm::at<&C::n_shared_experts>, 2},
        {llm::at<&C::shared_ffn_dim>, is({"ernie4_5-moe"}) ? 96 : 40},
        {llm::at<&C::dense_layers>, 1},
        {llm::at<&C::expert_step>, 1},
        {llm::at<&C::rope, &llm::RopeConfig::dims>, a_.partial_rotary && !is({"gemma4"}) ? 8 : 16},
        {llm::at<&C::window>, a_.window_pattern ? 8 : 0},
    };
    for (const auto& [count, value] : values) {
      if (key.count == count) return value;
    }
    if (key.fallback == nullptr) return 1.0;
    return key.gguf.starts_with("expert_") ? key.fallback(config_) : std::nan("");  // as without it
  }
  double number_of(const llm::Key& key) const {
    using C = llm::ModelConfig;
    if (key.number == llm::at<&C::norm_eps>) return key.fallback != nullptr ? 0.0 : 1e-3;
    if (key.number == llm::at<&C::rope, &llm::RopeConfig::base>) return 1000.0;
    const double usual = key.fallback != nullptr ? key.fallback(config_) : 1.0;
    if (key.number == llm::at<&C::attention_scale>) return 0.3;
    return usual == 0.0 ? 7.0 : 0.8 * usual;
  }

  void set_keys() {
    const std::string prefix = std::string(a_.name) + ".";
    head_.set("general.architecture", std::string(a_.name));
    head_.set("tokenizer.ggml.model", std::string("no_vocab"));
    for (const llm::Key& key : a_.keys) {
      if (key.gguf.empty()) continue;
      const std::string name = prefix + std::string(key.gguf);
      const bool mixture = key.gguf.starts_with("expert_");
      const bool must = key.fallback == nullptr || key.per_layer || mixture ||
                        key.count == llm::at<&llm::ModelConfig::window> ||
                        key.gguf == "rope.dimension_count" || key.gguf == "vocab_size";
      const bool optional_mixture = key_min_experts() == 0.0;
      if (mixture && optional_mixture && !options_.experts) continue;
      if (!must && !options_.keys) continue;
      if (key.gguf.ends_with("softcapping") && !has_caps(key)) continue;
      if (key.gguf == "attention.scale" && is({"gemma2", "gemma3"})) continue;
      if (key.count != nullptr && !std::isnan(count_of(key))) {
        head_.set(name, static_cast<std::uint32_t>(count_of(key)));
      }
      if (key.number != nullptr) head_.set(name, static_cast<float>(number_of(key)));
      if (key.flag != nullptr) head_.set(name, options_.keys);
    }
    if (is({"gemma4"})) {  // all but the last
      std::vector<bool> local(static_cast<std::size_t>(std::max(3u, a_.window_period)), true);
      local.back() = false;
      head_.set_array(prefix + "attention.sliding_window_pattern", local);
      for (const char* key : {"embedding_length_per_layer_input", "attention.shared_kv_layers"}) {
        head_.erase(prefix + key).set(prefix + key, 0u);
      }
      for (const char* key : {"attention.key_length_swa", "attention.value_length_swa"}) {
        head_.erase(prefix + key).set(prefix + key, 16u);
      }
    }
    // Files of these say how positions of images turn heads; those of a text are all the same.
    if (a_.rope_sections && a_.name.starts_with("qwen")) {
      head_.set_array(prefix + "rope.dimension_sections", std::vector<std::int32_t>{3, 3, 2, 0});
    }
  }
  bool has_caps(const llm::Key& key) const {
    return key.fallback(config_) != 0.0 || (is({"gemma3"}) && key.gguf.starts_with("final"));
  }
  double key_min_experts() const {
    return llm::key_of(a_, llm::at<&llm::ModelConfig::n_experts>).min;
  }

  const llm::Architecture& a_;
  FamilyOptions options_;
  GgufWriter head_;
  llm::ModelConfig config_;
};

}  // namespace onepass::test
