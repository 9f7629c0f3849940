#include "conformance/case.h"
#include "conformance/reference.h"
#include "ops/shared/forms.h"

namespace onepass::conformance {
namespace {

// Expectation of out[m, n] = x w^T, for a kernel that does or does not quantize x.
Expect product(std::size_t operand, const Doubles& x, const Doubles& w, const Doubles& magnitudes,
               std::size_t m, std::size_t n, std::size_t k, bool quantized) {
  Expect e{.operand = operand};
  if (quantized) {
    const Quantized q = quantize_activations(x);
    Product exact = matmul(x, &q.steps, w, magnitudes, m, n, k);
    Product rounded = matmul(q.values, nullptr, w, magnitudes, m, n, k);
    e.want = std::move(exact.want);
    e.want_quantized = std::move(rounded.want);
    e.bound = std::move(rounded.magnitude);
    e.quantization = std::move(exact.quantization);
  } else {
    Product p = matmul(x, nullptr, w, magnitudes, m, n, k);
    e.want = std::move(p.want);
    e.bound = std::move(p.magnitude);
  }
  for (double& b : e.bound) b = b * sum_error(k) + 0x1p-126;
  return e;
}

// q8a: x comes quantized.
Case matmul_case(Format format, std::uint32_t m, std::uint32_t n, std::uint32_t k,
                 std::size_t variant, bool q8a = false) {
  const std::size_t offset = odd_offset(format, variant);
  const std::string text = label("matmul ", name(format), q8a ? " q8a" : "", " m", m, " n", n, " k",
                                 k, " view+", offset);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Stored x = random_values(random, DType::f32, std::size_t{m} * k, 1.0);
    const Weights w = any_weights(random, format, 1, n, k);
    Prepared p;
    p.add(q8a ? input(DType::q8a, {m, k}, store_q8a(x.values, k), 8)
              : input(DType::f32, {m, k}, x.bytes, odd_offset(DType::f32, variant + 1)));
    p.add(input(format, {n, k}, w.bytes, offset));
    p.add(output(DType::f32, {m, n}, odd_offset(DType::f32, variant + 2)));
    p.encode = [](GraphSession& s, Tensors t) {
      ops::matmul(s, {.x = t[0], .weight = t[1], .out = t[2]});
    };
    p.expect = [=](bool quantized) {
      return std::vector{product(2, x.values, w.values, w.magnitudes, m, n, k, quantized)};
    };
    const std::size_t per_row[] = {0, 2};
    return row ? take_row(p, *row, per_row) : p;
  };
  return Case{"matmul", text, Op::matmul, format, m, 0, prepare};
}

Case affine_case(DType scales, std::uint32_t bits, std::uint32_t group, std::uint32_t m,
                 std::uint32_t n, std::uint32_t k, std::size_t variant) {
  const std::string text = label("matmul_affine ", name(scales), " bits", bits, " group", group,
                                 " m", m, " n", n, " k", k, " view+", variant * 4);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Stored x = random_values(random, DType::f32, std::size_t{m} * k, 1.0);
    const AffineWeights w = random_affine(random, scales, n, k, bits, group);
    Prepared p;
    p.add(input(DType::f32, {m, k}, x.bytes, odd_offset(DType::f32, variant + 1)));
    p.add(input(DType::u32, {n, k * bits / 32}, w.stream, variant * 4));
    p.add(input(scales, {n, k / group}, w.scales, odd_offset(scales, variant)));
    p.add(input(scales, {n, k / group}, w.biases, odd_offset(scales, variant + 3)));
    p.add(output(DType::f32, {m, n}, odd_offset(DType::f32, variant + 2)));
    p.encode = [bits, group](GraphSession& s, Tensors t) {
      ops::matmul_affine(s, {.x = t[0],
                             .weight = t[1],
                             .scales = t[2],
                             .biases = t[3],
                             .out = t[4],
                             .bits = bits,
                             .group_size = group});
    };
    p.expect = [=](bool quantized) {
      return std::vector{product(4, x.values, w.values, w.magnitudes, m, n, k, quantized)};
    };
    const std::size_t per_row[] = {0, 4};
    return row ? take_row(p, *row, per_row) : p;
  };
  return Case{"matmul", text, Op::matmul_affine, scales, m, 0, prepare};
}

