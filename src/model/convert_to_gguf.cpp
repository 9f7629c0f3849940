#include <algorithm>
#include <cmath>

#include "core/guarded.h"
#include "io/gguf_output.h"
#include "model/architecture.h"
#include "model/convert.h"
#include "model/convert_tokenizer.h"
#include "model/file_rows.h"
#include "model/keys.h"
#include "model/weight_plan.h"
#include "quant/affine.h"

namespace onepass::llm {
namespace {

tl::unexpected<Error> unsupported(std::string field, std::string message) {
  Error e = make_error(ErrorCode::unsupported, std::move(message));
  e.field = std::move(field);
  return tl::unexpected<Error>(std::move(e));
}

// One tensor of the new file.
struct Part {
  std::string name;                  // in GGUF
  std::uint64_t rows = 0, cols = 0;  // rows 0: a vector of cols values
  std::uint64_t experts = 0;         // 0: one matrix
  DType type = DType::f32;
  StoredTensor weight{};
  std::optional<StoredAffine> affine{};
  bool paired = false;  // rows of heads to be ordered pairwise
  float factor = 1.0f;  // of every value

  std::uint64_t n_values() const { return all_rows() * cols; }
  std::uint64_t all_rows() const {
    return std::max<std::uint64_t>(rows, 1) * std::max<std::uint64_t>(experts, 1);
  }
};

class Converter {
 public:
  Converter(const FolderSource& source, const ConvertOptions& options)
      : source_(source),
        c_(source.config()),
        a_(*source.config().architecture),
        options_(options) {}

  Status plan() {
    ONEPASS_TRY(check());
    ONEPASS_ASSIGN(WeightPlan plan, plan_weights(c_, source_));
    for (const WeightPart& p : plan.parts) ONEPASS_TRY(add(p));
    left_out_ = std::move(plan.left_out);
    return choose_types();
  }

  std::vector<Part>& parts() { return parts_; }
  const std::vector<LeftOut>& left_out() const { return left_out_; }

  Status read(const Part& p, std::uint64_t first, std::span<float> out) const {
    ONEPASS_TRY(p.affine ? read_affine(p, first, out) : read_plain(p, first, out));
    if (p.weight.add != 0.0f || p.factor != 1.0f) {
      for (float& v : out) v = (v + p.weight.add) * p.factor;
    }
    if (p.paired) pair_head_rows(out, c_.head_dim, p.rows == 0 ? 1 : p.cols);
    return {};
  }

 private:
  // What GGUF has no words for.
  Status check() const {
    const ops::RopeScaling& s = c_.rope.scaling;
    if (s.ext_factor != 0.0f && (s.beta_fast != 32.0f || s.beta_slow != 1.0f)) {
      return unsupported("rope_scaling.beta_fast", "GGUF files know only 32 and 1 for YaRN");
    }
    for (const Key& key : a_.keys) {
      const bool none = key.null_is_zero && value_of(key, c_) == 0.0;
      const bool unsaid = key.flag != nullptr && key.gguf.empty();
      if ((none && key.fallback(c_) != 0.0) || (unsaid && key.fallback(c_) != value_of(key, c_))) {
        return unsupported(std::string(first_of(key.json)), "GGUF files cannot say that");
      }
    }
    return {};
  }

  Status add(const WeightPart& w) {
    const bool paired = w.row->transform == Transform::paired && pairs_rows(a_);
    if (pairs_rows(a_) && w.row->into[1].weights == &LayerWeights::k) {
      return unsupported(w.weight.name, "fused queries and keys of this architecture");
    }
    Part p{.name = w.name + std::string(w.row->suffix),
           .rows = w.rows,
           .cols = w.cols,
           .experts = w.experts,
           .weight = w.weight,
           .affine = w.affine,
           .paired = paired};
    if (!w.affine) {
      if (!w.weight.dtype || !has_file_rows(*w.weight.dtype)) {
        return io::fail_at(ErrorCode::unsupported,
                           "is " + w.weight.type + ", expected F32, F16 or BF16", w.weight.at,
                           w.weight.name);
      }
      if (w.rows != 0) p.type = *w.weight.dtype;
    } else {
      p.type = DType::f16;
    }
    if (w.row->into[0].weights == &LayerWeights::q_norm) p.factor = query_factor();
    parts_.push_back(std::move(p));
    if (w.row->into[0].weights == &LayerWeights::q) ONEPASS_TRY(check_query_factor());
    if (!w.bias) return {};
    parts_.push_back({.name = w.name + ".bias",
                      .cols = w.rows != 0 ? w.rows : w.cols,
                      .weight = *w.bias,
                      .paired = paired});
    return {};
  }

