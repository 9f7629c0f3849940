#include "model/text_model.h"

#include "core/guarded.h"
#include "model/model_files.h"

namespace onepass::llm {
namespace {

// Counts what is read from another source.
class CountedSource final : public WeightSource {
 public:
  CountedSource(const WeightSource& source, std::uint64_t total, const OpenOptions& options)
      : source_(source), total_(total), options_(options) {}

  std::optional<StoredTensor> find(std::string_view name) const override {
    return source_.find(name);
  }
  std::string own_name(std::string_view name) const override { return source_.own_name(name); }
  std::vector<StoredTensor> stored() const override { return source_.stored(); }
  const Harmless* harmless(std::string_view own_name) const override {
    return source_.harmless(own_name);
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

}  // namespace

Result<TextModel> open_text_model(const Device& device, const std::string& path,
                                  const OpenOptions& options) {
  return guarded([&]() -> Result<TextModel> {
    ONEPASS_ASSIGN(const std::unique_ptr<ModelFiles> files, ModelFiles::open(path));
    ONEPASS_ASSIGN(const ModelConfig config, files->config());
    ONEPASS_ASSIGN(const std::unique_ptr<const WeightSource> weights, files->weights());
    ONEPASS_ASSIGN(const std::uint64_t total, files->weight_bytes());
    TextModel m{nullptr,
                make_error(ErrorCode::invalid_state, "the model was opened without its tokenizer")};
    if (options.tokenizer) m.tokenizer = files->tokenizer();
    if (options.before_load) ONEPASS_TRY(options.before_load(config, total));
    ONEPASS_ASSIGN(m.model, Model::load(device, config, CountedSource(*weights, total, options)));
    return m;
  });
}

}  // namespace onepass::llm
