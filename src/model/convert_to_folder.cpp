#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/guarded.h"
#include "core/os.h"
#include "io/json_text.h"
#include "io/safetensors_output.h"
#include "model/architecture.h"
#include "model/convert.h"
#include "model/convert_tokenizer.h"
#include "model/file_rows.h"
#include "model/weight_plan.h"
#include "quant/affine.h"

namespace onepass::llm {
namespace {

bool is_plain(DType type) noexcept {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

const io::SafetensorsType& folder_type(DType type) {
  return *io::safetensors_type(type == DType::f32 ? "F32" : type == DType::bf16 ? "BF16" : "F16");
}

struct Part {
  StoredTensor from;
  std::string name;        // in the folder
  std::uint64_t rows = 0;  // 0: a vector
  std::uint64_t cols = 0;
  std::uint64_t experts = 0;    // of all of them together
  std::uint64_t first_row = 0;  // of the tensor in the file
  bool affine = false;
  bool paired = false;
  float add = 0.0f;

  std::uint64_t n_values() const { return all_rows() * cols; }
  std::uint64_t all_rows() const {
    return std::max<std::uint64_t>(rows, 1) * std::max<std::uint64_t>(experts, 1);
  }
  std::string module() const { return name.substr(0, name.rfind('.')); }
};

class Converter {
 public:
  Converter(const io::GgufFile& file, const ModelConfig& config, const ConvertOptions& options)
      : source_(file), c_(config), a_(*config.architecture), options_(options) {}

  Status plan() {
    ONEPASS_ASSIGN(WeightPlan plan, plan_weights(c_, source_));
    ONEPASS_TRY(refuse_scales(plan));
    for (const WeightPart& p : plan.parts) ONEPASS_TRY(add(p));
    left_out_ = std::move(plan.left_out);
    type_ = options_.type.value_or(is_plain(embedding_) ? embedding_ : DType::f16);
    return {};
  }

  const std::vector<Part>& parts() const { return parts_; }
  DType type() const { return type_; }
  bool is_tied() const { return !has_head_; }
  const std::vector<float>& rope_factors() const { return factors_[0]; }
  const std::vector<float>& short_factors() const { return factors_[1]; }
  const std::vector<float>& long_factors() const { return factors_[2]; }
  const std::vector<LeftOut>& left_out() const { return left_out_; }

  // The member of config.json, with modules that stay as they are.
  std::string quantization() const {
    if (options_.bits == 0) return {};
    std::string text = "\"quantization\": {\"group_size\": " + std::to_string(options_.group_size) +
                       ", \"bits\": " + std::to_string(options_.bits) + ", \"mode\": \"affine\"";
    for (const Part& p : parts_) {
      if (p.rows != 0 && !p.affine) text += ", " + io::json_text(p.module()) + ": false";
    }
    return text + "}";
  }

  Status write(io::SafetensorsOutput& out) const {
    std::uint64_t total = 0, done = 0;
    for (const Part& p : parts_) total += p.n_values();
    for (const Part& p : parts_) {
      RowStream stream;
      stream.rows = p.all_rows();
      stream.cols = p.cols;
      stream.multiple = p.paired && p.rows != 0 ? c_.head_dim : 1;
      stream.threads = options_.threads;
      stream.read = [&](std::uint64_t first, std::span<float> values) -> Status {
        ONEPASS_TRY(read(p, first, values));
        done += values.size();
        return options_.progress ? options_.progress(done, total) : Status{};
      };
      const Status written =
          p.affine ? write_affine(stream, out)
                   : convert_rows(stream, type_, [&](std::span<const std::byte> bytes) {
                       return out.write(bytes);
                     });
      if (!written) {
        Error e = written.error();
        if (e.field.empty()) e.field = p.name;
        return e;
      }
    }
    return {};
  }

 private:
  Status add(const WeightPart& w) {
    const StoredTensor& t = w.weight;
    if (!t.dtype || !has_file_rows(*t.dtype)) {
      return io::fail_at(ErrorCode::unsupported, t.type + " cannot be read as numbers", t.at,
                         io::clipped(t.name));
    }
    constexpr Linear Weights::*rope[] = {&Weights::rope_factors, &Weights::rope_short,
                                         &Weights::rope_long};
    for (std::size_t i = 0; i < std::size(rope); ++i) {
      if (w.row->model != nullptr && w.row->model == rope[i]) return read_factors(w, factors_[i]);
    }
    const bool pairs = pairs_rows(a_), fused = w.row->into[1].weights == &LayerWeights::k;
    if (a_.model_types.empty() || w.row->hf.empty() || (pairs && fused)) {
      return io::fail_at(ErrorCode::unsupported, "there is no place for it in a folder", t.at,
                         io::clipped(t.name));
    }
    if (w.row->model == &Weights::output) has_head_ = true;
    if (w.row->model == &Weights::embedding) embedding_ = *t.dtype;
    const std::vector<std::string> names = folder_parts(*w.row, w.layer);
    // MLX has all experts in one tensor.
    const auto stacked = std::find_if(names.begin(), names.end(),
                                      [](const std::string& name) { return !has_pieces(name); });
    const bool as_mlx = options_.bits != 0 && w.experts != 0 && stacked != names.end();
    add_pieces(w, as_mlx ? *stacked : names.front());
    return {};
  }

  void add_pieces(const WeightPart& w, const std::string& module) {
    const TensorRow& row = *w.row;
    const bool whole = row.suffix != ".weight", several = has_pieces(module);
    Part p{.from = w.weight,
           .name = {},
           .rows = several && w.experts == 0 ? 0 : w.rows,
           .cols = w.cols,
           .experts = several ? 0 : w.experts,
           .paired = pairs_rows(a_) && row.transform == Transform::paired,
           .add = row.transform == Transform::plus_one ? -1.0f : 0.0f};
    p.affine = options_.bits != 0 && p.rows != 0 && !row.plain && p.cols % options_.group_size == 0;
    const std::uint32_t n = several ? piece_count(row, c_, w.layer) : 1;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::string name = piece_name(module, i);
      p.name = whole ? name : name + std::string(row.suffix);
      p.first_row = i * std::max<std::uint64_t>(p.rows, 1);
      if (w.bias) {
        parts_.push_back({.from = *w.bias,
                          .name = name + ".bias",
                          .cols = w.rows != 0 ? w.rows : w.cols,
                          .first_row = i,
                          .paired = p.paired});
      }
      parts_.push_back(p);
    }
  }

  Status read_factors(const WeightPart& w, std::vector<float>& values) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(w.weight.bytes));
    values.resize(w.cols);
    ONEPASS_TRY(source_.read(w.weight, 0, bytes));
    return rows_to_f32(*w.weight.dtype, bytes, values);
  }