  // Readers of GGUF files derive the scale of attention from the shapes; where the folder says
  // something else and no key can, the norm of the queries takes the difference.
  float query_factor() const {
    const bool by_scalar = c_.query_scalar > 0.0f && c_.attention_scale != 0.0f;
    return by_scalar ? c_.attention_scale / derived_attention_scale(c_) : 1.0f;
  }
  Status check_query_factor() const {
    const bool has_norm = std::any_of(
        a_.tensors.begin(), a_.tensors.end(),
        [](const TensorRow& row) { return row.into[0].weights == &LayerWeights::q_norm; });
    if (has_norm || std::fabs(query_factor() - 1.0f) < 1e-6f) return {};
    return unsupported("query_pre_attn_scalar", "GGUF files of this architecture cannot say it");
  }

  Status choose_types() {
    if (options_.mix == nullptr) return {};
    MixModel model;
    model.architecture = a_.name;
    model.n_layers = c_.n_layers;
    model.queries_per_key = c_.n_heads / c_.n_kv_heads;
    for (const Part& p : parts_) model.add_tensor(p.name);
    for (Part& p : parts_) {
      if (p.rows != 0 && is_quantized_part(p.name, 2)) {
        p.type = mix_type(*options_.mix, model, p.name, p.cols);
      }
    }
    return {};
  }

  Status read_plain(const Part& p, std::uint64_t first, std::span<float> out) const {
    const DType type = *p.weight.dtype;
    const std::uint64_t size = info(type).block_bytes;
    std::vector<std::byte> bytes(out.size() * static_cast<std::size_t>(size));
    ONEPASS_TRY(source_.read(p.weight, first * p.cols * size, bytes));
    return rows_to_f32(type, bytes, out);
  }

  Status read_affine(const Part& p, std::uint64_t first, std::span<float> out) const {
    const StoredAffine& s = *p.affine;
    const std::uint32_t bits = s.format.bits, group = s.format.group_size;
    const DType type = *s.scales.dtype;
    const std::size_t rows = out.size() / static_cast<std::size_t>(p.cols);
    const std::size_t groups = rows * static_cast<std::size_t>(p.cols / group);
    const std::size_t group_bytes = std::size_t{group} / 8 * bits;
    std::vector<std::byte> numbers(groups * group_bytes);
    std::vector<std::byte> raw(groups * info(type).block_bytes);
    std::vector<float> scales(groups), biases(groups);
    const std::uint64_t first_group = first * (p.cols / group);
    ONEPASS_TRY(source_.read(s.weight, first_group * group_bytes, numbers));
    ONEPASS_TRY(source_.read(s.scales, first_group * info(type).block_bytes, raw));
    ONEPASS_TRY(rows_to_f32(type, raw, scales));
    ONEPASS_TRY(source_.read(s.biases, first_group * info(type).block_bytes, raw));
    ONEPASS_TRY(rows_to_f32(type, raw, biases));
    for (std::size_t g = 0; g < groups; ++g) {
      quant::affine_dequantize(
          static_cast<int>(bits),
          reinterpret_cast<const std::uint8_t*>(numbers.data()) + g * group_bytes,
          static_cast<int>(group), scales[g], biases[g], out.data() + g * group);
    }
    return {};
  }

