#include "conformance/reference.h"

#include <algorithm>
#include <cmath>

#include "support/float64.h"

namespace onepass::conformance {

double sum_error(std::size_t n) { return (static_cast<double>(n) / 16.0 + 48.0) * f32_unit; }

Quantized quantize_activations(const Doubles& x) {
  Quantized q{Doubles(x.size()), Doubles(x.size())};
  for (std::size_t begin = 0; begin < x.size(); begin += 32) {
    float top = 0.0f;
    for (std::size_t i = begin; i < begin + 32; ++i) {
      top = std::max(top, static_cast<float>(std::abs(x[i])));
    }
    const float step = top / 127.0f;
    const float inverse = step == 0.0f ? 0.0f : 1.0f / step;
    for (std::size_t i = begin; i < begin + 32; ++i) {
      const float n = std::nearbyint(static_cast<float>(x[i]) * inverse);
      q.values[i] = static_cast<double>(std::clamp(n, -127.0f, 127.0f)) * static_cast<double>(step);
      q.steps[i] = static_cast<double>(step);
    }
  }
  return q;
}

namespace {
constexpr std::size_t q8a_block = 40;  // bytes of 32 numbers, their step and sums
}

Bytes store_q8a(const Doubles& x, std::size_t row_length) {
  const Quantized q = quantize_activations(x);
  Bytes bytes(x.size() / 32 * q8a_block);
  for (std::size_t row = 0; row < x.size() / row_length; ++row) {
    std::byte* numbers = bytes.data() + row * (row_length / 32 * q8a_block);
    std::byte* tail = numbers + row_length;
    for (std::size_t block = 0; block < row_length / 32; ++block, tail += 8) {
      const std::size_t first = row * row_length + 32 * block;
      const auto step = static_cast<float>(q.steps[first]);
      std::int16_t sums[2] = {0, 0};
      for (std::size_t i = 0; i < 32; ++i) {
        const double n = step == 0.0f ? 0.0 : q.values[first + i] / q.steps[first];
        const auto number = static_cast<std::int8_t>(std::lround(n));
        numbers[32 * block + i] = static_cast<std::byte>(number);
        sums[i / 16] = static_cast<std::int16_t>(sums[i / 16] + number);
      }
      std::memcpy(tail, &step, 4);
      std::memcpy(tail + 4, sums, 4);
    }
  }
  return bytes;
}

Doubles load_q8a(std::span<const std::byte> bytes, std::size_t row_length) {
  const std::size_t row_bytes = row_length / 32 * q8a_block;
  Doubles values;
  for (std::size_t row = 0; row < bytes.size() / row_bytes; ++row) {
    const std::byte* numbers = bytes.data() + row * row_bytes;
    const std::byte* tail = numbers + row_length;
    for (std::size_t block = 0; block < row_length / 32; ++block, tail += 8) {
      float step;
      std::int16_t sums[2];
      std::memcpy(&step, tail, 4);
      std::memcpy(sums, tail + 4, 4);
      int rest[2] = {sums[0], sums[1]};
      for (std::size_t i = 0; i < 32; ++i) {
        const auto number = static_cast<std::int8_t>(numbers[32 * block + i]);
        rest[i / 16] -= number;
        values.push_back(number * static_cast<double>(step));
      }
      if (rest[0] != 0 || rest[1] != 0) values.back() = not_a_number;
    }
  }
  return values;
}

Doubles q8a_error(const Doubles& x, const Doubles& error) {
  Doubles bound(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += 32) {
    double top = 0.0;
    for (std::size_t i = begin; i < begin + 32; ++i) top = std::max(top, std::abs(x[i]) + error[i]);
    for (std::size_t i = begin; i < begin + 32; ++i) bound[i] = error[i] + 0.50002 * top / 127.0;
  }
  return bound;
}

Doubles load_any(DType type, std::span<const std::byte> bytes, std::size_t row_length) {
  if (type == DType::q8a) return load_q8a(bytes, row_length);
  if (!is_block_format(type)) return load(type, bytes);
  const DTypeInfo& t = info(type);
  Doubles values(bytes.size() / t.block_bytes * t.block_elements), magnitudes(t.block_elements);
  for (std::size_t i = 0; i < bytes.size() / t.block_bytes; ++i) {
    decode_block(type, reinterpret_cast<const std::uint8_t*>(bytes.data()) + i * t.block_bytes,
                 values.data() + i * t.block_elements, magnitudes.data());
  }
  return values;
}

void rms_norm(const double* x, std::size_t dim, double eps, const double* w, double* y,
              double* error) {
  const double r = test::rms_factor(std::span(x, dim), eps);
  for (std::size_t i = 0; i < dim; ++i) {
    y[i] = x[i] * r * (w != nullptr ? w[i] : 1.0);
    error[i] = std::abs(y[i]) * (sum_error(dim) / 2 + 8 * f32_unit) + 0x1p-149;
  }
}

Product matmul(const Doubles& x, const Doubles* steps, const Doubles& w, const Doubles& magnitudes,
               std::size_t m, std::size_t n, std::size_t k) {
  Product p{Doubles(m * n), Doubles(m * n), Doubles(m * n)};
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double* a = x.data() + i * k;
      const double* b = w.data() + j * k;
      const double* c = magnitudes.data() + j * k;
      double sum = 0.0, magnitude = 0.0, quantization = 0.0;
      for (std::size_t e = 0; e < k; ++e) {
        sum += a[e] * b[e];
        magnitude += std::abs(a[e]) * c[e];
      }
      if (steps != nullptr) {
        const double* s = steps->data() + i * k;
        // A little over half a step: the division itself is rounded.
        for (std::size_t e = 0; e < k; ++e) quantization += 0.50002 * s[e] * std::abs(b[e]);
      }
      p.want[i * n + j] = sum;
      p.magnitude[i * n + j] = magnitude;
      p.quantization[i * n + j] = quantization;
    }
  }
  return p;
}

}  // namespace onepass::conformance
