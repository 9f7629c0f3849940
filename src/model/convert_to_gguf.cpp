#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/guarded.h"
#include "io/gguf_output.h"
#include "model/architecture.h"
#include "model/convert.h"
#include "model/convert_tokenizer.h"
#include "model/file_rows.h"
#include "model/source.h"
#include "quant/affine.h"

namespace onepass::llm {
namespace {

tl::unexpected<Error> unsupported(const char* field, std::string message) {
  Error e = make_error(ErrorCode::unsupported, std::move(message));
  e.field = field;
  return tl::unexpected<Error>(std::move(e));
}

// One tensor of the new file.
struct Part {
  std::string name;                  // in GGUF
  std::uint64_t rows = 0, cols = 0;  // rows 0: a vector of cols values
  DType type = DType::f32;
  StoredTensor weight{}, scales{}, biases{};
  std::optional<AffineFormat> affine{};
  bool paired = false;          // rows of heads to be ordered pairwise
  float factor = 1.0f;          // of every value
  std::vector<float> values{};  // instead of a stored tensor

  std::uint64_t n_values() const { return std::max<std::uint64_t>(rows, 1) * cols; }
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
    ONEPASS_TRY(matrix("token_embd", c_.vocab, c_.dim));
    ONEPASS_TRY(vector("output_norm.weight", c_.dim));
    if (source_.find("output.weight")) ONEPASS_TRY(matrix("output", c_.vocab, c_.dim));
    for (std::uint32_t i = 0; i < c_.n_layers; ++i) ONEPASS_TRY(layer(i));
    factors("rope_freqs.weight", c_.rope.factors);
    factors("rope_factors_short.weight", c_.rope.short_factors);
    factors("rope_factors_long.weight", c_.rope.long_factors);
    ONEPASS_TRY(check_all_used());
    return choose_types();
  }

  std::vector<Part>& parts() { return parts_; }

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
    if (c_.n_experts > 0)
      return unsupported("num_experts", "mixtures of experts are not converted");
    const ops::RopeScaling& s = c_.rope.scaling;
    if (s.ext_factor != 0.0f && (s.beta_fast != 32.0f || s.beta_slow != 1.0f)) {
      return unsupported("rope_scaling.beta_fast", "GGUF files know only 32 and 1 for YaRN");
    }
    if (a_.attention_softcap > 0.0f && c_.attention_softcap == 0.0f) {
      return unsupported("attn_logit_softcapping", "GGUF files cannot say that there is none");
    }
    if (a_.final_softcap > 0.0f && c_.final_softcap == 0.0f) {
      return unsupported("final_logit_softcapping", "GGUF files cannot say that there is none");
    }
    return {};
  }

  Status layer(std::uint32_t i) {
    const std::string p = "blk." + std::to_string(i) + ".";
    const std::uint64_t q = std::uint64_t{c_.n_heads} * c_.head_dim;
    const std::uint64_t kv = std::uint64_t{c_.n_kv_heads} * c_.head_dim;
    const bool paired = a_.rope == ops::RopeMode::interleaved;
    ONEPASS_TRY(vector(p + "attn_norm.weight", c_.dim));
    if (source_.find(p + "attn_qkv.weight")) {
      if (paired) return unsupported("qkv_proj", "fused queries and keys of this architecture");
      ONEPASS_TRY(matrix(p + "attn_qkv", q + 2 * kv, c_.dim));
    } else {
      ONEPASS_TRY(matrix(p + "attn_q", q, c_.dim, paired));
      ONEPASS_TRY(matrix(p + "attn_k", kv, c_.dim, paired));
      ONEPASS_TRY(matrix(p + "attn_v", kv, c_.dim));
    }
    ONEPASS_TRY(matrix(p + "attn_output", c_.dim, q));
    if (a_.head_norms) {
      ONEPASS_TRY(vector(p + "attn_q_norm.weight", c_.head_dim));
      ONEPASS_TRY(vector(p + "attn_k_norm.weight", c_.head_dim));
    }
    ONEPASS_TRY(scale_queries(i));
    if (a_.post_norms) {
      ONEPASS_TRY(vector(p + "post_attention_norm.weight", c_.dim));
      ONEPASS_TRY(vector(p + "post_ffw_norm.weight", c_.dim));
    }
    ONEPASS_TRY(vector(p + "ffn_norm.weight", c_.dim));
    if (!a_.fused) ONEPASS_TRY(matrix(p + "ffn_gate", c_.ffn_dim, c_.dim));
    ONEPASS_TRY(matrix(p + "ffn_up", (a_.fused ? 2 : 1) * std::uint64_t{c_.ffn_dim}, c_.dim));
    return matrix(p + "ffn_down", c_.dim, c_.ffn_dim);
  }