  const FolderSource& source_;
  const ModelConfig& c_;
  const Architecture& a_;
  const ConvertOptions& options_;
  std::vector<Part> parts_;
  std::vector<LeftOut> left_out_;
};

// The period of windows, or nothing where layers follow no such rule.
std::optional<std::uint32_t> window_period(const ModelConfig& c) {
  const auto full = std::find(c.local.begin(), c.local.end(), 0);
  const auto period = static_cast<std::uint32_t>(full - c.local.begin()) + 1;
  for (std::uint32_t i = 0; i < c.local.size(); ++i) {
    if ((i % period < period - 1) != (c.local[i] != 0)) return std::nullopt;
  }
  return period;
}

// What scales the angles of rotation.
Status set_scaling(const ModelConfig& c, const std::string& prefix, io::GgufOutput& out) {
  const RopeConfig& r = c.rope;
  const bool yarn = r.scaling.ext_factor != 0.0f, both = !r.long_factors.empty();
  if (yarn || both || r.scaling.freq_scale != 1.0f) {
    ONEPASS_TRY(out.set(prefix + "rope.scaling.type", both   ? "longrope"
                                                      : yarn ? "yarn"
                                                             : "linear"));
    ONEPASS_TRY(out.set(prefix + "rope.scaling.factor", 1.0f / r.scaling.freq_scale));
  }
  if (yarn || both) {
    ONEPASS_TRY(out.set(prefix + "rope.scaling.original_context_length",
                        static_cast<std::uint32_t>(r.scaling.n_ctx_orig)));
  }
  if (r.scaling.attn_factor != 1.0f) {
    ONEPASS_TRY(out.set(prefix + "rope.scaling.attn_factor", r.scaling.attn_factor));
  }
  return {};
}

Status set_config(ModelConfig c, io::GgufOutput& out) {
  const Architecture& a = *c.architecture;
  c.n_prediction_layers = 0;  // they are left out
  const std::string prefix = std::string(a.name) + ".";
  for (const Key& key : a.keys) {
    const double value = value_of(key, c);
    const bool absent = value == 0.0 && key.fallback != nullptr && key.fallback(c) == 0.0;
    // A scale that follows from others stands in the weights: see query_factor.
    const bool derived = key.json.empty() && key.number == at<&ModelConfig::attention_scale>;
    if (key.gguf.empty() || absent || derived) continue;
    if (key.gguf.starts_with("expert_") && c.n_experts == 0) continue;
    const std::string name = prefix + std::string(key.gguf);
    if (key.count != nullptr) {
      ONEPASS_TRY(out.set(name, static_cast<std::uint32_t>(value)));
    } else if (key.number != nullptr) {
      ONEPASS_TRY(out.set(name, static_cast<float>(value)));
    } else {
      ONEPASS_TRY(out.set(name, value != 0.0));
    }
  }
  ONEPASS_TRY(set_scaling(c, prefix, out));
  if (c.local.empty()) return {};
  if (const auto period = window_period(c)) {
    return out.set(prefix + "attention.sliding_window_pattern", *period);
  }
  return out.set_flags(prefix + "attention.sliding_window_pattern", c.local);
}

std::string last_part(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

std::uint32_t file_type(const ConvertOptions& options, const std::vector<Part>& parts) {
  if (options.mix != nullptr) return options.mix->file_type;
  return find_mix(name(parts.front().type))->file_type;
}

Status write_parts(const Converter& converter, const std::vector<Part>& parts,
                   const ConvertOptions& options, std::uint64_t head_dim, io::GgufOutput& out) {
  std::uint64_t total = 0, done = 0;
  for (const Part& p : parts) total += p.n_values();
  for (const Part& p : parts) {
    RowStream stream;
    stream.rows = p.all_rows();
    stream.cols = p.cols;
    stream.multiple = p.paired && p.rows != 0 ? head_dim : 1;
    stream.threads = options.threads;
    stream.read = [&](std::uint64_t first, std::span<float> values) -> Status {
      ONEPASS_TRY(converter.read(p, first, values));
      done += values.size();
      return options.progress ? options.progress(done, total) : Status{};
    };
    const Status written = convert_rows(
        stream, p.type, [&](std::span<const std::byte> bytes) { return out.write(bytes); });
    if (!written) {
      Error e = written.error();
      if (e.field.empty()) e.field = p.name;
      return e;
    }
  }
  return {};
}

}  // namespace

void pair_head_rows(std::span<float> values, std::uint64_t head_dim, std::uint64_t cols) {
  const auto half = static_cast<std::size_t>(head_dim / 2), row = static_cast<std::size_t>(cols);
  std::vector<float> head(2 * half * row);
  for (std::size_t at = 0; at + head.size() <= values.size(); at += head.size()) {
    float* to = values.data() + at;
    std::copy_n(to, head.size(), head.begin());
    for (std::size_t i = 0; i < half; ++i) {
      std::copy_n(head.data() + i * row, row, to + 2 * i * row);
      std::copy_n(head.data() + (half + i) * row, row, to + (2 * i + 1) * row);
    }
  }
}

Result<ConvertReport> folder_to_gguf(const std::string& folder, const std::string& path,
                                     const ConvertOptions& options) {
  return guarded([&]() -> Result<ConvertReport> {
    ONEPASS_ASSIGN(const FolderSource source, FolderSource::open(folder));
    const ModelConfig& c = source.config();
    Converter converter(source, options);
    ONEPASS_TRY(converter.plan());
    const std::vector<Part>& parts = converter.parts();

    ConvertReport report;
    report.architecture = c.architecture->name;
    report.left_out = converter.left_out();
    io::GgufOutput out;
    ONEPASS_TRY(out.set("general.architecture", c.architecture->name));
    ONEPASS_TRY(out.set("general.name", last_part(folder)));
    ONEPASS_TRY(out.set("general.file_type", file_type(options, parts)));
    ONEPASS_TRY(out.set("general.quantization_version", std::uint32_t{2}));
    ONEPASS_TRY(set_config(c, out));
    if (options.tokenizer) {
      ONEPASS_ASSIGN(report.tokenizer, tokenizer_to_gguf(folder, c.vocab, out));
    }
    if (!report.tokenizer) ONEPASS_TRY(out.set("tokenizer.ggml.model", "none"));
    for (const Part& p : parts) {
      std::vector<std::uint64_t> dims{p.cols};
      if (p.rows != 0) dims.push_back(p.rows);
      if (p.experts != 0) dims.push_back(p.experts);
      const io::GgmlType& type = *io::ggml_type(static_cast<std::uint32_t>(info(p.type).ggml_id));
      ONEPASS_TRY(out.add_tensor(p.name, type, dims));
      ++report.tensors;
      report.values += p.n_values();
      report.bytes += *storage_bytes(p.type, p.n_values());
    }
    ONEPASS_TRY(out.create(path));
    ONEPASS_TRY(write_parts(converter, parts, options, c.head_dim, out));
    ONEPASS_TRY(out.commit());
    return report;
  });
}

}  // namespace onepass::llm
