// Parameters of products for tests that run kernels by hand.
#pragma once

#include <cstdint>

#include "ops/matmul/params.h"

namespace onepass::test {

// Of m rows; n1, n2: of further parts, which form_parts has to name.
inline ops::MatmulParams product(std::uint32_t m, std::uint32_t n, std::uint32_t k,
                                 std::uint32_t form = 0, std::uint32_t n1 = 0,
                                 std::uint32_t n2 = 0) {
  ops::MatmulParams p{};
  p.form = form;
  p.m = m;
  p.k = k;
  p.n0 = n;
  p.n1 = n1;
  p.n2 = n2;
  return p;
}
// activation(x w0) * (x w1)
inline ops::MatmulParams gate(std::uint32_t m, std::uint32_t n, std::uint32_t k,
                              std::uint32_t activation = 0, std::uint32_t form = 0) {
  ops::MatmulParams p = product(m, n, k, form | ops::form_parts | ops::form_product, n);
  p.activation = activation;
  return p;
}

}  // namespace onepass::test
