#include "llm/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "core/guarded.h"
#include "ops/checks.h"
#include "ops/shared/scalar.h"

namespace onepass::llm {
namespace {

std::string text(const Shape& shape) {
  std::string s = "[";
  for (std::uint32_t i = 0; i < shape.rank; ++i) {
    s += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return s + "]";
}

tl::unexpected<Error> refuse(ErrorCode code, const io::GgufTensor& t, std::string message) {
  return io::fail_at(code, std::string(t.name) + " " + std::move(message), t.at,
                     std::string(t.name));
}

Result<io::TensorSource> find(const io::GgufFile& file, std::string_view name, const Shape& shape) {
  const auto found = file.find(name);
  if (!found) {
    Error e = make_error(ErrorCode::not_found, "the file has no tensor " + std::string(name));
    e.field = std::string(name);
    return e;
  }
  const io::GgufTensor& t = *found->info;
  bool same = true;
  for (std::uint32_t d = 0; d < io::max_dims; ++d) {
    const std::uint64_t expected = d < shape.rank ? shape[shape.rank - 1 - d] : 1;
    same = same && t.dims[d] == expected;
  }
  if (!same) {
    std::string got = "[";
    for (std::uint32_t d = t.n_dims; d-- > 0;) {
      got += std::to_string(t.dims[d]) + (d == 0 ? "" : ", ");
    }
    return refuse(ErrorCode::parse, t, "is " + got + "], expected " + text(shape));
  }
  return *found;
}

Result<DType> dtype_of(const io::GgufTensor& t, std::uint32_t allowed) {
  const auto type = dtype_from_ggml_id(t.type->id);
  if (!type || (allowed & ops::types(*type)) == 0) {
    return refuse(ErrorCode::unsupported, t,
                  std::string("is ") + t.type->name + ", which does not run yet");
  }
  return *type;
}

// A short tensor as f32.
Result<std::vector<float>> read_floats(const io::GgufFile& file, const io::TensorSource& source) {
  ONEPASS_ASSIGN(const DType type, dtype_of(*source.info, ops::row_types));
  std::vector<std::byte> bytes(static_cast<std::size_t>(source.info->bytes));
  ONEPASS_TRY(file.read(source, bytes));
  std::vector<float> values(bytes.size() / info(type).block_bytes);
  if (type == DType::f32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    values[i] = type == DType::f16 ? ops::op_f16_to_f32(half) : ops::op_bf16_to_f32(half);
  }
  return values;
}

Result<UploadedTensor> finish(Buffer buffer, DType type, const Shape& shape) {
  UploadedTensor up;
  ONEPASS_TRY(buffer.set_immutable());
  up.tensor = buffer.tensor(type, shape);
  up.buffer = std::move(buffer);
  return up;
}

Result<UploadedTensor> upload_floats(const Device& device, std::span<const float> values,
                                     const Shape& shape) {
  ONEPASS_ASSIGN(Buffer buffer, device.allocate(values.size_bytes(), {.zero = false}));
  ONEPASS_TRY(device.write_as<float>(buffer.view(), values));
  return finish(std::move(buffer), DType::f32, shape);
}

}  // namespace

Result<UploadedTensor> upload_tensor(const Device& device, const io::GgufFile& file,
                                     std::string_view name, const Shape& shape, WeightRole role) {
  return guarded([&]() -> Result<UploadedTensor> {
    ONEPASS_ASSIGN(const io::TensorSource source, find(file, name, shape));
    if (role == WeightRole::vector) {
      ONEPASS_ASSIGN(const std::vector<float> values, read_floats(file, source));
      return upload_floats(device, values, shape);
    }
    ONEPASS_ASSIGN(const DType type, dtype_of(*source.info, ops::weight_types));
    ONEPASS_ASSIGN(Buffer buffer, device.allocate(source.info->bytes, {.zero = false}));
    if (const auto mapped = file.mapped(source); !mapped.empty()) {
      ONEPASS_TRY(device.write(buffer.view(), mapped));
    } else if (device.info().unified_memory) {
      ONEPASS_ASSIGN(const std::span<std::byte> memory, device.map(buffer.view()));
      ONEPASS_TRY(file.read(source, memory));
    } else {
      std::vector<std::byte> staging(static_cast<std::size_t>(source.info->bytes));
      ONEPASS_TRY(file.read(source, staging));
      ONEPASS_TRY(device.write(buffer.view(), staging));
    }
    return finish(std::move(buffer), type, shape);
  });
}

Result<Tensor> Model::take(const io::GgufFile& file, const std::string& name, const Shape& shape,
                           WeightRole role) {
  ONEPASS_ASSIGN(UploadedTensor up, upload_tensor(device_, file, name, shape, role));
  buffers_.push_back(std::move(up.buffer));
  return up.tensor;
}

Status Model::load_layer(const io::GgufFile& file, std::uint32_t i) {
  const ModelConfig& c = config_;
  const std::uint32_t q_dim = c.n_heads * c.head_dim, kv_dim = c.n_kv_heads * c.head_dim;
  const std::string prefix = "blk." + std::to_string(i) + ".";
  for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate",
                           "ffn_up", "ffn_down"}) {
    if (const auto bias = file.find(prefix + part + ".bias")) {
      return refuse(ErrorCode::unsupported, *bias->info, "is a bias, which does not run yet");
    }
  }
  const auto matrix = [&](const char* part, std::uint32_t n, std::uint32_t k) {
    return take(file, prefix + part + ".weight", {n, k}, WeightRole::matrix);
  };
  const auto norm = [&](const char* part) {
    return take(file, prefix + part + ".weight", {c.dim}, WeightRole::vector);
  };
  LayerWeights w;
  ONEPASS_ASSIGN(w.attn_norm, norm("attn_norm"));
  if (file.find(prefix + "attn_qkv.weight")) {
    ONEPASS_ASSIGN(const Tensor qkv, matrix("attn_qkv", q_dim + 2 * kv_dim, c.dim));
    const std::uint64_t row = *storage_bytes(qkv.dtype, c.dim);
    const auto rows = [&](std::uint32_t begin, std::uint32_t n) -> Result<Tensor> {
      ONEPASS_ASSIGN(const View view, qkv.view.sub(begin * row, n * row));
      return tensor(view, qkv.dtype, {n, c.dim});
    };
    ONEPASS_ASSIGN(w.q, rows(0, q_dim));
    ONEPASS_ASSIGN(w.k, rows(q_dim, kv_dim));
    ONEPASS_ASSIGN(w.v, rows(q_dim + kv_dim, kv_dim));
  } else {
    ONEPASS_ASSIGN(w.q, matrix("attn_q", q_dim, c.dim));
    ONEPASS_ASSIGN(w.k, matrix("attn_k", kv_dim, c.dim));
    ONEPASS_ASSIGN(w.v, matrix("attn_v", kv_dim, c.dim));
  }
  ONEPASS_ASSIGN(w.o, matrix("attn_output", c.dim, q_dim));
  ONEPASS_ASSIGN(w.ffn_norm, norm("ffn_norm"));
  ONEPASS_ASSIGN(w.gate, matrix("ffn_gate", c.ffn_dim, c.dim));
  ONEPASS_ASSIGN(w.up, matrix("ffn_up", c.ffn_dim, c.dim));
  ONEPASS_ASSIGN(w.down, matrix("ffn_down", c.dim, c.ffn_dim));
  weights_.layers.push_back(w);
  return {};
}

