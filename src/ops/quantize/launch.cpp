#include "ops/launch.h"

#include "ops/quantize/kernels.h"
#include "ops/quantize/params.h"

namespace onepass::ops {

Status launch_quantize(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const QuantizeParams p = d.params_as<QuantizeParams>();
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(DType::f32, p.rows, p.cols), matrix_bytes(d.format, p.rows, p.cols)}));
  const std::uint64_t block = info(d.format).block_elements;
  launch.tiles = tiles_for(product({p.rows, p.cols / block}), block);
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.rows, p.cols, 2});
  return {};
}

Status launch_dequantize(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const QuantizeParams p = d.params_as<QuantizeParams>();
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(d.format, p.rows, p.cols), matrix_bytes(DType::f32, p.rows, p.cols)}));
  const std::uint64_t block = info(d.format).block_elements;
  launch.tiles = tiles_for(product({p.rows, p.cols / block}), block);
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.rows, p.cols, 2});
  return {};
}

Status launch_dequantize_rows(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_dequantize(device, d, launch));
  const QuantizeParams p = d.params_as<QuantizeParams>();
  launch.tiles = tiles_for(p.rows, p.cols);
  return {};
}

Status launch_quantize_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_quantize(device, d, launch));
  const QuantizeParams p = d.params_as<QuantizeParams>();
  const std::uint64_t n = product({p.rows, p.cols});
  if (d.format == DType::q8a) {
    cover(launch, n / 4, 128);
  } else {
    cover(launch, n / info(d.format).block_elements, 64);
  }
  return {};
}

Status launch_dequantize_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_dequantize(device, d, launch));
  const QuantizeParams p = d.params_as<QuantizeParams>();
  cover(launch, product({p.rows, p.cols}) / 4, 256);
  return {};
}

}  // namespace onepass::ops
