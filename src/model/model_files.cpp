#include "model/model_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/guarded.h"
#include "io/gguf_file.h"
#include "io/safetensors_file.h"
#include "model/model_template.h"
#include "model/synthetic.h"
#include "text/tokenizer/vocabulary.h"

namespace onepass::llm {
namespace {

Error no_tensor(const std::string& name) {
  return make_error(ErrorCode::not_found, "no tensor '" + name + "'");
}

class GgufModel final : public ModelFiles {
 public:
  GgufModel(std::string path, io::GgufFile file) : path_(std::move(path)), file_(std::move(file)) {}

  Result<ModelConfig> config() override { return read_config(file_.metadata()); }
  Result<std::unique_ptr<const WeightSource>> weights() override {
    return std::make_unique<const GgufSource>(file_);
  }
  Result<std::vector<FileTensor>> tensors() override {
    std::vector<FileTensor> list;
    for (std::size_t i = 0; i < file_.n_shards(); ++i) {
      for (const io::GgufTensor& t : file_.shard(i).tensors()) {
        list.push_back({std::string(t.name),
                        t.type->name,
                        {t.dims.begin(), t.dims.begin() + t.n_dims},
                        t.bytes});
      }
    }
    return list;
  }
  Status read(const std::string& tensor, std::uint64_t offset, std::span<std::byte> out) override {
    const auto source = file_.find(tensor);
    if (!source) return no_tensor(tensor);
    return file_.read(*source, offset, out);
  }
  Result<std::size_t> n_shards() override { return file_.n_shards(); }
  Result<Tokenizer> tokenizer() override {
    ONEPASS_ASSIGN(VocabularyData data, vocabulary_from_gguf(file_.metadata()));
    return Tokenizer::from_vocabulary(std::move(data));
  }
  Result<std::string> chat_template() override {
    return gguf_chat_template(file_.metadata(), path_);
  }
  const io::Gguf* gguf_metadata() const noexcept override { return &file_.metadata(); }

 private:
  const std::string path_;
  const io::GgufFile file_;
};

class FolderModel final : public ModelFiles {
 public:
  explicit FolderModel(std::string path) : path_(std::move(path)) {}

  Result<ModelConfig> config() override {
    ONEPASS_ASSIGN(const io::Json json, folder_config());
    return read_config(json);
  }
  Result<std::unique_ptr<const WeightSource>> weights() override {
    ONEPASS_ASSIGN(const io::Json json, folder_config());
    ONEPASS_TRY(open_tensors());
    ONEPASS_ASSIGN(FolderSource source, FolderSource::create(json, tensors_));
    return std::make_unique<const FolderSource>(std::move(source));
  }
  Result<std::vector<FileTensor>> tensors() override {
    ONEPASS_TRY(open_tensors());
    std::vector<FileTensor> list;
    for (std::size_t i = 0; i < tensors_->n_shards(); ++i) {
      for (const io::Safetensor& t : tensors_->shard(i).tensors()) {
        list.push_back({std::string(t.name),
                        std::string(t.type->name),
                        {t.dims.begin(), t.dims.begin() + t.n_dims},
                        t.bytes});
      }
    }
    return list;
  }
  Status read(const std::string& tensor, std::uint64_t offset, std::span<std::byte> out) override {
    ONEPASS_TRY(open_tensors());
    const auto source = tensors_->find(tensor);
    if (!source) return no_tensor(tensor);
    return tensors_->read(*source, offset, out);
  }
  Result<std::size_t> n_shards() override {
    ONEPASS_TRY(open_tensors());
    return tensors_->n_shards();
  }
  Result<Tokenizer> tokenizer() override {
    ONEPASS_ASSIGN(const TokenizerTexts texts, read_tokenizer_texts(path_));
    return Tokenizer::from_json(texts.tokenizer, texts.config, texts.ends);
  }
  Result<std::string> chat_template() override { return folder_chat_template(path_); }
  Result<io::Json> folder_config() override {
    if (config_.root().is_missing()) {
      ONEPASS_ASSIGN(config_text_, io::read_text(path_ + "/config.json", io::max_config_bytes));
      ONEPASS_ASSIGN(config_, io::JsonDocument::parse(config_text_));
    }
    return config_.root();
  }

 private:
  Status open_tensors() {
    if (tensors_ != nullptr) return {};
    ONEPASS_ASSIGN(io::SafetensorsFile file, io::SafetensorsFile::open(path_));
    tensors_ = std::make_shared<const io::SafetensorsFile>(std::move(file));
    return {};
  }

  const std::string path_;
  std::string config_text_;  // what config_ points to
  io::JsonDocument config_;
  std::shared_ptr<const io::SafetensorsFile> tensors_;
};

class SyntheticModel final : public ModelFiles {
 public:
  explicit SyntheticModel(SyntheticSource source) : source_(std::move(source)) {}

