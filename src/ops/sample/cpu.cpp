#include "ops/shared/cpu.h"

#include <limits>

#include "core/kernel_row.h"
#include "ops/sample/cpu_select.h"
#include "ops/sample/kernels.h"
#include "ops/sample/params.h"
#include "ops/shared/philox.h"

namespace onepass::ops {
namespace {

bool every_row(std::uint32_t) noexcept { return true; }

void argmax(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ArgmaxParams>();
  std::uint32_t* out = a.ptr<std::uint32_t>(1);
  const auto done = [out](std::uint32_t row, const SelectKey* keys, std::uint32_t) {
    out[row] = key_id(keys[0]);
  };
  select_rows(a, a.ptr<const float>(0), p.rows, p.cols, 1, 1.0f, every_row, done);
}

void argsort(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ArgmaxParams>();
  std::uint32_t* out = a.ptr<std::uint32_t>(1);
  const auto done = [out](std::uint32_t row, const SelectKey* keys, std::uint32_t count) {
    std::uint32_t* to = out + std::uint64_t{row} * count;
    for (std::uint32_t i = 0; i < count; ++i) to[i] = key_id(keys[i]);
  };
  select_rows(a, a.ptr<const float>(0), p.rows, p.cols, p.cols, 1.0f, every_row, done);
}

void top_k(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<TopKParams>();
  const float* x = a.ptr<const float>(0);
  float* values = a.ptr<float>(1);
  std::uint32_t* ids = a.ptr<std::uint32_t>(2);
  const std::uint64_t cols = p.cols;
  const auto done = [=](std::uint32_t row, const SelectKey* keys, std::uint32_t count) {
    const std::uint64_t at = std::uint64_t{row} * count;
    for (std::uint32_t i = 0; i < count; ++i) {
      ids[at + i] = key_id(keys[i]);
      values[at + i] = x[row * cols + ids[at + i]];
    }
  };
  select_rows(a, x, p.rows, p.cols, p.k, 1.0f, every_row, done);
}

// The token drawn with u in [0, 1) from sorted, scaled logits. The weight of each, relative to the
// first, takes the place of its logit in the key.
std::uint32_t draw(SelectKey* keys, std::uint32_t count, float top_p, float min_p,
                   float u) noexcept {
  const float largest = key_value(keys[0]);
  if (!(largest > -std::numeric_limits<float>::infinity())) return key_id(keys[0]);
  float sum = 0.0f;
  for (std::uint32_t i = 0; i < count; ++i) {
    const float logit = key_value(keys[i]);
    float weight = logit == largest ? 1.0f : op_exp(logit - largest);
    if (weight != weight) weight = 0.0f;
    sum += weight;
    keys[i] = SelectKey{op_to_bits(weight)} << 32 | static_cast<std::uint32_t>(keys[i]);
  }
  const auto weight_of = [keys](std::uint32_t i) {
    return op_from_bits(static_cast<std::uint32_t>(keys[i] >> 32));
  };

  std::uint32_t kept = count;
  if (top_p < 1.0f) {
    float reached = 0.0f;
    for (kept = 0; kept < count && !(kept > 0 && reached >= top_p);) {
      reached += weight_of(kept++) / sum;
    }
  }
  if (min_p > 0.0f) {
    const float floor = min_p * (1.0f / sum);
    std::uint32_t n = 1;
    while (n < kept && weight_of(n) / sum >= floor) ++n;
    kept = n;
  }

  float total = 0.0f;
  for (std::uint32_t i = 0; i < kept; ++i) total += weight_of(i);
  const float target = u * total;
  float passed = 0.0f;
  for (std::uint32_t i = 0; i < kept; ++i) {
    passed += weight_of(i);
    if (passed > target) return key_id(keys[i]);
  }
  return key_id(keys[kept - 1]);
}

void sample(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<SampleParams>();
  const StepReader step(a.data[1], a.bytes[1]);
  const StepHeader header = step.header();
  const bool greedy = p.temperature == 0.0f;
  std::uint32_t* out = a.ptr<std::uint32_t>(2);
  const auto active = [&](std::uint32_t row) { return row < step.n_rows(); };
  const auto done = [&](std::uint32_t row, SelectKey* keys, std::uint32_t count) {
    if (greedy) {
      out[row] = key_id(keys[0]);
      return;
    }
    const StepRow at = step.row(row);
    const OpPhilox bits =
        op_philox(OpPhilox{at.position, at.slot, 0, 0}, header.seed_lo, header.seed_hi);
    out[row] = draw(keys, count, p.top_p, p.min_p, op_unit(bits.x));
  };
  select_rows(a, a.ptr<const float>(0), p.rows, p.cols,
              sample_keeps(p.cols, p.top_k, p.temperature), greedy ? 1.0f : p.temperature, active,
              done);
}

void step_advance(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<StepAdvanceParams>();
  const StepReader step(a.data[1], a.bytes[1]);
  for (std::uint32_t r = 0; r < p.rows && r < step.n_rows(); ++r) {
    StepRow row = step.row(r);
    row.token = a.ptr<const std::uint32_t>(0)[r];
    ++row.position;
    std::memcpy(a.data[1] + step.row_offset(r), &row, sizeof(row));
    if (p.history != 0) {
      a.ptr<std::uint32_t>(2)[std::size_t{r} * p.history + row.position % p.history] = row.token;
    }
    if (row.slot >= step.n_slots()) continue;
    StepSlot slot = step.slot(row.slot);
    ++slot.kv_length;
    std::memcpy(a.data[1] + step.slot_offset(row.slot), &slot, sizeof(slot));
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::argmax, DType::f32, "argmax_f32", launch_argmax, argmax),
    cpu_row(Op::argsort, DType::f32, "argsort_f32", launch_argsort, argsort),
    cpu_row(Op::top_k, DType::f32, "top_k_f32", launch_top_k, top_k),
    cpu_row(Op::sample, DType::f32, "sample_f32", launch_sample, sample),
    cpu_row(Op::step_advance, DType::u32, "step_advance", launch_step_advance, step_advance),
};

}  // namespace

std::span<const KernelRow> sample_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