// Linear scaling and per-frequency factors are both divisors of the angle.
Status Model::load_rope_factors(const io::GgufFile& file) {
  constexpr const char* name = "rope_freqs.weight";
  const Shape shape{config_.head_dim / 2};
  std::vector<float> factors(config_.head_dim / 2, config_.rope_factor);
  if (file.find(name)) {
    ONEPASS_ASSIGN(const io::TensorSource source, find(file, name, shape));
    ONEPASS_ASSIGN(const std::vector<float> stored, read_floats(file, source));
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if (!(stored[i] > 0.0f) || !std::isfinite(stored[i])) {
        return refuse(ErrorCode::parse, *source.info,
                      "has an entry that is not positive and finite");
      }
      factors[i] *= stored[i];
    }
  }
  if (std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1.0f; })) return {};
  ONEPASS_ASSIGN(UploadedTensor up, upload_floats(device_, factors, shape));
  weights_.rope_factors = up.tensor;
  buffers_.push_back(std::move(up.buffer));
  return {};
}

Status Model::load_weights(const io::GgufFile& file) {
  const ModelConfig& c = config_;
  ONEPASS_ASSIGN(weights_.embedding,
                 take(file, "token_embd.weight", {c.vocab, c.dim}, WeightRole::matrix));
  for (std::uint32_t i = 0; i < c.n_layers; ++i) ONEPASS_TRY(load_layer(file, i));
  ONEPASS_ASSIGN(weights_.output_norm,
                 take(file, "output_norm.weight", {c.dim}, WeightRole::vector));
  weights_.output = weights_.embedding;
  if (file.find("output.weight")) {
    ONEPASS_ASSIGN(weights_.output,
                   take(file, "output.weight", {c.vocab, c.dim}, WeightRole::matrix));
  }
  return load_rope_factors(file);
}

Result<std::shared_ptr<const Model>> Model::load(const Device& device, const io::GgufFile& file) {
  return guarded([&]() -> Result<std::shared_ptr<const Model>> {
    std::shared_ptr<Model> model(new Model(device));
    ONEPASS_ASSIGN(model->config_, read_config(file.metadata()));
    ONEPASS_TRY(model->load_weights(file));
    return std::shared_ptr<const Model>(std::move(model));
  });
}

std::uint64_t Model::weight_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const Buffer& b : buffers_) total += b.bytes();
  return total;
}

}  // namespace onepass::llm
