// The ops in float64 and the block formats from their definitions: plain loops, nothing of src/ops
// or of src/quant but the packing of weights under test.
#pragma once

#include "conformance/numbers.h"

namespace onepass::conformance {

// Weights [n, k]: values, and per value the sum of the magnitudes it is made of.
struct Weights {
  Bytes bytes;
  Doubles values;
  Doubles magnitudes;
};

// Elements of rows in a format that is not packed, any code patterns.
Weights random_weights(Random& random, DType format, std::size_t n_rows, std::size_t n_cols);
// Weights of any format, packed ones by the library from rows of the native format; groups of
// n_rows lie one behind the other.
Weights any_weights(Random& random, Format format, std::size_t n_groups, std::size_t n_rows,
                    std::size_t n_cols);
// Decodes one block.
void decode_block(DType format, const std::uint8_t* block, double* values, double* magnitudes);

// MLX: a stream of numbers per row and per group a scale and a bias.
struct AffineWeights {
  Bytes stream, scales, biases;
  Doubles values, magnitudes;
};
AffineWeights random_affine(Random& random, DType scale_type, std::size_t n_rows,
                            std::size_t n_cols, std::uint32_t bits, std::uint32_t group);

// Rows of k values quantized to 8 bits per 32: f32 step = absmax / 127, to nearest even.
struct Quantized {
  Doubles values;
  Doubles steps;  // by value
};
Quantized quantize_activations(const Doubles& x);

// The same as stored: per row its numbers as bytes, then per 32 of them the step as f32 and the
// sums of both halves as i16.
Bytes store_q8a(const Doubles& x, std::size_t row_length);
// NaN where a sum does not belong to its numbers.
Doubles load_q8a(std::span<const std::byte> bytes, std::size_t row_length);
// Largest error of storing rows that are themselves off by at most `error`: half a step.
Doubles q8a_error(const Doubles& x, const Doubles& error);

// Values of any operand that is not packed.
Doubles load_any(DType type, std::span<const std::byte> bytes, std::size_t row_length);

// out[m, n] with the terms of its error model.
struct Product {
  Doubles want, magnitude;  // sum x w, sum |x| |w|
  Doubles quantization;     // sum |w| step / 2
};
Product matmul(const Doubles& x, const Doubles* steps, const Doubles& w, const Doubles& magnitudes,
               std::size_t m, std::size_t n, std::size_t k);
// The factor c u of the error model for sums of n terms.
double sum_error(std::size_t n);

// y and its error: the sum of squares is off by sum_error(dim), its root by half of that. w may be
// null.
void rms_norm(const double* x, std::size_t dim, double eps, const double* w, double* y,
              double* error);

}  // namespace onepass::conformance
