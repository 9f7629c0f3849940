#include "model/architecture.h"

#include <algorithm>
#include <string>
#include <vector>

namespace onepass::llm {

#define FAMILY(file, architecture) extern const Architecture architecture##_row;
#include "model/families/families.def"

namespace {

const Architecture* const table[] = {
#define FAMILY(file, architecture) &architecture##_row,
#include "model/families/families.def"
};

bool has_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// Characters that the names have in common in front, then few edits, decide.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}
std::string_view nearest(std::string_view name, const std::vector<std::string_view>& known) {
  name = name.substr(0, 64);
  const auto distance = [&](std::string_view other) {
    const auto common =
        std::mismatch(name.begin(), name.end(), other.begin(), other.end()).first - name.begin();
    return std::pair(-std::min<std::ptrdiff_t>(common, 5), edits(name, other));
  };
  return *std::min_element(known.begin(), known.end(), [&](std::string_view a, std::string_view b) {
    return distance(a) < distance(b);
  });
}

bool matches(std::string_view pattern, std::string_view name) noexcept {
  const bool front = pattern.starts_with('*'), back = pattern.ends_with('*');
  if (front) pattern.remove_prefix(1);
  if (back && !pattern.empty()) pattern.remove_suffix(1);
  if (front && back) return name.find(pattern) != name.npos;
  return front ? name.ends_with(pattern) : back ? name.starts_with(pattern) : name == pattern;
}

constexpr const char* no_feature = "says that the model does not have it";
constexpr Harmless gguf_keys[] = {
    {"rope.scaling.finetuned", "tells how the model was trained"},
    {"rope.scaling.yarn_log_multiplier", no_feature, 0.0},
    {"rope.scaling.yarn_ext_factor", "that of YaRN", 1.0},
    {"rope.scaling.yarn_attn_factor", no_feature, 1.0},
    {"tensor_data_layout", "tells where the file comes from"},
    {"expert_count", no_feature, 0.0},
    {"expert_used_count", no_feature, 0.0},
    {"expert_shared_count", no_feature, 0.0},
    {"expert_feed_forward_length", no_feature, 0.0},
    {"expert_shared_feed_forward_length", no_feature, 0.0},
    {"expert_weights_scale", no_feature, 1.0},
    {"expert_group_count", no_feature, 0.0},
    {"expert_group_used_count", no_feature, 0.0},
    {"leading_dense_block_count", no_feature, 0.0},
    {"nextn_predict_layers", no_feature, 0.0},
    {"attention.sliding_window", no_feature, 0.0},
    {"attention.causal", "attention looks back only", 1.0},
    {"attention.clamp_kqv", no_feature, 0.0},
    {"attention.max_alibi_bias", no_feature, 0.0},
    {"attention.temperature_scale", no_feature, 0.0},
    {"attention.layer_norm_epsilon", "for norms of another kind, which the model has none of"},
    {"use_parallel_residual", no_feature, 0.0},
    {"parallel_residual", no_feature, 0.0},
    {"logit_scale", no_feature, 1.0},
    {"residual_scale", no_feature, 1.0},
    {"embedding_scale", no_feature, 1.0},
    {"pooling_type", "text is generated, not pooled"},
    {"n_deepstack_layers", "for images"},
    {"deepstack_mapping", "for images"},
    {"feed_forward.activation", "known of the architecture"},
};

constexpr const char* training = "for training";
constexpr const char* python = "for the program that wrote it";
constexpr const char* by_tensors = "the tensors tell";
constexpr const char* by_tokenizer = "the tokenizer tells";
constexpr Harmless members[] = {
    {"architectures", "model_type tells"},
    {"auto_map", python},
    {"torch_dtype", by_tensors},
    {"dtype", by_tensors},
    {"transformers_version", python},
    {"transformers.js_config", python},
    {"unsloth*", python},
    {"_name_or_path", python},
    {"_commit_hash", python},
    {"_attn_implementation*", python},
    {"attn_implementation", python},
    {"use_flash_attention*", python},
    {"use_cache", python},
    {"cache_implementation", python},
    {"output_attentions", python},
    {"output_hidden_states", python},
    {"return_dict", python},
    {"torchscript", python},
    {"is_decoder", python},
    {"is_encoder_decoder", no_feature, 0.0},
    {"add_cross_attention", no_feature, 0.0},
    {"tokenizer_class", by_tokenizer},
    {"*_token_id", by_tokenizer},
    {"attention_dropout", training},
    {"hidden_dropout*", training},
    {"embedding_dropout", training},
    {"resid_pdrop", training},
    {"embd_pdrop", training},
    {"attn_pdrop", training},
    {"dropout", training},
    {"initializer_range", training},
    {"initializer_factor", training},
    {"gradient_checkpointing*", training},
    {"router_aux_loss_coef", training},
    {"router_jitter_noise", training},
    {"output_router_logits", training},
    {"pretraining_tp", training},
    {"attention_bias", by_tensors},
    {"mlp_bias", by_tensors},
    {"tie_word_embeddings", "read with the tensors"},
    {"quantization", "read with the tensors"},
    {"quantization_config", "read with the tensors"},
    {"max_window_layers", "for use_sliding_window, which is off"},
    {"use_sliding_window", no_feature, 0.0},
    {"use_mrope", no_feature, 0.0},
    {"decoder_sparse_step", "every layer has experts", 1.0},
    {"moe_layer_freq", "every layer has experts", 1.0},
    {"mlp_only_layers", no_feature, 0.0},
    {"n_group", no_feature, 1.0},
    {"topk_group", no_feature, 1.0},
    {"use_bias", by_tensors},
    {"use_qkv_bias", by_tensors},
    {"qkv_bias", by_tensors},
    {"use_qk_norm", by_tensors},
    {"qk_layernorm", by_tensors},
    {"attention_out_bias", by_tensors},
    {"use_parallel_residual", by_tensors},
    {"scoring_func", "known of the architecture"},
    {"topk_method", "known of the architecture"},
    {"no_rope_layer_interval", "of layers whose heads do not turn", 4.0},
    {"moe_layer_end_index", "the last layer"},
    {"moe_use_aux_free", by_tensors},
    {"moe_norm_min", "keeps a sum from 0"},
    {"moe_capacity*", training},
    {"residual_dropout", training},
    {"moe_dropout_prob", training},
    {"rope_interleaved", no_feature, 0.0},
    {"use_bidirectional_attention", no_feature, 0.0},
    {"is_llama_config", python},
    {"model_max_length", "max_position_embeddings tells"},
    {"problem_type", python},
    {"id2label", python},
    {"label2id", python},
    // What readers of such folders ignore as well.
    {"sliding_window", "llama.cpp and mlx-lm attend to all keys, too"},
};

constexpr const char* images = "images are not read";
constexpr const char* prediction = "heads that predict further tokens are not used";
constexpr Harmless tensors[] = {
    {"v.*", images, {}, true},
    {"mm.*", images, {}, true},
    {"a.*", "sound is not read", {}, true},
    {"*.nextn.*", prediction, {}, true},
    {"cls.*", "texts are not classified", {}, true},
    {"*.attn_rot_embd.weight", "follows from the numbers of the model"},
    {"*.rope_freqs.weight", "follows from the numbers of the model"},
    {"*.input_scale", "of activations in a form that they do not take here"},
};
constexpr Harmless folder_tensors[] = {
    {"vision_tower.*", images, {}, true},
    {"model.vision_tower.*", images, {}, true},
    {"vision_model.*", images, {}, true},
    {"visual.*", images, {}, true},
    {"model.visual.*", images, {}, true},
    {"multi_modal_projector.*", images, {}, true},
    {"model.multi_modal_projector.*", images, {}, true},
    {"audio_tower.*", "sound is not read", {}, true},
    {"mtp.*", prediction, {}, true},
    {"model.mtp.*", prediction, {}, true},
    {"score.weight", "texts are not classified", {}, true},
    {"*rotary_emb.inv_freq", "follows from the numbers of the model"},
};

struct Purpose {
  std::string_view pattern, text;
};
constexpr Purpose purposes[] = {
    {"*.scale", "the scale of all values of a tensor, without which they are wrong"},
    {"*.weight_scale*", "the scale of weights in fp8 or fp4; take a file of another format"},
    {"*.weight_packed", "weights of compressed-tensors; take a file of another format"},
    {"*.qweight", "weights of GPTQ or AWQ; take a file of another format"},
    {"*.qzeros", "weights of GPTQ or AWQ; take a file of another format"},
    {"*.g_idx", "weights of GPTQ; take a file of another format"},
    {"*.lora_*", "a LoRA adapter; merge it with its model first"},
    {"*.bias", "a bias that models of this architecture do not have"},
    {"*attn_sinks*", "scores of attention to nothing"},
    {"*_shexp*", "an expert that every token uses"},
    {"*_exps*", "experts of a mixture"},
    {"*.experts.*", "experts of a mixture"},
    {"*exp_probs_b*", "a bias for the choice of experts"},
    {"*ssm_*", "a recurrent layer"},
    {"*shortconv*", "a layer of convolutions"},
    {"*_norm.*", "a norm that models of this architecture do not have"},
    {"*layernorm*", "a norm that models of this architecture do not have"},
    {"rope_*", "factors of rotation"},
    {"position_embd*", "learned positions"},
    {"per_layer_*", "inputs of each layer"},
};

}  // namespace

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

std::span<const Architecture* const> architectures() noexcept { return table; }

const Architecture* find_architecture(std::string_view name) noexcept {
  for (const Architecture* a : table) {
    if (a->name == name) return a;
  }
  return nullptr;
}

const Architecture* find_model_type(std::string_view model_type) noexcept {
  for (const Architecture* a : table) {
    if (has_word(a->model_types, model_type) || a->mixture_type == model_type) return a;
  }
  return nullptr;
}

std::string_view nearest_architecture(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Architecture* a : table) known.push_back(a->name);
  return nearest(name, known);
}