// pairs: x has a row for each expert of a token. two: fused with another product of the same x.
Case id_case(Format format, std::uint32_t tokens, std::uint32_t used, std::uint32_t experts,
             std::uint32_t n, std::uint32_t k, std::size_t variant, bool pairs, bool two) {
  const std::size_t offset = odd_offset(format, variant);
  const std::string text =
      label("matmul_id ", name(format), " tokens", tokens, " used", used, " of", experts, " n", n,
            " k", k, " view+", offset, pairs ? " pairs" : "", two ? " two" : "");
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape x_shape = pairs ? Shape{tokens, used, k} : Shape{tokens, k};
    const Stored x = random_values(random, DType::f32, x_shape.elements(), 1.0);
    const Weights w = any_weights(random, format, experts, n, k);
    const Weights other = any_weights(random, format, two ? experts : 0, n, k);
    std::vector<std::uint32_t> ids(std::size_t{tokens} * used);
    // Now and then an expert that does not exist: zeros.
    for (std::uint32_t& id : ids) {
      id = random.below(experts);
      if (random.below(9) == 0) id += experts;
    }
    Prepared p;
    p.add(input(DType::f32, x_shape, x.bytes, odd_offset(DType::f32, variant + 1)));
    p.add(input(format, {experts, n, k}, w.bytes, offset));
    p.add(input(DType::u32, {tokens, used}, words(ids), 4 * (variant % 3)));
    p.add(output(DType::f32, {tokens, used, n}, odd_offset(DType::f32, variant + 2)));
    if (two) {
      p.add(input(format, {experts, n, k}, other.bytes, odd_offset(format, variant + 1)));
      p.add(output(DType::f32, {tokens, used, n}, odd_offset(DType::f32, variant)));
    }
    p.encode = [two](GraphSession& s, Tensors t) {
      ops::matmul_id(s, {.x = t[0], .weight = t[1], .ids = t[2], .out = t[3]});
      if (two) ops::matmul_id(s, {.x = t[0], .weight = t[4], .ids = t[2], .out = t[5]});
    };
    const auto products = [=](const Weights& of, std::size_t operand, bool quantized) {
      Expect all{.operand = operand};
      const std::size_t size = std::size_t{n} * k;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto part = [](const Doubles& v, std::size_t index, std::size_t count) {
          const auto first = v.begin() + static_cast<std::ptrdiff_t>(index * count);
          return Doubles(first, first + static_cast<std::ptrdiff_t>(count));
        };
        const bool exists = ids[i] < experts;
        const Doubles zeros(size, 0.0);
        const Expect e =
            product(3, part(x.values, pairs ? i : i / used, k),
                    exists ? part(of.values, ids[i], size) : zeros,
                    exists ? part(of.magnitudes, ids[i], size) : zeros, 1, n, k, quantized);
        const auto append = [](Doubles& to, const Doubles& from) {
          to.insert(to.end(), from.begin(), from.end());
        };
        append(all.want, e.want);
        append(all.bound, e.bound);
        append(all.quantization, e.quantization);
        append(all.want_quantized, e.want_quantized);
      }
      return all;
    };
    p.expect = [=](bool quantized) {
      std::vector list{products(w, 3, quantized)};
      if (two) list.push_back(products(other, 5, quantized));
      return list;
    };
    std::vector<std::size_t> per_row{0, 2, 3};
    if (two) per_row.push_back(5);
    return row ? take_row(p, *row, per_row) : p;
  };
  Case c{"moe", text, Op::matmul_id, format, tokens, two ? 1u : 0u, prepare};
  c.form = two ? ops::form_parts : 0;
  return c;
}

std::vector<std::uint32_t> widths_of(Format format, Set set) {
  if (info(format).block_elements == 256) {
    if (set == Set::full) return {256, 512, 768, 1280};
    return {256, 768};
  }
  if (info(format).block_elements == 1) {
    if (set == Set::full) return {1, 32, 100, 257, 544};
    return {33, 256};
  }
  if (info(format).block_elements == 128) {
    if (set == Set::full) return {128, 256, 640, 1152};
    return {128, 384};
  }
  if (set == Set::full) return {64, 128, 256, 576, 1088};
  return {64, 320};
}

}  // namespace

void add_matmul(Set set, std::vector<Case>& cases) {
  const bool full = set == Set::full;
  std::vector<std::uint32_t> rows{1, 2, 7, 33}, outputs{1, 17, 33, 51};
  if (full) rows = {1, 2, 3, 4, 5, 7, 8, 16, 33}, outputs = {1, 3, 16, 17, 33, 63, 81, 129};
  for (const Format format : weight_formats()) {
    for (const std::uint32_t m : rows) {
      for (const std::uint32_t n : outputs) {
        std::size_t variant = m + n;
        for (const std::uint32_t k : widths_of(format, set)) {
          cases.push_back(matmul_case(format, m, n, k, variant++));
          if (!full && n != 17) cases.push_back(matmul_case(format, m, n, k, variant + 1));
        }
        if (takes_q8a(format) && n == 33) {
          cases.push_back(matmul_case(format, m, n, 512, variant, true));
        }
      }
    }
  }
  draw(cases, "affine", full ? 2000 : 300, [](Random& r, std::size_t i) {
    const std::uint32_t bits = r.pick<std::uint32_t>({2, 3, 4, 5, 6, 8});
    const std::uint32_t group = r.pick<std::uint32_t>({32, 64, 128});
    const std::uint32_t variant = r.below(5);
    const std::uint32_t k = group * r.pick<std::uint32_t>({1, 2, 5});
    const auto n = r.pick<std::uint32_t>({1, 5, 17, 33});
    const auto m = r.pick<std::uint32_t>({1, 2, 7, 33});
    return affine_case(float_types()[i % 3], bits, group, m, n, k, variant);
  });
  draw(cases, "id", full ? 3400 : 640, [](Random& r, std::size_t i) {
    const Format format = weight_formats()[i % weight_formats().size()];
    const std::uint32_t experts = r.pick<std::uint32_t>({1, 2, 5, 8});
    const bool pairs = r.below(2) == 0;
    const std::uint32_t variant = r.below(5);
    const auto k = r.pick<std::uint32_t>(widths_of(format, Set::ci));
    const auto n = r.pick<std::uint32_t>({1, 7, 17, 33});
    const auto used = r.pick<std::uint32_t>({1, 2, 3});
    const auto tokens = r.pick<std::uint32_t>({1, 2, 7, 33});
    return id_case(format, tokens, used, experts, n, k, variant, pairs, i % 3 == 2);
  });
}

}  // namespace onepass::conformance
