#include "model/source.h"

#include <algorithm>

#include "core/guarded.h"
#include "model/architecture.h"

namespace onepass::llm {
namespace {

struct NameRow {
  std::string_view ours, theirs;
};

constexpr NameRow model_names[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};
constexpr NameRow layer_names[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
// Where a row of layer_names means something else.
constexpr NameRow post_norm_names[] = {
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr NameRow fused_names[] = {{"ffn_up", "mlp.gate_up_proj"}};

std::string_view lookup(std::span<const NameRow> rows, std::string_view ours) {
  for (const NameRow& row : rows) {
    if (row.ours == ours) return row.theirs;
  }
  return {};
}

std::optional<DType> dtype_of(std::string_view type) {
  if (type == "F32") return DType::f32;
  if (type == "F16") return DType::f16;
  if (type == "BF16") return DType::bf16;
  if (type == "U32") return DType::u32;
  return std::nullopt;
}

}  // namespace

std::string folder_tensor_name(const Architecture& architecture, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return {};
  std::string_view part = name.substr(0, dot);
  const std::string_view suffix = name.substr(dot);
  if (!part.starts_with("blk.")) {
    const std::string_view theirs = lookup(model_names, part);
    return theirs.empty() ? std::string() : std::string(theirs) + std::string(suffix);
  }
  part.remove_prefix(4);
  const std::size_t end = part.find('.');
  if (end == part.npos) return {};
  const std::string_view layer = part.substr(0, end), ours = part.substr(end + 1);
  std::string_view theirs;
  if (architecture.post_norms) theirs = lookup(post_norm_names, ours);
  if (architecture.fused) theirs = lookup(fused_names, ours);
  if (theirs.empty()) theirs = lookup(layer_names, ours);
  if (theirs.empty()) return {};
  std::string out = "model.layers.";
  out += layer;
  out += '.';
  out += theirs;
  out += suffix;
  return out;
}

std::optional<StoredTensor> GgufSource::find(std::string_view name) const {
  const auto found = file_.find(name);
  if (!found) return std::nullopt;
  const io::GgufTensor& t = *found->info;
  StoredTensor s;
  s.name = t.name;
  s.type = t.type->name;
  s.dtype = dtype_from_ggml_id(t.type->id);
  s.rank = t.n_dims;
  for (std::uint32_t d = 0; d < t.n_dims; ++d) s.dims[d] = t.dims[t.n_dims - 1 - d];
  s.bytes = t.bytes;
  s.at = t.at;
  return s;
}

Status GgufSource::read(const StoredTensor& tensor, std::uint64_t offset,
                        std::span<std::byte> out) const {
  return file_.read(*file_.find(tensor.name), offset, out);
}

Result<FolderSource> FolderSource::open(const std::string& folder) {
  return guarded([&]() -> Result<FolderSource> {
    ONEPASS_ASSIGN(const std::string text,
                   io::read_text(folder + "/config.json", io::max_config_bytes));
    ONEPASS_ASSIGN(const io::JsonDocument config, io::JsonDocument::parse(text));
    ONEPASS_ASSIGN(io::SafetensorsFile file, io::SafetensorsFile::open(folder));
    return create(config.root(), std::make_shared<const io::SafetensorsFile>(std::move(file)));
  });
}

Result<FolderSource> FolderSource::create(const io::Json& config,
                                          std::shared_ptr<const io::SafetensorsFile> file) {
  return guarded([&]() -> Result<FolderSource> {
    FolderSource source;
    source.file_ = std::move(file);
    ONEPASS_ASSIGN(source.config_, read_config(config));
    ONEPASS_ASSIGN(source.quantization_, read_quantization(config));
    // Some architectures tie by default; without the key the file decides.
    const io::Json tied = config["tie_word_embeddings"];
    const bool has_head = source.file_->find("lm_head.weight").has_value();
    source.tied_ = !has_head;
    if (!tied.is_missing()) {
      ONEPASS_ASSIGN(source.tied_, tied.boolean());
    }
    if (!source.tied_ && !has_head) {
      return tied.error(ErrorCode::not_found, "is false, but the folder has no lm_head.weight");
    }
    return source;
  });
}

std::string FolderSource::translate(std::string_view name) const {
  if (tied_ && name.starts_with("output.")) return {};
  return folder_tensor_name(*config_.architecture, name);
}

std::optional<StoredTensor> FolderSource::find(std::string_view name) const {
  const std::string theirs = translate(name);
  if (theirs.empty()) return std::nullopt;
  const auto found = file_->find(theirs);
  if (!found) return std::nullopt;
  const io::Safetensor& t = *found->info;
  StoredTensor s;
  s.name = theirs;
  s.type = t.type->name;
  s.dtype = t.n_dims <= s.dims.size() ? dtype_of(t.type->name) : std::nullopt;
  s.rank = t.n_dims;
  for (std::uint32_t d = 0; d < std::min<std::uint32_t>(t.n_dims, 4); ++d) s.dims[d] = t.dims[d];
  s.bytes = t.bytes;
  s.at = t.at;
  // Gemma's norms multiply by 1 + w.
  if (config_.architecture->post_norms && theirs.find("norm") != theirs.npos) s.add = 1.0f;
  return s;
}

Status FolderSource::read(const StoredTensor& tensor, std::uint64_t offset,
                          std::span<std::byte> out) const {
  return file_->read(*file_->find(tensor.name), offset, out);
}

Result<std::optional<AffineFormat>> FolderSource::affine(std::string_view part) const {
  return guarded([&]() -> Result<std::optional<AffineFormat>> {
    const std::string name = translate(std::string(part) + ".scales");
    const auto scales = file_->find(name);
    if (!scales) return std::optional<AffineFormat>();
    const std::string module = name.substr(0, name.rfind('.'));
    const auto& list = quantization_.modules;
    const auto own = std::lower_bound(
        list.begin(), list.end(), module,
        [](const Quantization::Module& m, const std::string& path) { return m.path < path; });
    const bool listed = own != list.end() && own->path == module;
    if (listed ? !own->quantized : !quantization_.any) {
      return io::fail_at(ErrorCode::parse, "has scales, config.json says it is not quantized",
                         scales->info->at, module);
    }
    return std::optional(listed ? own->format : quantization_.all);
  });
}

}  // namespace onepass::llm