  Result<ModelConfig> config() override { return source_.config(); }
  Result<std::unique_ptr<const WeightSource>> weights() override {
    return std::make_unique<const SyntheticSource>(source_);
  }
  Result<std::vector<FileTensor>> tensors() override {
    std::vector<FileTensor> list;
    for (const StoredTensor& t : source_.stored()) {
      list.push_back({t.name, t.type, {t.dims.begin(), t.dims.begin() + t.rank}, t.bytes});
    }
    return list;
  }
  Status read(const std::string& tensor, std::uint64_t offset, std::span<std::byte> out) override {
    const auto stored = source_.find(tensor);
    if (!stored) return no_tensor(tensor);
    return source_.read(*stored, offset, out);
  }
  Result<std::size_t> n_shards() override { return std::size_t{1}; }
  Result<Tokenizer> tokenizer() override {
    return fail(ErrorCode::not_found, "synthetic models have no tokenizer: use token ids");
  }
  Result<std::string> chat_template() override {
    return fail(ErrorCode::not_found, "synthetic models have no chat template");
  }

 private:
  const SyntheticSource source_;
};

// Names of GGUF files in a folder, of a model in parts the first one.
std::vector<std::string> gguf_files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::size_t part = name.find("-of-");
    const bool later = part != name.npos && part >= 5 && name.compare(part - 5, 5, "00001") != 0;
    if (name.ends_with(".gguf") && !later) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A folder of models is none itself.
Status check_folder(const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder + "/config.json", ignored)) return {};
  const std::vector<std::string> names = gguf_files_in(folder);
  if (names.empty()) return {};
  constexpr std::size_t most = 20;
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) {
    list += "\n  " + (std::filesystem::path(folder) / names[i]).string();
  }
  if (names.size() > most) list += "\n  and " + std::to_string(names.size() - most) + " more";
  return fail(
      ErrorCode::invalid_argument,
      "the folder '" + folder + "' is no model but has GGUF files; give one of them:" + list);
}

Error tensors_only(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return make_error(ErrorCode::invalid_argument,
                    "'" + path + "' holds tensors only; the model is its folder: '" +
                        (folder.empty() ? "." : folder.string()) + "'");
}

}  // namespace

ModelStore model_store(const std::string& path) noexcept {
  if (path.starts_with(synthetic_prefix)) return ModelStore::synthetic;
  return io::is_folder(path) ? ModelStore::folder : ModelStore::gguf;
}

Result<std::unique_ptr<ModelFiles>> ModelFiles::open(const std::string& path) {
  return guarded([&]() -> Result<std::unique_ptr<ModelFiles>> {
    switch (model_store(path)) {
      case ModelStore::synthetic: {
        ONEPASS_ASSIGN(SyntheticSource source, SyntheticSource::create(path));
        return std::make_unique<SyntheticModel>(std::move(source));
      }
      case ModelStore::folder:
        ONEPASS_TRY(check_folder(path));
        return std::make_unique<FolderModel>(path);
      case ModelStore::gguf:
        break;
    }
    if (path.ends_with(".safetensors")) return tensors_only(path);
    ONEPASS_ASSIGN(io::GgufFile file, io::GgufFile::open(path));
    return std::make_unique<GgufModel>(path, std::move(file));
  });
}

Result<io::Json> ModelFiles::folder_config() {
  return fail(ErrorCode::not_found, "the model is no folder with a config.json");
}

Result<TokenizerTexts> read_tokenizer_texts(const std::string& folder) {
  TokenizerTexts texts;
  ONEPASS_ASSIGN(texts.tokenizer, io::read_text(folder + "/tokenizer.json", io::max_json_bytes));
  auto config = io::read_text(folder + "/tokenizer_config.json", io::max_config_bytes);
  if (!config && config.error().code != ErrorCode::not_found) return std::move(config).error();
  if (config) texts.config = std::move(*config);
  for (const char* file : {"/config.json", "/generation_config.json"}) {
    const auto text = io::read_text(folder + file, io::max_config_bytes);
    if (!text && text.error().code == ErrorCode::not_found) continue;
    ONEPASS_TRY(text);
    ONEPASS_ASSIGN(const io::JsonDocument document, io::JsonDocument::parse(*text));
    const io::Json ids = document.root()["eos_token_id"];
    const auto add = [&](const io::Json& id) -> Status {
      ONEPASS_ASSIGN(const std::uint64_t n, id.integer(max_vocab));
      texts.ends.push_back(static_cast<std::uint32_t>(n));
      return {};
    };
    if (ids.is_null()) continue;
    if (!ids.is(io::JsonKind::array)) ONEPASS_TRY(add(ids));
    for (const io::Json id : ids.items()) ONEPASS_TRY(add(id));
  }
  return texts;
}

Result<std::uint64_t> ModelFiles::weight_bytes() {
  ONEPASS_ASSIGN(const std::vector<FileTensor> list, tensors());
  std::uint64_t total = 0;
  for (const FileTensor& t : list) total += t.bytes;
  return total;
}

}  // namespace onepass::llm
