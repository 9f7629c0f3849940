#include "model/quantize_file.h"

#include <algorithm>

#include "core/guarded.h"
#include "core/workspace.h"
#include "io/gguf_output.h"
#include "model/file_rows.h"
#include "model/weight_plan.h"

namespace onepass::llm {
namespace {

constexpr std::uint64_t copy_bytes = 4u << 20;

bool is_precise(DType type) noexcept { return !is_block_format(type) || type == DType::q8_0; }

// Whether the importance of its columns is known.
Result<bool> is_known(const io::GgufTensor& t, const QuantizeOptions& options) {
  if (options.imatrix == nullptr) return false;
  const auto entry = options.imatrix->entries.find(t.name);
  if (entry == options.imatrix->entries.end()) return false;
  const std::size_t n = entry->second.sums.size();
  if (n == t.dims[0] * t.dims[2] * t.dims[3]) return true;
  return io::fail_at(ErrorCode::invalid_argument,
                     "has " + std::to_string(t.dims[0]) + " columns in " +
                         std::to_string(t.dims[2] * t.dims[3]) +
                         " matrices, the importance matrix has " + std::to_string(n) +
                         " for it: it is of another model",
                     t.at, io::clipped(t.name));
}

Status refuse_unknown(const QuantizePlan& plan) {
  for (const PlannedTensor& p : plan.tensors) {
    if (!p.needs_importance) continue;
    return io::fail_at(
        ErrorCode::invalid_argument,
        "becomes " + p.to +
            ", which needs an importance matrix of it: `onepass imatrix -m MODEL -f TEXT -o "
            "imatrix.gguf` makes one, `quantize --imatrix imatrix.gguf` takes it",
        Error::no_offset, io::clipped(p.name));
  }
  return {};
}

// As llama-quantize leaves them.
Status set_importance(const QuantizeOptions& options, io::GgufOutput& out) {
  if (options.imatrix == nullptr) return {};
  const Imatrix& m = *options.imatrix;
  ONEPASS_TRY(out.set("quantize.imatrix.file", options.imatrix_path));
  if (!m.datasets.empty()) ONEPASS_TRY(out.set("quantize.imatrix.dataset", m.datasets.front()));
  ONEPASS_TRY(
      out.set("quantize.imatrix.entries_count", static_cast<std::uint32_t>(m.entries.size())));
  if (m.chunks > 0) ONEPASS_TRY(out.set("quantize.imatrix.chunks_count", m.chunks));
  return {};
}

Result<PlannedTensor> plan_tensor(const io::GgufTensor& t, const MixModel& model,
                                  const QuantizeOptions& options) {
  PlannedTensor p;
  p.name = t.name;
  p.from = p.to = t.type->name;
  p.to_id = t.type->id;
  p.dims = t.dims;
  p.n_dims = t.n_dims;
  p.values = 1;
  for (std::uint32_t d = 0; d < t.n_dims; ++d) p.values *= t.dims[d];  // parse() checked it
  p.from_bytes = p.to_bytes = t.bytes;
  if (!is_quantized_part(t.name, t.n_dims)) return p;

  const DType to = mix_type(*options.mix, model, t.name, t.dims[0]);
  const std::optional<DType> from = dtype_from_ggml_id(t.type->id);
  if (from && *from == to) return p;
  if (!from || !has_file_rows(*from)) {
    return io::fail_at(ErrorCode::unsupported, p.from + " cannot be read as numbers", t.at, p.name);
  }
  if (!is_precise(*from) && !options.requantize) {
    return io::fail_at(ErrorCode::invalid_argument,
                       "is " + p.from +
                           " already, and quantizing twice loses twice: take a file of f32, f16, "
                           "bf16 or q8_0, or ask for it with --requantize",
                       t.at, p.name);
  }
  p.to_id = static_cast<std::uint32_t>(info(to).ggml_id);
  p.to = io::ggml_type(p.to_id)->name;
  p.to_bytes = *storage_bytes(to, p.values);
  ONEPASS_ASSIGN(p.weighed, is_known(t, options));
  p.needs_importance = !p.weighed && needs_importance(*options.mix, t.name, to);
  return p;
}

Status copy_tensor(const io::GgufFile& file, const io::TensorSource& from, io::GgufOutput& out) {
  Workspace memory;
  for (std::uint64_t at = 0; at < from.info->bytes; at += copy_bytes) {
    const std::uint64_t n = std::min(copy_bytes, from.info->bytes - at);
    const std::span<std::byte> bytes = memory.take(static_cast<std::size_t>(n));
    ONEPASS_TRY(file.read(from, at, bytes));
    ONEPASS_TRY(out.write(bytes));
  }
  return {};
}

}  // namespace

Result<QuantizePlan> plan_quantize(const io::GgufFile& file, const QuantizeOptions& options) {
  return guarded([&]() -> Result<QuantizePlan> {
    if (options.mix == nullptr) return fail(ErrorCode::invalid_argument, "quantize: no type");
    // What could not be run would not be seen to be wrong either.
    ONEPASS_ASSIGN(const ModelConfig config, read_config(file.metadata()));
    ONEPASS_ASSIGN(const WeightPlan weights, plan_weights(config, GgufSource(file)));
    ONEPASS_TRY(refuse_scales(weights));
    MixModel model = mix_model(file);
    model.pure = options.pure;
    model.has_importance = options.imatrix != nullptr;
    QuantizePlan plan;
    plan.mix = options.mix;
    for (std::size_t i = 0; i < file.n_shards(); ++i) {
      for (const io::GgufTensor& t : file.shard(i).tensors()) {
        ONEPASS_ASSIGN(PlannedTensor p, plan_tensor(t, model, options));
        plan.values += p.values;
        plan.from_bytes += p.from_bytes;
        plan.to_bytes += p.to_bytes;
        plan.tensors.push_back(std::move(p));
      }
    }
    return plan;
  });
}

Status quantize_file(const io::GgufFile& file, const QuantizePlan& plan, const std::string& path,
                     const QuantizeOptions& options) {
  return guarded([&]() -> Status {
    ONEPASS_TRY(refuse_unknown(plan));
    ONEPASS_ASSIGN(io::GgufOutput out, io::GgufOutput::make(file.metadata().alignment()));
    for (const io::GgufEntry& entry : file.metadata().entries()) {
      if (!entry.key.starts_with("split.")) ONEPASS_TRY(out.copy(entry));
    }
    ONEPASS_TRY(out.set("general.file_type", plan.mix->file_type));
    ONEPASS_TRY(out.set("general.quantization_version", std::uint32_t{2}));
    ONEPASS_TRY(set_importance(options, out));
    for (const PlannedTensor& p : plan.tensors) {
      ONEPASS_TRY(
          out.add_tensor(p.name, *io::ggml_type(p.to_id), std::span(p.dims).first(p.n_dims)));
    }
    ONEPASS_TRY(out.create(path));
    std::uint64_t done = 0;
    const auto advance = [&](std::uint64_t values) -> Status {
      done += values;
      return options.progress ? options.progress(done, plan.values) : Status{};
    };
    for (const PlannedTensor& p : plan.tensors) {
      const auto from = file.find(p.name);
      if (!from || from->info->bytes != p.from_bytes) {
        return fail(ErrorCode::invalid_argument, "quantize: the plan is of another file");
      }
      if (from->info->type->id == p.to_id) {
        ONEPASS_TRY(copy_tensor(file, *from, out));
        ONEPASS_TRY(advance(p.values));
        continue;
      }
      const DType from_type = *dtype_from_ggml_id(from->info->type->id);
      const std::uint64_t row_bytes = *storage_bytes(from_type, p.dims[0]);
      Workspace memory;
      RowStream stream;
      stream.rows = p.values / p.dims[0];
      stream.cols = p.dims[0];
      stream.threads = options.threads;
      std::vector<float> means;
      if (p.weighed) means = options.imatrix->means(p.name);
      stream.importance = means;
      stream.matrix_rows = p.dims[1];
      stream.read = [&](std::uint64_t first, std::span<float> values) -> Status {
        const std::span<std::byte> bytes =
            memory.take(values.size() / static_cast<std::size_t>(p.dims[0]) *
                        static_cast<std::size_t>(row_bytes));
        ONEPASS_TRY(file.read(*from, first * row_bytes, bytes));
        ONEPASS_TRY(rows_to_f32(from_type, bytes, values));
        return advance(values.size());
      };
      const Status converted =
          convert_rows(stream, *dtype_from_ggml_id(p.to_id),
                       [&](std::span<const std::byte> part) { return out.write(part); });
      if (!converted) {
        Error e = converted.error();
        if (e.field.empty()) e.field = p.name;
        return e;
      }
    }
    return out.commit();
  });
}

}  // namespace onepass::llm