  // Readers of GGUF files derive the scale of attention from the shapes; where the folder says
  // something else, the norm of the queries takes the difference.
  Status scale_queries(std::uint32_t i) {
    if (c_.attention_scale == 0.0f) return {};
    const bool wide = a_.wide_layers != 0 && c_.n_layers == a_.wide_layers;
    const float derived =
        1.0f / std::sqrt(wide ? static_cast<float>(c_.dim) / static_cast<float>(c_.n_heads)
                              : static_cast<float>(c_.head_dim));
    const float factor = c_.attention_scale / derived;
    if (std::fabs(factor - 1.0f) < 1e-6f) return {};
    if (!a_.head_norms) {
      return unsupported("query_pre_attn_scalar", "GGUF files of this architecture cannot say it");
    }
    const std::string name = "blk." + std::to_string(i) + ".attn_q_norm.weight";
    for (Part& p : parts_) {
      if (p.name == name) p.factor = factor;
    }
    return {};
  }

  Result<StoredTensor> stored(const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    std::optional<StoredTensor> t = source_.find(name);
    if (!t) {
      Error e = make_error(ErrorCode::not_found, "the folder has no tensor " + name);
      e.field = name;
      return e;
    }
    const bool fits = rows == 0 ? t->rank == 1 && t->dims[0] == cols
                                : t->rank == 2 && t->dims[0] == rows && t->dims[1] == cols;
    if (!fits) {
      return io::fail_at(ErrorCode::parse,
                         "has another shape than " +
                             std::to_string(std::max<std::uint64_t>(rows, 1)) + " x " +
                             std::to_string(cols),
                         t->at, t->name);
    }
    if (!t->dtype) {
      return io::fail_at(ErrorCode::unsupported, "is " + t->type, t->at, t->name);
    }
    used_.insert(t->name);
    return *std::move(t);
  }
  Result<StoredTensor> stored_floats(const std::string& name, std::uint64_t rows,
                                     std::uint64_t cols) {
    ONEPASS_ASSIGN(StoredTensor t, stored(name, rows, cols));
    if (*t.dtype == DType::f32 || *t.dtype == DType::f16 || *t.dtype == DType::bf16) return t;
    return io::fail_at(ErrorCode::unsupported, "is " + t.type + ", expected F32, F16 or BF16", t.at,
                       t.name);
  }

  Status vector(const std::string& name, std::uint64_t n, bool paired = false) {
    Part p{.name = name, .cols = n, .paired = paired};
    ONEPASS_ASSIGN(p.weight, stored_floats(name, 0, n));
    parts_.push_back(std::move(p));
    return {};
  }

  Status matrix(const std::string& part, std::uint64_t rows, std::uint64_t cols,
                bool paired = false) {
    Part p{.name = part + ".weight", .rows = rows, .cols = cols, .paired = paired};
    ONEPASS_ASSIGN(p.affine, source_.affine(part));
    if (p.affine) {
      const std::uint32_t bits = p.affine->bits, group = p.affine->group_size;
      if (cols % group != 0 || cols % 32 != 0) {
        return unsupported("quantization.group_size", part + ": rows of " + std::to_string(cols) +
                                                          " in groups of " + std::to_string(group));
      }
      ONEPASS_ASSIGN(p.weight, stored(part + ".weight", rows, cols / 32 * bits));
      ONEPASS_ASSIGN(p.scales, stored_floats(part + ".scales", rows, cols / group));
      ONEPASS_ASSIGN(p.biases, stored_floats(part + ".biases", rows, cols / group));
      if (*p.weight.dtype != DType::u32 || p.biases.dtype != p.scales.dtype) {
        return io::fail_at(ErrorCode::parse, "is " + p.weight.type + ", expected U32", p.weight.at,
                           p.weight.name);
      }
      p.type = DType::f16;
    } else {
      ONEPASS_ASSIGN(p.weight, stored_floats(part + ".weight", rows, cols));
      p.type = *p.weight.dtype;
    }
    parts_.push_back(std::move(p));
    if (!source_.find(part + ".bias")) return {};
    return vector(part + ".bias", rows, paired);
  }

  void factors(const char* name, const std::vector<float>& values) {
    if (values.empty()) return;
    Part p{.name = name, .cols = values.size()};
    p.values = values;
    parts_.push_back(std::move(p));
  }

