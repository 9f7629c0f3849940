#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "core/guarded.h"
#include "model/architecture.h"
#include "model/model_files.h"
#include "ops/shared/scalar.h"

namespace onepass::llm {
namespace {

tl::unexpected<Error> refuse(ErrorCode code, const StoredTensor& t, std::string message) {
  return io::fail_at(code, t.name + " " + std::move(message), t.at, t.name);
}

std::string shape_text(std::span<const std::uint64_t> dims) {
  std::string s = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    s += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  }
  return s + "]";
}

// Ones in front do not count.
bool same_shape(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  while (a.size() > b.size() && a.front() == 1) a = a.subspan(1);
  while (b.size() > a.size() && b.front() == 1) b = b.subspan(1);
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

// Fills a model from a source, by the names of GGUF files.
class Loader {
 public:
  Loader(Model& model, const WeightSource& source)
      : model_(model), c_(model.config_), source_(source) {}

  Status load() {
    Weights& w = model_.weights_;
    ONEPASS_ASSIGN(w.embedding, linear("token_embd", c_.vocab, c_.dim));
    for (std::uint32_t i = 0; i < c_.n_layers; ++i) ONEPASS_TRY(load_layer(i));
    ONEPASS_ASSIGN(w.output_norm, vector("output_norm.weight", c_.dim));
    w.output = w.embedding;
    if (source_.find("output.weight")) {
      ONEPASS_ASSIGN(w.output, linear("output", c_.vocab, c_.dim));
    } else {
      ONEPASS_ASSIGN(w.output.bias, optional_vector("output.bias", c_.vocab));
    }
    return load_rope();
  }

 private:
  Result<StoredTensor> find(const std::string& name, std::span<const std::uint64_t> dims) const {
    auto found = source_.find(name);
    if (!found) {
      Error e = make_error(ErrorCode::not_found, "the file has no tensor " + name);
      e.field = name;
      return e;
    }
    if (found->rank > found->dims.size() ||
        !same_shape(std::span(found->dims).first(found->rank), dims)) {
      return refuse(ErrorCode::parse, *found,
                    "is " + shape_text(std::span(found->dims).first(std::min(found->rank, 4u))) +
                        ", expected " + shape_text(dims));
    }
    return *std::move(found);
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
  Result<std::vector<float>> floats(const StoredTensor& t) const {
    const DType type = t.dtype.value_or(DType::count_);
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16) {
      return refuse(ErrorCode::unsupported, t, "is " + t.type + ", expected f32, f16 or bf16");
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(t.bytes));
    ONEPASS_TRY(source_.read(t, 0, bytes));
    std::vector<float> values(bytes.size() / info(type).block_bytes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (type == DType::f32) {
        std::memcpy(&values[i], bytes.data() + 4 * i, 4);
      } else {
        std::uint16_t half;
        std::memcpy(&half, bytes.data() + 2 * i, 2);
        values[i] = type == DType::f16 ? ops::op_f16_to_f32(half) : ops::op_bf16_to_f32(half);
      }
      values[i] += t.add;
    }
    return values;
  }

  Result<Tensor> vector(const std::string& name, std::uint32_t n) {
    const std::uint64_t dims[] = {n};
    ONEPASS_ASSIGN(const StoredTensor t, find(name, dims));
    ONEPASS_ASSIGN(const std::vector<float> values, floats(t));
    return upload_floats(values);
  }
  Result<Tensor> optional_vector(const std::string& name, std::uint32_t n) {
    if (!source_.find(name)) return Tensor{};
    return vector(name, n);
  }

  // Rows [first, first + n) of the matrix `part`, which has `all` rows.
  Result<Linear> rows_of(const std::string& part, std::uint32_t all, std::uint32_t first,
                         std::uint32_t n, std::uint32_t k) {
    ONEPASS_ASSIGN(const std::optional<AffineFormat> format, source_.affine(part));
    Linear l;
    if (format) {
      ONEPASS_ASSIGN(const StoredAffine stored, find_affine(part, *format, all, k));
      ONEPASS_ASSIGN(l,
                     upload_affine(model_.device_, source_, stored, first, n, k, model_.buffers_));
    } else {
      const std::uint64_t dims[] = {all, k};
      ONEPASS_ASSIGN(StoredTensor stored, find(part + ".weight", dims));
      ONEPASS_ASSIGN(stored.scales, scales_of(part, 1));
      ONEPASS_ASSIGN(UploadedTensor up,
                     upload_tensor(model_.device_, source_, stored, first, {n, k}));
      l.weight = keep(std::move(up));
    }
    if (source_.find(part + ".bias")) {
      const std::uint64_t dims[] = {all};
      ONEPASS_ASSIGN(const StoredTensor t, find(part + ".bias", dims));
      ONEPASS_ASSIGN(const std::vector<float> values, floats(t));
      ONEPASS_ASSIGN(l.bias, upload_floats(std::span(values).subspan(first, n)));
    }
    return l;
  }
  Result<Linear> linear(const std::string& part, std::uint32_t n, std::uint32_t k) {
    return rows_of(part, n, 0, n, k);
  }

  Result<StoredAffine> find_affine(const std::string& part, const AffineFormat& format,
                                   std::uint32_t n, std::uint32_t k) const {
    StoredAffine s;
    s.format = format;
    const std::uint64_t words[] = {n, std::uint64_t{k} * format.bits / 32};
    const std::uint64_t groups[] = {n, k / format.group_size};
    ONEPASS_ASSIGN(s.weight, find(part + ".weight", words));
    ONEPASS_ASSIGN(s.scales, find(part + ".scales", groups));
    ONEPASS_ASSIGN(s.biases, find(part + ".biases", groups));
    if (k % format.group_size != 0) {
      return refuse(ErrorCode::parse, s.weight,
                    "has rows of " + std::to_string(k) + ", groups have " +
                        std::to_string(format.group_size));
    }
    if (s.weight.dtype != DType::u32) {
      return refuse(ErrorCode::parse, s.weight, "is " + s.weight.type + ", expected U32");
    }
    const DType type = s.scales.dtype.value_or(DType::u32);
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16) {
      return refuse(ErrorCode::unsupported, s.scales, "is " + s.scales.type);
    }
    if (s.biases.dtype != s.scales.dtype) {
      return refuse(ErrorCode::parse, s.biases,
                    "is " + s.biases.type + ", scales are " + s.scales.type);
    }
    return s;
  }

  // The scales of n matrices that the file keeps in a tensor of their own; none where it has none.
  Result<std::vector<float>> scales_of(const std::string& part, std::uint32_t n) const {
    if (!source_.find(part + ".scale")) return std::vector<float>();
    const std::uint64_t dims[] = {n};
    ONEPASS_ASSIGN(const StoredTensor t, find(part + ".scale", dims));
    return floats(t);
  }

  Result<Tensor> experts(const std::string& part, std::uint32_t n, std::uint32_t k) {
    const std::uint64_t dims[] = {c_.n_experts, n, k};
    ONEPASS_ASSIGN(StoredTensor stored, find(part + ".weight", dims));
    ONEPASS_ASSIGN(stored.scales, scales_of(part, c_.n_experts));
    ONEPASS_ASSIGN(UploadedTensor up,
                   upload_tensor(model_.device_, source_, stored, 0, {c_.n_experts, n, k}));
    return keep(std::move(up));
  }

  Status load_layer(std::uint32_t i) {
    const Architecture& a = *c_.architecture;
    const std::string p = "blk." + std::to_string(i) + ".";
    const std::uint32_t q = c_.n_heads * c_.head_dim, kv = c_.n_kv_heads * c_.head_dim;
    LayerWeights w;
    ONEPASS_ASSIGN(w.attn_norm, vector(p + "attn_norm.weight", c_.dim));
    if (a.fused || source_.find(p + "attn_qkv.weight")) {
      const std::string part = p + "attn_qkv";
      ONEPASS_ASSIGN(w.q, rows_of(part, q + 2 * kv, 0, q, c_.dim));
      ONEPASS_ASSIGN(w.k, rows_of(part, q + 2 * kv, q, kv, c_.dim));
      ONEPASS_ASSIGN(w.v, rows_of(part, q + 2 * kv, q + kv, kv, c_.dim));
    } else {
      ONEPASS_ASSIGN(w.q, linear(p + "attn_q", q, c_.dim));
      ONEPASS_ASSIGN(w.k, linear(p + "attn_k", kv, c_.dim));
      ONEPASS_ASSIGN(w.v, linear(p + "attn_v", kv, c_.dim));
    }
    ONEPASS_ASSIGN(w.o, linear(p + "attn_output", c_.dim, q));
    if (a.head_norms) {
      ONEPASS_ASSIGN(w.q_norm, vector(p + "attn_q_norm.weight", c_.head_dim));
      ONEPASS_ASSIGN(w.k_norm, vector(p + "attn_k_norm.weight", c_.head_dim));
    }
    if (a.post_norms) {
      ONEPASS_ASSIGN(w.post_attention_norm, vector(p + "post_attention_norm.weight", c_.dim));
      ONEPASS_ASSIGN(w.post_ffn_norm, vector(p + "post_ffw_norm.weight", c_.dim));
    }
    ONEPASS_ASSIGN(w.ffn_norm, vector(p + "ffn_norm.weight", c_.dim));
    ONEPASS_TRY(load_ffn(p, w));
    model_.weights_.layers.push_back(std::move(w));
    return {};
  }

  Status load_ffn(const std::string& p, LayerWeights& w) {
    if (c_.n_experts > 0) {
      const std::uint32_t ffn = c_.expert_ffn_dim;
      ONEPASS_ASSIGN(w.router, linear(p + "ffn_gate_inp", c_.n_experts, c_.dim));
      ONEPASS_ASSIGN(w.gate_experts, experts(p + "ffn_gate_exps", ffn, c_.dim));
      ONEPASS_ASSIGN(w.up_experts, experts(p + "ffn_up_exps", ffn, c_.dim));
      ONEPASS_ASSIGN(w.down_experts, experts(p + "ffn_down_exps", c_.dim, ffn));
      return {};
    }
    if (c_.architecture->fused) {
      ONEPASS_ASSIGN(w.gate, rows_of(p + "ffn_up", 2 * c_.ffn_dim, 0, c_.ffn_dim, c_.dim));
      ONEPASS_ASSIGN(w.up, rows_of(p + "ffn_up", 2 * c_.ffn_dim, c_.ffn_dim, c_.ffn_dim, c_.dim));
    } else {
      ONEPASS_ASSIGN(w.gate, linear(p + "ffn_gate", c_.ffn_dim, c_.dim));
      ONEPASS_ASSIGN(w.up, linear(p + "ffn_up", c_.ffn_dim, c_.dim));
    }
    ONEPASS_ASSIGN(w.down, linear(p + "ffn_down", c_.dim, c_.ffn_dim));
    return {};
  }

  Result<Tensor> rope_factors(const std::string& name, const std::vector<float>& from_config) {
    if (!from_config.empty()) return upload_floats(from_config);
    if (!source_.find(name)) return Tensor{};
    const std::uint64_t dims[] = {c_.rope.dims / 2};
    ONEPASS_ASSIGN(const StoredTensor t, find(name, dims));
    ONEPASS_ASSIGN(const std::vector<float> values, floats(t));
    for (const float f : values) {
      if (!(f > 0.0f) || !std::isfinite(f)) {
        return refuse(ErrorCode::parse, t, "has an entry that is not positive and finite");
      }
    }
    return upload_floats(values);
  }
  Status load_rope() {
    Weights& w = model_.weights_;
    ONEPASS_ASSIGN(w.rope_factors, rope_factors("rope_freqs.weight", c_.rope.factors));
    ONEPASS_ASSIGN(w.rope_short, rope_factors("rope_factors_short.weight", c_.rope.short_factors));
    ONEPASS_ASSIGN(w.rope_long, rope_factors("rope_factors_long.weight", c_.rope.long_factors));
    return {};
  }

  Model& model_;
  const ModelConfig& c_;
  const WeightSource& source_;
};

Result<std::shared_ptr<const Model>> Model::load(const Device& device, const ModelConfig& config,
                                                 const WeightSource& source) {
  return guarded([&]() -> Result<std::shared_ptr<const Model>> {
    std::shared_ptr<Model> model(new Model(device));
    model->config_ = config;
    ONEPASS_TRY(Loader(*model, source).load());
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
  const Linear& e = weights_.embedding;
  if (!(e.weight.view == weights_.output.weight.view)) {
    idle(e.weight.view.bytes + e.scales.view.bytes + e.biases.view.bytes);
  }
  if (config_.n_experts > 0) {
    for (const LayerWeights& l : weights_.layers) {
      for (const Tensor* t : {&l.gate_experts, &l.up_experts, &l.down_experts}) {
        idle(t->view.bytes / config_.n_experts * (config_.n_experts - config_.n_experts_used));
      }
    }
  }
  return total;
}

}  // namespace onepass::llm