  Status read(const Part& p, std::uint64_t first, std::span<float> out) const {
    const std::uint64_t row_bytes = *storage_bytes(*p.from.dtype, p.cols);
    std::vector<std::byte> bytes(out.size() / static_cast<std::size_t>(p.cols) *
                                 static_cast<std::size_t>(row_bytes));
    ONEPASS_TRY(source_.read(p.from, (p.first_row + first) * row_bytes, bytes));
    ONEPASS_TRY(rows_to_f32(*p.from.dtype, bytes, out));
    if (p.add != 0.0f) {
      for (float& v : out) v += p.add;
    }
    if (p.paired) unpair_head_rows(out, c_.head_dim, p.rows == 0 ? 1 : p.cols);
    return {};
  }

  // The numbers as they come; scales and biases, of which there are few, after them.
  Status write_affine(const RowStream& stream, io::SafetensorsOutput& out) const {
    const std::size_t group = options_.group_size, group_bytes = group / 8 * options_.bits;
    std::vector<float> scales, biases;
    std::vector<std::byte> bytes;
    ONEPASS_TRY(for_each_rows(stream, [&](std::uint64_t, std::span<float> values) -> Status {
      for (const float v : values) {
        if (!std::isfinite(v)) return fail(ErrorCode::parse, "has a value that is not finite");
      }
      const std::size_t n = values.size() / group;
      bytes.resize(n * group_bytes);
      for (std::size_t g = 0; g < n; ++g) {
        const quant::AffineGroup fit = quant::affine_quantize(
            static_cast<int>(options_.bits), values.data() + g * group, static_cast<int>(group),
            reinterpret_cast<std::uint8_t*>(bytes.data()) + g * group_bytes);
        scales.push_back(fit.scale);
        biases.push_back(fit.bias);
      }
      return out.write(bytes);
    }));
    for (const std::vector<float>* list : {&scales, &biases}) {
      bytes.resize(list->size() * info(type_).block_bytes);
      ONEPASS_TRY(rows_from_f32(type_, *list, options_.threads, bytes));
      ONEPASS_TRY(out.write(bytes));
    }
    return {};
  }

  const GgufSource source_;
  const ModelConfig& c_;
  const Architecture& a_;
  const ConvertOptions& options_;
  std::vector<Part> parts_;
  std::vector<float> factors_[3];
  std::vector<LeftOut> left_out_;
  bool has_head_ = false;
  DType embedding_ = DType::f16;
  DType type_ = DType::f16;
};

