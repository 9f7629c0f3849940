#include "llm/text_model.h"

#include "core/guarded.h"
#include "llm/synthetic.h"
#include "llm/tokenizer/vocabulary.h"

namespace onepass::llm {
namespace {

constexpr std::uint64_t max_tokenizer_json_bytes = 256u << 20;

// Counts what is read from another source.
class CountedSource final : public WeightSource {
 public:
  CountedSource(const WeightSource& source, std::uint64_t total, const OpenOptions& options)
      : source_(source), total_(total), options_(options) {}

  std::optional<StoredTensor> find(std::string_view name) const override {
    return source_.find(name);
  }
  Status read(const StoredTensor& tensor, std::uint64_t offset,
              std::span<std::byte> out) const override {
    ONEPASS_TRY(source_.read(tensor, offset, out));
    done_ += out.size();
    return options_.progress ? options_.progress(done_, total_) : Status{};
  }
  Result<std::optional<AffineFormat>> affine(std::string_view part) const override {
    return source_.affine(part);
  }

 private:
  const WeightSource& source_;
  const std::uint64_t total_;
  const OpenOptions& options_;
  mutable std::uint64_t done_ = 0;
};

std::uint64_t tensor_bytes(const auto& file) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < file.n_shards(); ++i) {
    for (const auto& t : file.shard(i).tensors()) total += t.bytes;
  }
  return total;
}

Error not_asked_for() {
  return make_error(ErrorCode::invalid_state, "the model was opened without its tokenizer");
}
Error synthetic_has_none() {
  return make_error(ErrorCode::not_found, "synthetic models have no tokenizer: use token ids");
}

Result<Tokenizer> from_gguf(const io::Gguf& file) {
  ONEPASS_ASSIGN(VocabularyData data, vocabulary_from_gguf(file));
  return Tokenizer::from_vocabulary(std::move(data));
}

Result<Tokenizer> from_folder(const std::string& folder) {
  ONEPASS_ASSIGN(const std::string text,
                 io::read_text(folder + "/tokenizer.json", max_tokenizer_json_bytes));
  const auto config = io::read_text(folder + "/tokenizer_config.json", io::max_json_bytes);
  if (!config && config.error().code != ErrorCode::not_found) return config.error();
  return Tokenizer::from_json(text, config ? *config : std::string_view());
}

}  // namespace

Result<TextModel> open_text_model(const Device& device, const std::string& path,
                                  const OpenOptions& options) {
  return guarded([&]() -> Result<TextModel> {
    const auto load = [&](const ModelConfig& config, const WeightSource& source,
                          std::uint64_t total) -> Result<std::shared_ptr<const Model>> {
      if (options.before_load) ONEPASS_TRY(options.before_load(config, total));
      return Model::load(device, config, CountedSource(source, total, options));
    };
    TextModel m{nullptr, not_asked_for()};
    if (path.starts_with(synthetic_prefix)) {
      ONEPASS_ASSIGN(const SyntheticSource source, SyntheticSource::create(path));
      std::uint64_t total = 0;
      for (const StoredTensor& t : source.tensors()) total += t.bytes;
      ONEPASS_ASSIGN(m.model, load(source.config(), source, total));
      m.tokenizer = synthetic_has_none();
    } else if (io::is_folder(path)) {
      ONEPASS_ASSIGN(const FolderSource folder, FolderSource::open(path));
      if (options.tokenizer) m.tokenizer = from_folder(path);
      ONEPASS_ASSIGN(m.model, load(folder.config(), folder, tensor_bytes(folder.file())));
    } else {
      ONEPASS_ASSIGN(const io::GgufFile file, io::GgufFile::open(path));
      ONEPASS_ASSIGN(const ModelConfig config, read_config(file.metadata()));
      if (options.tokenizer) m.tokenizer = from_gguf(file.metadata());
      ONEPASS_ASSIGN(m.model, load(config, GgufSource(file), tensor_bytes(file)));
    }
    return m;
  });
}

Result<Tokenizer> open_tokenizer(const std::string& path) {
  return guarded([&]() -> Result<Tokenizer> {
    if (path.starts_with(synthetic_prefix)) return synthetic_has_none();
    if (io::is_folder(path)) return from_folder(path);
    ONEPASS_ASSIGN(const io::GgufFile file, io::GgufFile::open(path));
    return from_gguf(file.metadata());
  });
}

}  // namespace onepass::llm
