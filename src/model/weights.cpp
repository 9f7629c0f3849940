#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "core/guarded.h"
#include "model/architecture.h"
#include "model/expert_cache.h"
#include "model/file_rows.h"
#include "model/model_files.h"
#include "model/weight_plan.h"

namespace onepass::llm {
namespace {

tl::unexpected<Error> refuse(ErrorCode code, const StoredTensor& t, std::string message) {
  return io::fail_at(code, t.name + " " + std::move(message), t.at, t.name);
}

}  // namespace

// Fills a model as a plan says.
class Loader {
 public:
  Loader(Model& model, const WeightSource& source, const WeightBudget& budget)
      : model_(model), c_(model.config_), source_(source), budget_(budget) {}

  Status load() {
    ONEPASS_ASSIGN(const WeightPlan plan, plan_weights(c_, source_));
    Weights& w = model_.weights_;
    w.layers.resize(c_.n_layers);
    if (budget_.bytes != 0) ONEPASS_TRY(plan_caches(plan));
    for (const WeightPart& p : plan.parts) ONEPASS_TRY(load_part(p));
    for (const auto& cache : model_.caches_) {
      if (cache) ONEPASS_TRY(cache->open(model_.device_));
    }
    if (!w.output) w.output = w.embedding;
    return {};
  }

 private:
  // In memory.
  Result<std::uint64_t> bytes_of(const WeightPart& p) const {
    if (p.affine) {
      return p.affine->weight.bytes + p.affine->scales.bytes + p.affine->biases.bytes;
    }
    if (is_floats(p.row->form)) {
      return std::uint64_t{std::max(p.rows, 1u)} * p.cols * sizeof(float);
    }
    const Shape shape = p.experts != 0 ? Shape{p.experts, p.rows, p.cols} : Shape{p.rows, p.cols};
    ONEPASS_ASSIGN(const Format type, device_format(model_.device_, p.weight, shape));
    return *storage_bytes(type, shape);
  }

  // Places for as many experts of each layer as there is room for.
  Status plan_caches(const WeightPlan& plan) {
    std::uint64_t others = 0, experts = 0;
    for (const WeightPart& p : plan.parts) {
      ONEPASS_ASSIGN(const std::uint64_t bytes, bytes_of(p));
      (p.experts != 0 ? experts : others) += bytes;
      if (p.bias) others += p.bias->bytes;
    }
    if (others + experts <= budget_.bytes) return {};
    const auto refuse_budget = [&](const std::string& why) {
      return fail(ErrorCode::limit,
                  "a budget of " + std::to_string(budget_.bytes) + " bytes for weights: " + why);
    };
    if (!model_.device_.info().unified_memory || !budget_.source) {
      return fail(ErrorCode::unsupported,
                  model_.device_.info().name + " does not read weights while it runs");
    }
    for (const WeightPart& p : plan.parts) {
      if (p.experts == 0 || !p.affine) continue;
      return refuse(ErrorCode::unsupported, p.weight,
                    "has experts in groups with a scale and a bias, which are not read one by one");
    }
    const std::uint64_t each = experts / std::max(c_.n_experts, 1u);
    const std::uint64_t least = others + each * c_.n_experts_used;
    if (least > budget_.bytes || each == 0) {
      return refuse_budget("those that every token uses take " + std::to_string(others) +
                           ", and the experts of one " + std::to_string(each * c_.n_experts_used));
    }
    places_ = static_cast<std::uint32_t>((budget_.bytes - others) / each);
    model_.most_rows_ = places_ / c_.n_experts_used;
    model_.caches_.resize(c_.n_layers);
    for (std::uint32_t i = 0; i < c_.n_layers; ++i) {
      if (!c_.has_experts(i)) continue;
      model_.caches_[i] = std::make_unique<ExpertCache>(budget_.source, c_.n_experts, places_);
      model_.weights_.layers[i].cache = model_.caches_[i].get();
    }
    return {};
  }

  // Places for the experts of a part, with nothing in them.
  Status load_places(const WeightPart& p, const StoredTensor& stored, std::uint32_t first,
                     std::uint32_t n, Linear& l) {
    const Shape shape{places_, n, p.cols};
    ONEPASS_ASSIGN(const Format type, device_format(model_.device_, stored, shape));
    ONEPASS_ASSIGN(Buffer buffer,
                   model_.device_.allocate(*storage_bytes(type, shape), {.zero = false}));
    l.weight = buffer.tensor(type, shape);
    model_.buffers_.push_back(std::move(buffer));
    return model_.caches_[p.layer]->add(model_.device_, stored, first, l.weight);
  }

  Status load_part(const WeightPart& p) {
    if (p.row->model != nullptr) return load_rows(p, 0, p.rows, model_.weights_.*p.row->model);
    std::uint32_t first = 0;
    for (const Target& target : p.row->into) {
      if (target.weights == nullptr) break;
      const std::uint32_t n = extent(target.rows, c_, p.layer);
      ONEPASS_TRY(load_rows(p, first, n, model_.weights_.layers[p.layer].*target.weights));
      first += n;
    }
    return {};
  }

