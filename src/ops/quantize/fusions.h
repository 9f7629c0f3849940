#pragma once

#include "onepass/dispatch.h"
#include "ops/quantize/params.h"

namespace onepass::ops {

// Whether a quantize to q8a takes exactly this matrix.
inline bool quantizes(const Dispatch& quantize, const View& matrix, std::uint64_t rows,
                      std::uint64_t cols) noexcept {
  const auto p = quantize.params_as<QuantizeParams>();
  return quantize.format == DType::q8a && quantize.views[0] == matrix && p.rows == rows &&
         p.cols == cols;
}

}  // namespace onepass::ops
