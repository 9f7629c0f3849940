#include "run/imatrix_collector.h"

#include <cmath>
#include <set>

#include "core/guarded.h"
#include "ops/matmul/params.h"

namespace onepass::llm {
namespace {

using ops::MatmulIdParams;
using ops::MatmulParams;

void add_squares(std::span<const float> row, double* sums) {
  for (const float v : row) *sums++ += static_cast<double>(v) * static_cast<double>(v);
}

}  // namespace

Result<ImatrixCollector> ImatrixCollector::create(std::shared_ptr<const Model> model,
                                                  std::uint32_t window, bool head) {
  return guarded([&]() -> Result<ImatrixCollector> {
    ONEPASS_ASSIGN(Decoder decoder, Decoder::create(std::move(model), {.context = window}));
    ImatrixCollector c(std::move(decoder), window, head);
    c.name_weights();
    return c;
  });
}

// A tensor that a file holds in one piece and a pass multiplies with in several is named where the
// first of them lies: all take the same rows.
void ImatrixCollector::name_weights() {
  std::set<std::string> known;
  for (const LoadedPart& p : decoder_.model().parts()) {
    const bool in_layer = p.row->model == nullptr;
    if (!in_layer && !(head_ && p.row->model == &Weights::output)) continue;
    const std::string name = gguf_part(*p.row, p.layer) + std::string(p.row->suffix);
    const View& view = p.weights.weight.view;
    if (known.insert(name).second) names_[{view.buffer.index, view.offset}] = name;
  }
}

Status ImatrixCollector::add(std::span<const std::uint32_t> tokens,
                             const std::atomic<bool>* cancel) {
  return guarded([&]() -> Status {
    ONEPASS_TRY(decoder_.truncate(0));
    const auto before = [&](const Dispatch& d, const Decoder::ReadView& read) {
      return see(d, read);
    };
    ONEPASS_TRY(decoder_.observe(tokens, before, head_, cancel));
    ++windows_;
    return {};
  });
}

Status ImatrixCollector::see(const Dispatch& d, const Decoder::ReadView& read) {
  if (d.op != Op::matmul && d.op != Op::matmul_affine && d.op != Op::matmul_id) return {};
  const View& weight = d.views[ops::matmul_weight(0)];
  const auto name = names_.find({weight.buffer.index, weight.offset});
  if (name == names_.end()) return {};
  ImatrixEntry& entry = entries_[name->second];
  if (d.op == Op::matmul_id) return add_pairs(d, read, entry);
  return add_rows(d, read, entry);
}

Status ImatrixCollector::add_rows(const Dispatch& d, const Decoder::ReadView& read,
                                  ImatrixEntry& entry) {
  const auto p = d.params_as<MatmulParams>();
  const std::size_t rows = p.m, cols = p.k;
  entry.sums.resize(cols);
  entry.counts.resize(1);
  values_.resize(rows * cols);
  ONEPASS_TRY(read(d.views[ops::matmul_x], std::as_writable_bytes(std::span(values_))));
  for (std::size_t r = 0; r < rows; ++r) {
    add_squares(std::span(values_).subspan(r * cols, cols), entry.sums.data());
  }
  entry.counts[0] += rows;
  return {};
}

Status ImatrixCollector::add_pairs(const Dispatch& d, const Decoder::ReadView& read,
                                   ImatrixEntry& entry) {
  const auto p = d.params_as<MatmulIdParams>();
  const std::size_t pairs = p.product.m, cols = p.product.k;
  const std::size_t rows = p.pair_rows != 0 ? pairs : pairs / p.used;
  entry.sums.resize(p.experts * cols);
  entry.counts.resize(p.experts);
  values_.resize(rows * cols);
  ids_.resize(pairs);
  ONEPASS_TRY(read(d.views[ops::matmul_x], std::as_writable_bytes(std::span(values_))));
  ONEPASS_TRY(read(d.views[ops::matmul_ids], std::as_writable_bytes(std::span(ids_))));
  for (std::size_t i = 0; i < pairs; ++i) {
    if (ids_[i] >= p.experts) continue;  // of no expert
    const std::size_t row = p.pair_rows != 0 ? i : i / p.used;
    add_squares(std::span(values_).subspan(row * cols, cols), &entry.sums[ids_[i] * cols]);
    ++entry.counts[ids_[i]];
  }
  return {};
}

Result<Imatrix> ImatrixCollector::finish() const {
  return guarded([&]() -> Result<Imatrix> {
    for (const auto& [name, entry] : entries_) {
      for (const double sum : entry.sums) {
        if (std::isfinite(sum)) continue;
        Error e = make_error(ErrorCode::internal, "what it is multiplied with is not finite");
        e.field = name;
        return e;
      }
    }
    Imatrix matrix;
    matrix.entries = entries_;
    matrix.chunks = static_cast<std::uint32_t>(windows_);
    matrix.chunk_tokens = window_;
    return matrix;
  });
}

}  // namespace onepass::llm
