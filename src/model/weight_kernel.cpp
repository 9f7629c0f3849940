#include "model/weight_kernel.h"

#include <algorithm>
#include <cstdio>

#include "core/device_state.h"
#include "model/architecture.h"
#include "quant/packed.h"

namespace onepass::llm {
namespace {

constexpr Layout packed_layouts[] = {Layout::s16, Layout::r16};

bool has_packed_row(const DeviceState& device, Op op, DType type) noexcept {
  return std::any_of(std::begin(packed_layouts), std::end(packed_layouts), [&](Layout layout) {
    return device.find_row(op, Format{type, layout}) != nullptr;
  });
}

// A type's own kernels take packed rows, or activations in the form of its blocks. Plain numbers
// are slow as they lie where the device has a kernel for packed ones.
WeightKernel kernel_in(const DeviceState& device, Op op, Format format, const KernelRow& row) {
  const bool blocks = is_block_format(format.type);
  const bool generic = op == Op::matmul_affine ||
                       (!is_packed(format) && (blocks ? row.input == DType::f32
                                                      : has_packed_row(device, op, format.type)));
  return {format, row.name, generic};
}

}  // namespace

std::optional<WeightKernel> weight_kernel(const Device& device, Op op, DType stored,
                                          std::uint64_t cols) {
  const DeviceState& state = device.state();
  for (const Layout layout : {Layout::s16, Layout::r16, Layout::rows}) {
    const Format format{stored, layout};
    if (cols % info(format).block_elements != 0) continue;
    if (const KernelRow* row = state.find_row(op, format)) {
      return kernel_in(state, op, format, *row);
    }
  }
  return std::nullopt;
}

std::optional<WeightKernel> affine_kernel(const Device& device, const AffineFormat& format,
                                          DType scales, std::uint64_t cols) {
  const auto type = quant::affine_type(format.bits, format.group_size, scales);
  if (type) {
    if (const auto packed = weight_kernel(device, Op::matmul, *type, cols)) return packed;
  }
  const KernelRow* row = device.state().find_row(Op::matmul_affine, scales);
  if (row == nullptr) return std::nullopt;
  return kernel_in(device.state(), Op::matmul_affine, scales, *row);
}

std::optional<WeightKernel> kernel_of(const Device& device, const WeightPart& part) {
  if (part.row->form == TensorForm::vector) return std::nullopt;
  if (part.affine) {
    return affine_kernel(device, part.affine->format, *part.affine->scales.dtype, part.cols);
  }
  if (!part.weight.dtype) return std::nullopt;
  const Op op = part.experts != 0 ? Op::matmul_id : Op::matmul;
  return weight_kernel(device, op, *part.weight.dtype, part.cols);
}

std::optional<WeightKernel> kernel_of(const Device& device, const LoadedPart& part) {
  if (part.row->form == TensorForm::vector) return std::nullopt;
  const Linear& w = part.weights;
  const Op op = w.scales                   ? Op::matmul_affine
                : w.weight.shape.rank == 3 ? Op::matmul_id
                                           : Op::matmul;
  const Format format = w.scales ? Format(w.scales.dtype) : w.weight.format();
  const KernelRow* row = device.state().find_row(op, format);
  if (row == nullptr) return std::nullopt;
  return kernel_in(device.state(), op, format, *row);
}

void GenericWeights::add(const WeightKernel& kernel, const std::string& name, std::uint64_t size) {
  all_bytes += size;
  if (!kernel.generic) return;
  if (weights++ == 0) first = name;
  bytes += size;
  if (std::find(kernels.begin(), kernels.end(), kernel.name) == kernels.end()) {
    kernels.emplace_back(kernel.name);
  }
}

std::string GenericWeights::text(const Device& device) const {
  if (weights == 0) return {};
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f", 100.0 * share());
  std::string text = std::string(percent) + " % of the weight bytes (" + first;
  if (weights > 1) text += " and " + std::to_string(weights - 1) + " more";
  text += weights > 1 ? ") go" : ") goes";
  text += " through generic kernels of " + device.info().name + ":";
  for (const std::string& k : kernels) text += " " + k;
  return text;
}

GenericWeights generic_weights(const Model& model) {
  GenericWeights all;
  for (const LoadedPart& p : model.parts()) {
    const auto kernel = kernel_of(model.device(), p);
    if (!kernel) continue;
    const Linear& w = p.weights;
    all.add(*kernel, gguf_part(*p.row, p.layer),
            w.weight.view.bytes + w.scales.view.bytes + w.biases.view.bytes);
  }
  return all;
}

}  // namespace onepass::llm
