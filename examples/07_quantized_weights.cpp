// Weights in blocks: a product with f32 weights, and with the same ones in fewer bits.
#include <cmath>
#include <cstdio>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

using namespace onepass;

namespace {

constexpr std::uint32_t rows = 64, cols = 256;

Result<std::vector<float>> product(const Device& device, const Tensor& x, const Tensor& weight,
                                   DType type) {
  const Shape shape{rows, cols};
  ONEPASS_ASSIGN(const Buffer packed, device.allocate(*storage_bytes(type, shape)));
  ONEPASS_ASSIGN(const Buffer y, device.allocate(rows * sizeof(float)));
  const Tensor w = type == DType::f32 ? weight : packed.tensor(type, shape);
  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  if (type != DType::f32) ops::quantize(s, {.x = weight, .out = w});
  ops::matmul(s, {.x = x, .weight = w, .out = y.tensor(DType::f32, {1, rows})});
  ONEPASS_TRY(s.finish());
  std::vector<float> out(rows);
  ONEPASS_TRY(device.read_as<float>(y.view(), out));
  return out;
}

Status run() {
  ONEPASS_ASSIGN(const Device device, Device::open("cpu"));
  ONEPASS_ASSIGN(const Buffer x, device.allocate(cols * sizeof(float)));
  ONEPASS_ASSIGN(const Buffer w, device.allocate(rows * cols * sizeof(float)));
  std::vector<float> values(rows * cols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.37f * float(i));
  ONEPASS_TRY(device.write_as<float>(w.view(), values));
  ONEPASS_TRY(device.write_as<float>(x.view(), std::span(values).first(cols)));
  const Tensor xt = x.tensor(DType::f32, {1, cols}), wt = w.tensor(DType::f32, {rows, cols});
  ONEPASS_ASSIGN(const std::vector<float> exact, product(device, xt, wt, DType::f32));

  for (const DType type : {DType::f32, DType::q8_0, DType::q5_1, DType::q4_0}) {
    ONEPASS_ASSIGN(const std::vector<float> out, product(device, xt, wt, type));
    double error = 0.0, power = 0.0;
    for (std::uint32_t i = 0; i < rows; ++i) {
      error += std::pow(double(out[i]) - double(exact[i]), 2.0);
      power += std::pow(double(exact[i]), 2.0);
    }
    std::printf("%-5s %5.2f bits a weight, error %.1e of the result\n", name(type),
                8.0 * double(info(type).block_bytes) / info(type).block_elements,
                std::sqrt(error / power));
    if (!(error < 0.05 * power)) return fail(ErrorCode::internal, "too far off");
  }
  return {};
}

}  // namespace

int main() {
  const Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
