#include "model/source.h"

#include <algorithm>

#include "core/guarded.h"
#include "model/architecture.h"

namespace onepass::llm {
namespace {

std::optional<DType> dtype_of(std::string_view type) {
  if (type == "F32") return DType::f32;
  if (type == "F16") return DType::f16;
  if (type == "BF16") return DType::bf16;
  if (type == "U32") return DType::u32;
  return std::nullopt;
}

}  // namespace

namespace {

StoredTensor stored_of(const io::GgufTensor& t) {
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

StoredTensor stored_of(const io::Safetensor& t) {
  StoredTensor s;
  s.name = t.name;
  s.type = t.type->name;
  s.dtype = t.n_dims <= s.dims.size() ? dtype_of(t.type->name) : std::nullopt;
  s.rank = t.n_dims;
  for (std::uint32_t d = 0; d < std::min<std::uint32_t>(t.n_dims, 4); ++d) s.dims[d] = t.dims[d];
  s.bytes = t.bytes;
  s.at = t.at;
  return s;
}

}  // namespace

std::optional<StoredTensor> GgufSource::find(std::string_view name) const {
  const auto found = file_.find(name);
  if (!found) return std::nullopt;
  return stored_of(*found->info);
}

std::vector<StoredTensor> GgufSource::stored() const {
  std::vector<StoredTensor> list;
  for (std::size_t i = 0; i < file_.n_shards(); ++i) {
    for (const io::GgufTensor& t : file_.shard(i).tensors()) list.push_back(stored_of(t));
  }
  return list;
}

const Harmless* GgufSource::harmless(std::string_view own_name) const {
  return find_harmless(harmless_tensors(), own_name);
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
    source.name_tensors();
    return source;
  });
}

void FolderSource::name_tensors() {
  const Status named =
      for_each_tensor(config_, [&](const TensorRow& row, std::uint32_t i) -> Status {
        if (row.hf.empty() || (tied_ && row.model == &Weights::output)) return {};
        const std::string ours = gguf_part(row, i);
        const bool whole = row.suffix != ".weight";
        const float add = row.transform == Transform::plus_one ? 1.0f : 0.0f;
        for (const std::string& theirs : folder_parts(row, i)) {
          const auto name = [&](std::string_view suffix, float plus) {
            Name& n = names_[ours + std::string(suffix)];
            n.theirs.push_back(whole ? theirs : theirs + std::string(suffix));
            n.pieces = piece_count(row, config_, i);
            n.add = plus;
          };
          name(row.suffix, add);
          if (whole) continue;
          for (const char* suffix : {".bias", ".scales", ".biases"}) name(suffix, 0.0f);
        }
        return {};
      });
  static_cast<void>(named);  // nothing in it fails
}

const std::vector<float>* FolderSource::factors(std::string_view name) const noexcept {
  const RopeConfig& r = config_.rope;
  const std::vector<float>* list = name == "rope_freqs.weight"           ? &r.factors
                                   : name == "rope_factors_short.weight" ? &r.short_factors
                                   : name == "rope_factors_long.weight"  ? &r.long_factors
                                                                         : nullptr;
  return list != nullptr && !list->empty() ? list : nullptr;
}

std::optional<StoredTensor> FolderSource::find(std::string_view name) const {
  if (const std::vector<float>* list = factors(name)) {
    StoredTensor s;
    s.name = name;
    s.type = "F32";
    s.dtype = DType::f32;
    s.rank = 1;
    s.dims[0] = list->size();
    s.bytes = list->size() * sizeof(float);
    return s;
  }
  const auto named = names_.find(name);
  if (named == names_.end()) return std::nullopt;
  for (const std::string& theirs : named->second.theirs) {
    std::optional<StoredTensor> s;
    if (has_pieces(theirs)) {
      s = join_pieces(theirs, named->second.pieces);
    } else if (const auto found = file_->find(theirs)) {
      s = stored_of(*found->info);
    }
    if (!s) continue;
    s->add = named->second.add;
    return s;
  }
  return std::nullopt;
}

std::optional<StoredTensor> FolderSource::join_pieces(const std::string& name,
                                                      std::uint32_t n) const {
  std::optional<StoredTensor> all;
  std::vector<std::string> pieces;
  std::string absent;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::string& piece = pieces.emplace_back(piece_name(name, i));
    const auto found = file_->find(piece);
    if (!found) {
      if (absent.empty()) absent = piece;
      continue;
    }
    const StoredTensor s = stored_of(*found->info);
    if (!all) {
      all = s;
    } else if (s.type != all->type || s.rank != all->rank || s.dims != all->dims) {
      if (all->bad_piece.empty()) all->bad_piece = piece;
    }
  }
  if (!all) return all;
  if (!absent.empty()) all->bad_piece = absent;
  all->pieces = std::move(pieces);
  all->bytes *= n;
  if (all->rank < all->dims.size()) {
    std::rotate(all->dims.begin(), all->dims.end() - 1, all->dims.end());
    all->dims[0] = n;
    ++all->rank;
  }
  return all;
}

std::string FolderSource::own_name(std::string_view name) const {
  const auto named = names_.find(name);
  return named == names_.end() ? std::string(name) : piece_name(named->second.theirs.front(), 0);
}

std::vector<StoredTensor> FolderSource::stored() const {
  std::vector<StoredTensor> list;
  for (std::size_t i = 0; i < file_->n_shards(); ++i) {
    for (const io::Safetensor& t : file_->shard(i).tensors()) list.push_back(stored_of(t));
  }
  return list;
}

const Harmless* FolderSource::harmless(std::string_view own_name) const {
  static constexpr Harmless tied_head{"lm_head.*", "config.json says that it is the embedding"};
  if (tied_ && own_name.starts_with("lm_head.")) return &tied_head;
  return find_harmless(harmless_folder_tensors(), own_name);
}

Status FolderSource::read(const StoredTensor& tensor, std::uint64_t offset,
                          std::span<std::byte> out) const {
  if (const std::vector<float>* list = factors(tensor.name)) {
    const auto bytes = std::as_bytes(std::span(*list));
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      return fail(ErrorCode::invalid_argument, "read " + tensor.name + ": out of range");
    }
    std::copy_n(bytes.data() + offset, out.size(), out.data());
    return {};
  }
  if (tensor.pieces.empty()) return file_->read(*file_->find(tensor.name), offset, out);
  const std::uint64_t size = tensor.bytes / tensor.pieces.size();
  while (!out.empty()) {
    const std::uint64_t begin = offset % size;
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(size - begin, out.size()));
    const auto piece = file_->find(tensor.pieces[static_cast<std::size_t>(offset / size)]);
    ONEPASS_TRY(file_->read(*piece, begin, out.first(n)));
    out = out.subspan(n);
    offset += n;
  }
  return {};
}

Result<std::optional<AffineFormat>> FolderSource::affine(std::string_view part) const {
  return guarded([&]() -> Result<std::optional<AffineFormat>> {
    const auto named = names_.find(std::string(part) + ".scales");
    if (named == names_.end()) return std::optional<AffineFormat>();
    std::string name;
    for (const std::string& theirs : named->second.theirs) {
      if (name.empty() && file_->find(piece_name(theirs, 0))) name = piece_name(theirs, 0);
    }
    if (name.empty()) return std::optional<AffineFormat>();
    const auto scales = file_->find(name);
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
