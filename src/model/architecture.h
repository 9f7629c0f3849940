// What is known of model architectures: one row each, defined in src/model/families and listed in
// families.def. A row says which keys a file has, which tensors, and how a pass runs; readers of
// GGUF files and folders, both converters, synthetic models and what `info` prints go through it.
//
//   const Architecture* a = find_architecture("llama");
//   for (const TensorRow& row : a->tensors) ...      // "attn_q": where, how large, what for
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/config.h"
#include "model/weights.h"
#include "onepass/ops.h"
#include "onepass/session.h"

namespace onepass::llm {

struct KvLayer {
  Tensor k, v;  // [slots, kv_heads, capacity, head_dim]
};

struct ForwardArgs {
  const ModelConfig& config;
  const Weights& weights;
  std::span<const KvLayer> cache;
  View step;              // StepState with the pass's rows
  std::uint32_t rows;     // recorded; those beyond the step's n_rows have no effect
  std::uint32_t context;  // most tokens of a sequence
  bool hidden;            // false: only the cache is wanted, and forward returns nothing

  // The keys and values of layer i are all that is left to compute.
  bool ends_at(std::uint32_t i) const noexcept { return !hidden && i + 1 == config.cache_layers(); }
};

// As functions of Key: at<&ModelConfig::rope, &RopeConfig::base>: a place in the numbers of a
// model.
template <auto... path>
auto& at(ModelConfig& c) {
  return (c.*....*path);
}

// A number of ModelConfig, and what files call it. Exactly one of count, number and flag is set.
struct Key {
  std::string_view gguf{};  // behind the architecture's name; empty: GGUF files have none
  std::string_view json{};  // in config.json, likewise; some have several, by spaces: see first_of
  std::uint32_t& (*count)(ModelConfig&) = nullptr;
  float& (*number)(ModelConfig&) = nullptr;
  bool& (*flag)(ModelConfig&) = nullptr;
  std::vector<std::uint32_t>& (*list)(ModelConfig&) =
      nullptr;                  // of a count whose layers may differ
  double min = 0.0, max = 0.0;  // what a file may say
  // Without the key. Null, or not a number: it must be there.
  double (*fallback)(const ModelConfig&) = nullptr;
  bool per_layer = false;     // GGUF files may have a list, one entry for each layer
  bool null_is_zero = false;  // null in config.json means 0, not that the key is not there
};

// A number of rows or columns.
enum class Extent : std::uint8_t {
  none,
  one,
  vocab,
  dim,
  queries,  // all heads
  keys,     // all heads of keys or values
  head,
  heads,
  kv_heads,
  ffn,
  experts,
  expert_ffn,
  shared_ffn,
  half_rope,       // pairs that turn
  half_rope_wide,  // the same, if there are layers without a window
  context,
  per_layer,   // each layer's own input
  per_layers,  // those of all layers
};
std::uint32_t extent(Extent e, const ModelConfig& c, std::uint32_t layer) noexcept;

// shared_layers: with experts, if some are used by every token. cache_layers: with a cache of their
// own; what others have there is not used. input_layers: all, if each has an input of its own.
enum class Where : std::uint8_t {
  model,
  layers,
  dense_layers,
  expert_layers,
  shared_layers,
  cache_layers,
  input_layers,
};
// usual: optional, but ordinary files have it, and so have synthetic models.
enum class Need : std::uint8_t { required, usual, optional, never };
enum class TensorForm : std::uint8_t {
  vector,   // [cols] of f32 on the device
  vectors,  // [rows, cols], likewise: one for each head
  matrix,   // [rows, cols]
  experts,  // [experts, rows, cols]
};
constexpr bool is_floats(TensorForm form) noexcept {
  return form == TensorForm::vector || form == TensorForm::vectors;
}
// From a folder to GGUF.
enum class Transform : std::uint8_t {
  none,
  paired,    // rows of a head are ordered pairwise, where the architecture turns pairs
  plus_one,  // 1 is added
};

// Rows of a tensor and the weights they become.
struct Target {
  Linear LayerWeights::*weights = nullptr;
  Extent rows = Extent::none;
};

// A tensor of every layer that has it, or of the model. Rows of one table may have the same
// targets, where files differ: a file has one of them. A model with a size of 0 has no such tensor.
struct TensorRow {
  std::string_view gguf;  // "attn_q": blk.N.attn_q.weight, or without blk.N of a model
  // "self_attn.q_proj", likewise; empty: folders have none. Some have several, separated by spaces,
  // of which the first is what we write. With {}: one tensor for each expert or head.
  std::string_view hf{};
  Where where = Where::layers;
  TensorForm form = TensorForm::matrix;
  Target into[3]{};                  // one after the other
  Linear Weights::*model = nullptr;  // instead, of Where::model
  Extent rows = Extent::none;        // then
  Extent cols = Extent::dim;
  Need need = Need::required;
  Need bias = Need::never;  // NAME.bias [rows], of vectors [cols]
  Transform transform = Transform::none;
  std::string_view suffix = ".weight";
  bool plain = false;   // never quantized
  bool spread = false;  // one value, which stands for a row of dim
  // Of Where::model: the tensor that is there if this one is.
  std::string_view together{};
};
// 0: a vector.
std::uint32_t row_count(const TensorRow& row, const ModelConfig& c, std::uint32_t layer) noexcept;
bool applies(const TensorRow& row, const ModelConfig& c, std::uint32_t layer) noexcept;
// "blk.3.attn_q"; of a model's tensor the name itself. Without the suffix.
std::string gguf_part(const TensorRow& row, std::uint32_t layer);
// "model.layers.3.self_...": every name that a folder may have for it. Without the suffix .weight;
// one of another suffix has its whole name.
std::vector<std::string> folder_parts(const TensorRow& row, std::uint32_t layer);
// Tensors of a folder that such a name with {} stands for.
std::uint32_t piece_count(const TensorRow& row, const ModelConfig& c, std::uint32_t layer) noexcept;
std::string piece_name(std::string_view name, std::uint32_t piece);
constexpr bool has_pieces(std::string_view name) noexcept { return name.find("{}") != name.npos; }
// Words of a list separated by spaces.
std::vector<std::string_view> words_of(std::string_view list);
constexpr std::string_view first_of(std::string_view list) noexcept {
  return list.substr(0, list.find(' '));
}
// body(row, layer) for every tensor that a file of the model may have; an error ends it.
template <class Body>
Status for_each_tensor(const ModelConfig& c, const Body& body);

// A key or tensor that may be there and is not used, and why that is right.
struct Harmless {
  std::string_view name;  // may begin or end with *
  std::string_view reason;
  std::optional<double> only{};  // of keys: with this value (false is 0)
  bool left_out = false;         // of tensors: part of a model of which the rest runs
};
// The first row that takes the name; null: none.
const Harmless* find_harmless(std::span<const Harmless> rows, std::string_view name) noexcept;

enum class NormKind : std::uint8_t { rms, layer };
enum class Activation : std::uint8_t { silu, gelu, relu2, clamped_silu };
// What config.json may call it; the first is what we write.
std::span<const std::string_view> activation_names(Activation a) noexcept;

struct Architecture {
  std::string_view name;           // general.architecture
  std::string_view model_types{};  // model_type of config.json, separated by spaces; empty: none
  std::string_view class_name{};   // of Transformers
  std::string_view mixture_type{}, mixture_class{};  // likewise, of models with experts
  ops::RopeMode rope;  // as GGUF files order the rows; in folders neox where rows are paired
  // From the step's tokens to the hidden rows [rows, dim] that the output norm takes; stores the
  // rows' keys and values in the cache on the way.
  Tensor (*forward)(GraphSession& s, const ForwardArgs& args);
  std::span<const Key> keys;  // read in this order
  std::span<const TensorRow> tensors;
  std::span<const Harmless> harmless_keys{};  // besides those of every architecture
  std::span<const Harmless> harmless_tensors{};
  NormKind norm = NormKind::rms;
  Activation activation = Activation::silu;
  bool norm_after_rope = false;     // of heads; else before
  bool rope_sections = false;       // of images; the positions of a text are all the same, as neox
  bool partial_rotary = false;      // a part of each head may turn
  bool window_pattern = false;      // some layers see a window of keys only
  std::uint32_t window_period = 0;  // the last of so many layers sees everything, if no key says
  bool window_number = false;       // a number instead of a list is for every layer, no period
  bool scaled_windows = false;      // layers with a window turn as the others do
  bool value_norm = false;          // of heads of values, without weights
  std::uint32_t wide_layers = 0;    // with so many layers queries are scaled by dim / heads
  // What follows from the numbers of a file; after all keys were read.
  void (*derive)(ModelConfig& c) = nullptr;
};

// Rows of heads have one order in folders and another one in GGUF files.
bool pairs_rows(const Architecture& a) noexcept;

// Null when it is not known.
const Architecture* find_architecture(std::string_view name) noexcept;
const Architecture* find_model_type(std::string_view model_type) noexcept;
std::span<const Architecture* const> architectures() noexcept;
// The known name that looks most like it.
std::string_view nearest_architecture(std::string_view name);
std::string_view nearest_model_type(std::string_view model_type);

// Of every architecture.
std::span<const Harmless> common_harmless_keys() noexcept;     // of GGUF, behind the name
std::span<const Harmless> common_harmless_members() noexcept;  // of config.json
std::span<const Harmless> harmless_tensors() noexcept;         // of GGUF files
std::span<const Harmless> harmless_folder_tensors() noexcept;
// What a tensor that no row knows is for, with a hint; empty: that is not known.
std::string_view purpose_of_tensor(std::string_view name) noexcept;

template <class Body>
Status for_each_tensor(const ModelConfig& c, const Body& body) {
  for (const TensorRow& row : c.architecture->tensors) {
    if (row.where == Where::model && applies(row, c, 0)) ONEPASS_TRY(body(row, 0u));
  }
  for (std::uint32_t i = 0; i < c.n_layers; ++i) {
    for (const TensorRow& row : c.architecture->tensors) {
      if (row.where != Where::model && applies(row, c, i)) ONEPASS_TRY(body(row, i));
    }
  }
  return {};
}

}  // namespace onepass::llm
