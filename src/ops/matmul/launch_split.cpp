// Products whose weights are larger than one binding, as launches over rows of the weights.
#include <algorithm>

#include "core/launch_list.h"
#include "onepass/device.h"
#include "ops/launch.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "ops/move/params.h"

namespace onepass::ops {
namespace {

View part_of(const View& view, std::uint64_t begin, std::uint64_t bytes) {
  return {view.buffer, view.offset + begin, bytes};
}

// Output columns [first, first + n) of a product of m rows, whose whole rows have n_all columns.
// One row is a piece of memory; several go through scratch and are put into their columns.
class Columns {
 public:
  Columns(const Dispatch& whole, const View& out, std::uint32_t m, std::uint32_t n_all)
      : whole_(whole), out_(out), m_(m), n_all_(n_all) {}

  View target(std::uint32_t first, std::uint32_t n, LaunchList& launches) const {
    if (m_ == 1) return part_of(out_, std::uint64_t{first} * 4, std::uint64_t{n} * 4);
    return launches.scratch(product({m_, n, 4}));
  }
  void finish(const View& target, std::uint32_t first, std::uint32_t n,
              LaunchList& launches) const {
    if (m_ == 1) return;
    Dispatch put = make_dispatch(Op::put, DType::f32);
    put.file = whole_.file;
    put.line = whole_.line;
    put.set_params(ColumnsParams{m_, 0, 4 * n, 4 * first, 4 * n_all_, 4 * n});
    put.bind(target);
    put.bind(out_);
    launches.add(put);
  }

 private:
  const Dispatch& whole_;
  const View& out_;
  std::uint32_t m_, n_all_;
};

// Rows in `units` of so many bytes each: how many fit one binding, 0: not even a unit.
std::uint32_t rows_that_fit(const DeviceInfo& device, std::uint32_t unit, std::uint64_t bytes) {
  const std::uint64_t units = device.max_binding_bytes / std::max<std::uint64_t>(bytes, 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(units * unit, 1u << 30));
}

}  // namespace

Status lower_matmul(const DeviceInfo& device, const Dispatch& d, LaunchList& launches) {
  if (d.views[matmul_weight(0)].bytes <= device.max_binding_bytes) return {};
  auto p = d.params_as<MatmulParams>();
  if (p.form != 0) return {};
  const std::uint32_t unit = is_packed(d.format) ? 16 : 1;  // rows that lie together
  const std::uint64_t unit_bytes = matrix_bytes(d.format, unit, p.k);
  const std::uint32_t rows = rows_that_fit(device, unit, unit_bytes);
  if (rows == 0) return {};
  const Columns columns(d, d.views[matmul_out(0)], p.m, p.n0);
  const std::uint32_t n_all = p.n0;
  for (std::uint32_t first = 0; first < n_all; first += rows) {
    const std::uint32_t n = std::min(rows, n_all - first);
    const View target = columns.target(first, n, launches);
    Dispatch part = d;
    p.n0 = n;
    part.set_params(p);
    part.views[matmul_weight(0)] = part_of(d.views[matmul_weight(0)], first / unit * unit_bytes,
                                           matrix_bytes(d.format, n, p.k));
    part.views[matmul_out(0)] = target;
    launches.add(part);
    columns.finish(target, first, n, launches);
  }
  return {};
}

Status lower_matmul_affine(const DeviceInfo& device, const Dispatch& d, LaunchList& launches) {
  if (d.views[matmul_weight(0)].bytes <= device.max_binding_bytes) return {};
  auto params = d.params_as<MatmulAffineParams>();
  MatmulParams& p = params.product;
  if (p.form != 0) return {};
  const std::uint64_t row_bytes = std::uint64_t{p.k} * params.bits / 8;
  const std::uint64_t groups = matrix_bytes(d.format, 1, p.k / std::max(params.group_size, 1u));
  const std::uint32_t rows = rows_that_fit(device, 1, row_bytes);
  if (rows == 0) return {};
  const Columns columns(d, d.views[matmul_out(0)], p.m, p.n0);
  const std::uint32_t n_all = p.n0;
  for (std::uint32_t first = 0; first < n_all; first += rows) {
    const std::uint32_t n = std::min(rows, n_all - first);
    const View target = columns.target(first, n, launches);
    Dispatch part = d;
    p.n0 = n;
    part.set_params(params);
    part.views[matmul_weight(0)] =
        part_of(d.views[matmul_weight(0)], first * row_bytes, n * row_bytes);
    for (const op_u32 slot : {matmul_scales, matmul_biases}) {
      part.views[slot] = part_of(d.views[slot], first * groups, n * groups);
    }
    part.views[matmul_out(0)] = target;
    launches.add(part);
    columns.finish(target, first, n, launches);
  }
  return {};
}

Status lower_matmul_id(const DeviceInfo& device, const Dispatch& d, LaunchList& launches) {
  if (d.views[matmul_weight(0)].bytes <= device.max_binding_bytes) return {};
  const auto p = d.params_as<MatmulIdParams>();
  if (p.product.form != 0) return {};
  const std::uint64_t expert = matrix_bytes(d.format, p.product.n0, p.product.k);
  const auto fit = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      device.max_binding_bytes / std::max<std::uint64_t>(expert, 1), p.experts));
  if (fit == 0) return {};
  for (std::uint32_t first = 0; first < p.experts; first += fit) {
    const std::uint32_t count = std::min(fit, p.experts - first);
    MatmulIdParams params = p;
    params.first_expert = first;
    params.bound_experts = count;
    Dispatch part = d;
    part.set_params(params);
    part.views[matmul_weight(0)] =
        part_of(d.views[matmul_weight(0)], first * expert, count * expert);
    launches.add(part);
  }
  return {};
}

}  // namespace onepass::ops
