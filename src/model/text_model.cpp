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

// Weights are valid as long as the files.
struct OpenModel {
  std::unique_ptr<ModelFiles> files;
  std::unique_ptr<const WeightSource> weights;
};

}  // namespace

Result<TextModel> open_text_model(const Device& device, const std::string& path,
                                  const OpenOptions& options) {
  return guarded([&]() -> Result<TextModel> {
    const auto opened = std::make_shared<OpenModel>();
    ONEPASS_ASSIGN(opened->files, ModelFiles::open(path));
    ModelFiles* const files = opened->files.get();
    ONEPASS_ASSIGN(const ModelConfig config, files->config());
    ONEPASS_ASSIGN(opened->weights, files->weights());
    ONEPASS_ASSIGN(const std::uint64_t total, files->weight_bytes());
    TextModel m{nullptr,
                make_error(ErrorCode::invalid_state, "the model was opened without its tokenizer")};
    if (options.tokenizer) m.tokenizer = files->tokenizer();
    if (options.before_load) ONEPASS_TRY(options.before_load(config, total));
    const std::shared_ptr<const WeightSource> weights(opened, opened->weights.get());
    ONEPASS_ASSIGN(m.model, Model::load(device, config, CountedSource(*weights, total, options),
                                        {options.weight_budget, weights}));
    return m;
  });
}

}  // namespace onepass::llm