Status add_tensors(const Converter& converter, const ConvertOptions& options,
                   io::SafetensorsOutput& out, ConvertReport& report) {
  const io::SafetensorsType& type = folder_type(converter.type());
  const auto add = [&](const std::string& name, const io::SafetensorsType& t,
                       std::span<const std::uint64_t> dims) -> Status {
    std::uint64_t n = 1;
    for (const std::uint64_t d : dims) n *= d;
    ++report.tensors;
    report.bytes += n * t.bytes;
    return out.add_tensor(name, t, dims);
  };
  for (const Part& p : converter.parts()) {
    report.values += p.n_values();
    std::vector<std::uint64_t> dims{p.cols};
    if (p.rows != 0) dims.insert(dims.begin(), p.rows);
    if (p.experts != 0) dims.insert(dims.begin(), p.experts);
    if (!p.affine) {
      ONEPASS_TRY(add(p.name, type, dims));
      continue;
    }
    std::vector<std::uint64_t> words = dims, groups = dims;
    words.back() = p.cols / 32 * options.bits;
    groups.back() = p.cols / options.group_size;
    ONEPASS_TRY(add(p.name, *io::safetensors_type("U32"), words));
    ONEPASS_TRY(add(p.module() + ".scales", type, groups));
    ONEPASS_TRY(add(p.module() + ".biases", type, groups));
  }
  return {};
}

Status check_options(const ConvertOptions& options) {
  if (options.type && !is_plain(*options.type)) {
    return fail(ErrorCode::invalid_argument,
                std::string("a folder has f32, f16 or bf16, not ") + name(*options.type));
  }
  const std::uint32_t b = options.bits, g = options.group_size;
  if (b != 0 && !quant::is_affine_bits(b)) {
    return fail(ErrorCode::invalid_argument,
                std::to_string(b) + " bits, expected " + quant::affine_bits_names);
  }
  if (!quant::is_affine_group(g)) {
    return fail(ErrorCode::invalid_argument,
                "groups of " + std::to_string(g) + ", expected " + quant::affine_group_names);
  }
  return {};
}

}  // namespace

void unpair_head_rows(std::span<float> values, std::uint64_t head_dim, std::uint64_t cols) {
  const auto half = static_cast<std::size_t>(head_dim / 2), row = static_cast<std::size_t>(cols);
  std::vector<float> head(2 * half * row);
  for (std::size_t at = 0; at + head.size() <= values.size(); at += head.size()) {
    float* to = values.data() + at;
    std::copy_n(to, head.size(), head.begin());
    for (std::size_t i = 0; i < half; ++i) {
      std::copy_n(head.data() + 2 * i * row, row, to + i * row);
      std::copy_n(head.data() + (2 * i + 1) * row, row, to + (half + i) * row);
    }
  }
}

Result<ConvertReport> gguf_to_folder(const std::string& path, const std::string& folder,
                                     const ConvertOptions& options) {
  return guarded([&]() -> Result<ConvertReport> {
    ONEPASS_TRY(check_options(options));
    ONEPASS_ASSIGN(const io::GgufFile file, io::GgufFile::open(path));
    ONEPASS_ASSIGN(ModelConfig config, read_config(file.metadata()));
    Converter converter(file, config, options);
    ONEPASS_TRY(converter.plan());
    config.rope.short_factors = converter.short_factors();
    config.rope.long_factors = converter.long_factors();
    ConvertReport report;
    report.architecture = config.architecture->name;
    report.left_out = converter.left_out();
    ONEPASS_ASSIGN(const std::string json,
                   config_json(config, file.metadata(), converter.rope_factors(), converter.type(),
                               converter.is_tied(), converter.quantization()));
    io::SafetensorsOutput out;
    ONEPASS_TRY(add_tensors(converter, options, out, report));
    ONEPASS_ASSIGN(os::AtomicFolder target, os::AtomicFolder::create(folder));
    ONEPASS_TRY(os::write_file(target.path() + "/config.json", json));
    if (options.tokenizer) {
      ONEPASS_ASSIGN(report.tokenizer, tokenizer_to_folder(file.metadata(), target.path()));
    }
    ONEPASS_TRY(out.create(target.path() + "/model.safetensors"));
    ONEPASS_TRY(converter.write(out));
    ONEPASS_TRY(out.commit());
    ONEPASS_TRY(target.commit());
    return report;
  });
}

}  // namespace onepass::llm