std::string_view nearest_model_type(std::string_view model_type) {
  std::vector<std::string_view> known;
  for (const Architecture* a : table) {
    for (const std::string_view word : words_of(a->model_types)) known.push_back(word);
    if (!a->mixture_type.empty()) known.push_back(a->mixture_type);
  }
  return nearest(model_type, known);
}

std::span<const std::string_view> activation_names(Activation a) noexcept {
  static constexpr std::string_view silu[] = {"silu", "swish"};
  static constexpr std::string_view gelu[] = {"gelu_pytorch_tanh", "gelu", "gelu_new"};
  static constexpr std::string_view relu2[] = {"relu2"};
  switch (a) {
    case Activation::silu:
    case Activation::clamped_silu:
      return silu;
    case Activation::gelu:
      return gelu;
    case Activation::relu2:
      return relu2;
  }
  return {};
}

std::uint32_t extent(Extent e, const ModelConfig& c, std::uint32_t layer) noexcept {
  switch (e) {
    case Extent::none:
      return 0;
    case Extent::one:
      return 1;
    case Extent::vocab:
      return c.vocab;
    case Extent::dim:
      return c.dim;
    case Extent::queries:
      return c.n_heads * c.head_dim_of(layer);
    case Extent::keys:
      return c.kv_heads_of(layer) * c.head_dim_of(layer);
    case Extent::head:
      return c.head_dim_of(layer);
    case Extent::heads:
      return c.n_heads;
    case Extent::kv_heads:
      return c.n_kv_heads;
    case Extent::ffn:
      return c.ffn_dim_of(layer);
    case Extent::experts:
      return c.n_experts;
    case Extent::expert_ffn:
      return c.expert_ffn_dim;
    case Extent::shared_ffn:
      return c.shared_ffn_dim;
    case Extent::half_rope:
      return c.rope.dims / 2;
    case Extent::half_rope_wide:
      for (std::uint32_t i = 0; i < c.n_layers; ++i) {
        if (!c.is_local(i)) return c.rope.dims / 2;
      }
      return 0;
    case Extent::context:
      return c.context;
    case Extent::per_layer:
      return c.per_layer_dim;
    case Extent::per_layers:
      return c.per_layer_dim * c.n_layers;
  }
  return 0;
}