  // Rows [first, first + n) of a part.
  Status load_rows(const WeightPart& p, std::uint32_t first, std::uint32_t n, Linear& l) {
    if (is_floats(p.row->form)) {
      ONEPASS_ASSIGN(std::vector<float> values, floats(p.weight));
      if (p.row->cols == Extent::half_rope || p.row->cols == Extent::half_rope_wide) {
        ONEPASS_TRY(check_factors(p.weight, values));
      }
      if (p.row->spread) values.resize(c_.dim, values[0]);
      ONEPASS_ASSIGN(l.weight, upload_floats(values));
      if (p.rows != 0) l.weight = tensor(l.weight.view, DType::f32, {p.rows, p.cols});
    } else if (p.affine) {
      ONEPASS_ASSIGN(l,
                     upload_affine(model_.device_, source_, *p.affine, first,
                                   p.experts != 0 ? Shape{p.experts, n, p.cols} : Shape{n, p.cols},
                                   model_.buffers_));
    } else {
      const Shape shape = p.experts != 0 ? Shape{p.experts, n, p.cols} : Shape{n, p.cols};
      StoredTensor scaled = p.weight;
      if (p.scale) {
        ONEPASS_ASSIGN(scaled.scales, floats(*p.scale));
      }
      if (p.experts != 0 && places_ != 0) {
        ONEPASS_TRY(load_places(p, scaled, first, n, l));
      } else {
        ONEPASS_ASSIGN(UploadedTensor up,
                       upload_tensor(model_.device_, source_, scaled, first, shape));
        l.weight = keep(std::move(up));
      }
    }
    if (p.bias) {
      // Of the rows, of all experts or, of a vector, all.
      const std::optional<std::uint32_t> size =
          n == 0 || p.experts != 0 ? std::nullopt : std::optional(n);
      ONEPASS_ASSIGN(const std::vector<float> values, floats(*p.bias, first, size));
      ONEPASS_ASSIGN(l.bias, upload_floats(values));
      if (p.experts != 0) l.bias = tensor(l.bias.view, l.bias.dtype, {p.experts, n});
    }
    model_.parts_.push_back({p.row, p.layer, l});
    return {};
  }

  static Status check_factors(const StoredTensor& t, const std::vector<float>& values) {
    for (const float f : values) {
      if (!(f > 0.0f) || !std::isfinite(f)) {
        return refuse(ErrorCode::parse, t, "has an entry that is not positive and finite");
      }
    }
    return {};
  }

  Tensor keep(UploadedTensor up) {
    model_.buffers_.push_back(std::move(up.buffer));
    return up.tensor;
  }

  Result<Tensor> upload_floats(std::span<const float> values) {
    UploadedTensor up;
    ONEPASS_ASSIGN(up.buffer, model_.device_.allocate(values.size_bytes(), {.zero = false}));
    ONEPASS_TRY(model_.device_.write_as<float>(up.buffer.view(), values));
    ONEPASS_TRY(up.buffer.set_immutable());
    up.tensor = up.buffer.tensor(DType::f32, {static_cast<std::uint32_t>(values.size())});
    return keep(std::move(up));
  }

  // A short tensor as f32.
  Result<std::vector<float>> floats(const StoredTensor& t, std::uint32_t first = 0,
                                    std::optional<std::uint32_t> n = std::nullopt) const {
    const std::size_t size = info(*t.dtype).block_bytes;
    std::vector<float> values(n ? *n : static_cast<std::size_t>(t.bytes) / size);
    std::vector<std::byte> bytes(values.size() * size);
    ONEPASS_TRY(source_.read(t, first * size, bytes));
    ONEPASS_TRY(rows_to_f32(*t.dtype, bytes, values));
    for (float& v : values) v += t.add;
    return values;
  }

  Model& model_;
  const ModelConfig& c_;
  const WeightSource& source_;
  const WeightBudget& budget_;
  std::uint32_t places_ = 0;  // for experts of each layer; 0: all are in memory
};

Model::Model(const Device& device) : device_(device) {}
Model::~Model() = default;

Status Model::status() const {
  for (const auto& cache : caches_) {
    if (cache) ONEPASS_TRY(cache->status());
  }
  return {};
}

Result<std::shared_ptr<const Model>> Model::load(const Device& device, const ModelConfig& config,
                                                 const WeightSource& source,
                                                 const WeightBudget& budget) {
  return guarded([&]() -> Result<std::shared_ptr<const Model>> {
    std::shared_ptr<Model> model(new Model(device));
    model->config_ = config;
    ONEPASS_TRY(Loader(*model, source, budget).load());
    return std::shared_ptr<const Model>(std::move(model));
  });
}

Result<std::shared_ptr<const Model>> Model::load(const Device& device, const io::GgufFile& file) {
  ONEPASS_ASSIGN(const ModelConfig config, read_config(file.metadata()));
  return load(device, config, GgufSource(file));
}

Result<std::shared_ptr<const Model>> Model::open(const Device& device, const std::string& path) {
  return guarded([&]() -> Result<std::shared_ptr<const Model>> {
    ONEPASS_ASSIGN(const std::unique_ptr<ModelFiles> files, ModelFiles::open(path));
    ONEPASS_ASSIGN(const ModelConfig config, files->config());
    ONEPASS_ASSIGN(const std::unique_ptr<const WeightSource> weights, files->weights());
    return load(device, config, *weights);
  });
}

std::uint64_t Model::weight_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const Buffer& b : buffers_) total += b.bytes();
  return total;
}

std::uint64_t Model::token_bytes() const noexcept {
  std::uint64_t total = weight_bytes();
  const auto idle = [&total](std::uint64_t bytes) { total -= std::min(bytes, total); };
  for (const LoadedPart& p : parts_) {
    const Linear& w = p.weights;
    const std::uint64_t bytes = w.weight.view.bytes + w.scales.view.bytes + w.biases.view.bytes;
    if (p.row->model == &Weights::embedding && !(w.weight.view == weights_.output.weight.view)) {
      idle(bytes);
    }
    if (p.row->form == TensorForm::experts && caches_.empty()) {
      idle(bytes / config_.n_experts * (config_.n_experts - config_.n_experts_used));
    }
  }
  return total;
}

}  // namespace onepass::llm