  // A tensor that the new file has no place for is an error.
  Status check_all_used() const {
    const io::SafetensorsFile& file = source_.file();
    for (std::size_t i = 0; i < file.n_shards(); ++i) {
      for (const io::Safetensor& t : file.shard(i).tensors()) {
        const std::string name(t.name);
        const bool derived = name.ends_with("rotary_emb.inv_freq");
        const bool tied_head = name.starts_with("lm_head.") && !source_.find("output.weight");
        if (used_.contains(name) || derived || tied_head) continue;
        return io::fail_at(ErrorCode::unsupported, "there is no place for it in a GGUF file", t.at,
                           io::clipped(name));
      }
    }
    return {};
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
    if (!p.values.empty()) {
      std::copy(p.values.begin(), p.values.end(), out.begin());
      return {};
    }
    const DType type = *p.weight.dtype;
    const std::uint64_t size = info(type).block_bytes;
    std::vector<std::byte> bytes(out.size() * static_cast<std::size_t>(size));
    ONEPASS_TRY(source_.read(p.weight, first * p.cols * size, bytes));
    return rows_to_f32(type, bytes, out);
  }

  Status read_affine(const Part& p, std::uint64_t first, std::span<float> out) const {
    const std::uint32_t bits = p.affine->bits, group = p.affine->group_size;
    const DType type = *p.scales.dtype;
    const std::size_t rows = out.size() / static_cast<std::size_t>(p.cols);
    const std::size_t groups = rows * static_cast<std::size_t>(p.cols / group);
    const std::size_t group_bytes = std::size_t{group} / 8 * bits;
    std::vector<std::byte> numbers(groups * group_bytes);
    std::vector<std::byte> raw(groups * info(type).block_bytes);
    std::vector<float> scales(groups), biases(groups);
    const std::uint64_t first_group = first * (p.cols / group);
    ONEPASS_TRY(source_.read(p.weight, first_group * group_bytes, numbers));
    ONEPASS_TRY(source_.read(p.scales, first_group * info(type).block_bytes, raw));
    ONEPASS_TRY(rows_to_f32(type, raw, scales));
    ONEPASS_TRY(source_.read(p.biases, first_group * info(type).block_bytes, raw));
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
  std::set<std::string> used_;
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

Status set_rope(const ModelConfig& c, const std::string& prefix, io::GgufOutput& out) {
  const RopeConfig& r = c.rope;
  ONEPASS_TRY(out.set(prefix + "rope.dimension_count", r.dims));
  ONEPASS_TRY(out.set(prefix + "rope.freq_base", r.base));
  if (c.window > 0) ONEPASS_TRY(out.set(prefix + "rope.freq_base_swa", r.base_local));
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

Status set_config(const ModelConfig& c, io::GgufOutput& out) {
  const std::string prefix = std::string(c.architecture->name) + ".";
  const std::pair<const char*, std::uint32_t> numbers[] = {
      {"block_count", c.n_layers},
      {"context_length", c.context},
      {"embedding_length", c.dim},
      {"feed_forward_length", c.ffn_dim},
      {"attention.head_count", c.n_heads},
      {"attention.head_count_kv", c.n_kv_heads},
      {"attention.key_length", c.head_dim},
      {"attention.value_length", c.head_dim},
      {"vocab_size", c.vocab}};
  for (const auto& [key, value] : numbers) ONEPASS_TRY(out.set(prefix + key, value));
  ONEPASS_TRY(out.set(prefix + "attention.layer_norm_rms_epsilon", c.norm_eps));
  ONEPASS_TRY(set_rope(c, prefix, out));
  if (c.attention_softcap > 0.0f) {
    ONEPASS_TRY(out.set(prefix + "attn_logit_softcapping", c.attention_softcap));
  }
  if (c.final_softcap > 0.0f) {
    ONEPASS_TRY(out.set(prefix + "final_logit_softcapping", c.final_softcap));
  }
  if (c.architecture->window_period == 0) return {};
  ONEPASS_TRY(out.set(prefix + "attention.sliding_window", c.window));
  if (c.window == 0) return {};
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
    stream.rows = p.rows == 0 ? 1 : p.rows;
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
      const std::uint64_t dims[] = {p.cols, p.rows};
      const io::GgmlType& type = *io::ggml_type(static_cast<std::uint32_t>(info(p.type).ggml_id));
      ONEPASS_TRY(out.add_tensor(p.name, type, std::span(dims).first(p.rows == 0 ? 1 : 2)));
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