std::uint32_t row_count(const TensorRow& row, const ModelConfig& c, std::uint32_t layer) noexcept {
  if (row.form == TensorForm::vector) return 0;
  std::uint32_t n = extent(row.rows, c, layer);
  for (const Target& t : row.into) n += extent(t.rows, c, layer);
  return n;
}

bool applies(const TensorRow& row, const ModelConfig& c, std::uint32_t layer) noexcept {
  if (extent(row.cols, c, layer) == 0) return false;
  if (row.form != TensorForm::vector && row_count(row, c, layer) == 0) return false;
  if (row.where == Where::input_layers) return c.per_layer_dim > 0;
  if (row.where == Where::cache_layers) return c.has_cache(layer);
  if (row.where == Where::dense_layers) return !c.has_experts(layer);
  if (row.where == Where::expert_layers) return c.has_experts(layer);
  if (row.where == Where::shared_layers) return c.has_experts(layer) && c.shared_ffn_dim > 0;
  return true;
}

std::string gguf_part(const TensorRow& row, std::uint32_t layer) {
  if (row.where == Where::model) return std::string(row.gguf);
  return "blk." + std::to_string(layer) + "." + std::string(row.gguf);
}

std::vector<std::string> folder_parts(const TensorRow& row, std::uint32_t layer) {
  const std::string front =
      row.where == Where::model ? std::string() : "model.layers." + std::to_string(layer) + ".";
  std::vector<std::string> names;
  for (const std::string_view word : words_of(row.hf)) names.push_back(front + std::string(word));
  return names;
}

std::uint32_t piece_count(const TensorRow& row, const ModelConfig& c,
                          std::uint32_t layer) noexcept {
  return row.form == TensorForm::experts ? c.n_experts : row_count(row, c, layer);
}

std::string piece_name(std::string_view name, std::uint32_t piece) {
  const std::size_t at = name.find("{}");
  if (at == name.npos) return std::string(name);
  return std::string(name.substr(0, at)) + std::to_string(piece) + std::string(name.substr(at + 2));
}

bool pairs_rows(const Architecture& a) noexcept {
  return a.rope == ops::RopeMode::interleaved &&
         std::any_of(a.tensors.begin(), a.tensors.end(),
                     [](const TensorRow& row) { return row.transform == Transform::paired; });
}

const Harmless* find_harmless(std::span<const Harmless> rows, std::string_view name) noexcept {
  for (const Harmless& h : rows) {
    if (matches(h.name, name)) return &h;
  }
  return nullptr;
}
std::span<const Harmless> common_harmless_keys() noexcept { return gguf_keys; }
std::span<const Harmless> common_harmless_members() noexcept { return members; }
std::span<const Harmless> harmless_tensors() noexcept { return tensors; }
std::span<const Harmless> harmless_folder_tensors() noexcept { return folder_tensors; }

std::string_view purpose_of_tensor(std::string_view name) noexcept {
  for (const Purpose& p : purposes) {
    if (matches(p.pattern, name)) return p.text;
  }
  return {};
}

}  // namespace onepass::llm
