#include "conformance/case.h"

namespace onepass::conformance {
namespace {

Bytes random_bytes(Random& random, Format type, const Shape& shape) {
  Bytes bytes(storage_bytes(type, shape).value_or(0));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

// to[to_at + i] = from[from_at + i] for i < n.
void move(const Bytes& from, std::size_t from_at, Bytes& to, std::size_t to_at, std::size_t n) {
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_at), n,
              to.begin() + static_cast<std::ptrdiff_t>(to_at));
}

Case exact_case(std::string text, Op op, Format type, std::function<Prepared(Random&)> make) {
  const auto prepare = [text, make](std::optional<std::uint32_t>) {
    Random random(text);
    return make(random);
  };
  return Case{"move", text, op, type, 1, 0, prepare};
}

Case copy_case(Format type, std::uint32_t rows, std::uint32_t blocks, std::size_t variant) {
  const Shape shape{rows, blocks * info(type).block_elements};
  const std::size_t offset = odd_offset(type, variant);
  return exact_case(
      label("copy ", name(type), " ", rows, "x", shape.last(), " view+", offset), Op::copy, type,
      [=](Random& random) {
        const Bytes x = random_bytes(random, type, shape);
        Prepared p;
        p.add(input(type, shape, x, offset));
        p.add(output(type, shape, odd_offset(type, variant + 1)));
        p.encode = [](GraphSession& s, Tensors t) { ops::copy(s, {.x = t[0], .out = t[1]}); };
        p.expect = [x](bool) { return std::vector{Expect{.operand = 1, .exact = x}}; };
        return p;
      });
}

Case gather_case(Format type, std::uint32_t rows, std::uint32_t blocks, std::uint32_t n,
                 std::size_t variant) {
  const Shape shape{rows, blocks * info(type).block_elements};
  const std::size_t offset = odd_offset(type, variant);
  const std::string text =
      label("gather ", name(type), " ", n, " of ", rows, "x", shape.last(), " view+", offset);
  return exact_case(text, Op::gather, type, [=](Random& random) {
    const Bytes x = random_bytes(random, type, shape);
    std::vector<std::uint32_t> indices(n);
    for (std::uint32_t& i : indices) i = random.below(rows + 1);  // one too many: the last row
    Prepared p;
    p.add(input(type, shape, x, offset));
    p.add(input(DType::u32, {n}, words(indices), 4 * (variant % 3)));
    p.add(output(type, {n, shape.last()}, odd_offset(type, variant + 1)));
    p.encode = [](GraphSession& s, Tensors t) {
      ops::gather(s, {.x = t[0], .indices = t[1], .out = t[2]});
    };
    p.expect = [=](bool) {
      const std::size_t stride = x.size() / rows;
      Bytes want(n * stride);
      for (std::size_t i = 0; i < n; ++i) {
        move(x, std::min(indices[i], rows - 1) * stride, want, i * stride, stride);
      }
      return std::vector{Expect{.operand = 2, .exact = want}};
    };
    return p;
  });
}

Case transpose_case(DType type, std::uint32_t batch, std::uint32_t a, std::uint32_t b,
                    std::uint32_t c, std::size_t variant) {
  const bool keep = c != 0;
  const Shape from = keep ? Shape{batch, a, b, c} : Shape{batch, a, b};
  const Shape to = keep ? Shape{batch, b, a, c} : Shape{batch, b, a};
  const std::size_t offset = odd_offset(type, variant);
  const std::string text = label("transpose ", name(type), " ", batch, "x", a, "x", b,
                                 keep ? label("x", c) : "", " view+", offset);
  return exact_case(text, Op::transpose, type, [=](Random& random) {
    const Bytes x = random_bytes(random, type, from);
    Prepared p;
    p.add(input(type, from, x, offset));
    p.add(output(type, to, odd_offset(type, variant + 1)));
    p.encode = [keep](GraphSession& s, Tensors t) {
      ops::transpose(s, {.x = t[0], .out = t[1], .keep_last = keep});
    };
    p.expect = [=](bool) {
      const std::size_t unit = info(type).block_bytes * (keep ? c : 1);
      Bytes want(x.size());
      for (std::size_t n = 0; n < batch; ++n) {
        for (std::size_t i = 0; i < a; ++i) {
          for (std::size_t j = 0; j < b; ++j) {
            move(x, ((n * a + i) * b + j) * unit, want, ((n * b + j) * a + i) * unit, unit);
          }
        }
      }
      return std::vector{Expect{.operand = 1, .exact = want}};
    };
    return p;
  });
}

// Columns [start, start + cols) of rows of `width`: taken out (slice) or replaced (put).
Case columns_case(bool put, DType type, std::uint32_t rows, std::uint32_t width,
                  std::uint32_t start, std::uint32_t cols, std::size_t variant) {
  const std::size_t offset = odd_offset(type, variant);
  const std::string text = label(put ? "put " : "slice ", name(type), " ", rows, "x", width, " ",
                                 start, "+", cols, " view+", offset);
  return exact_case(text, put ? Op::put : Op::slice, type, [=](Random& random) {
    const Bytes wide = random_bytes(random, type, {rows, width});
    const Bytes narrow = random_bytes(random, type, {rows, cols});
    Prepared p;
    Operand w = input(type, {rows, width}, wide, offset);
    if (put) {
      w.role = Role::in_out;
      p.add(input(type, {rows, cols}, narrow, odd_offset(type, variant + 1)));
      p.add(w);
      p.encode = [start](GraphSession& s, Tensors t) {
        ops::put(s, {.x = t[0], .into = t[1], .start = start});
      };
    } else {
      p.add(w);
      p.add(output(type, {rows, cols}, odd_offset(type, variant + 1)));
      p.encode = [start](GraphSession& s, Tensors t) {
        ops::slice(s, {.x = t[0], .out = t[1], .start = start});
      };
    }
    p.expect = [=](bool) {
      const std::size_t size = info(type).block_bytes;
      Bytes want = put ? wide : narrow;
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t in_wide = (r * width + start) * size, in_narrow = r * cols * size;
        if (put) {
          move(narrow, in_narrow, want, in_wide, cols * size);
        } else {
          move(wide, in_wide, want, in_narrow, cols * size);
        }
      }
      return std::vector{Expect{.operand = 1, .exact = want}};
    };
    return p;
  });
}

Case concat_case(DType type, std::uint32_t rows, std::uint32_t a, std::uint32_t b,
                 std::size_t variant) {
  const std::size_t offset = odd_offset(type, variant);
  const std::string text =
      label("concat ", name(type), " ", rows, "x", a, "+", b, " view+", offset);
  return exact_case(text, Op::concat, type, [=](Random& random) {
    const Bytes x = random_bytes(random, type, {rows, a}),
                y = random_bytes(random, type, {rows, b});
    Prepared p;
    p.add(input(type, {rows, a}, x, offset));
    p.add(input(type, {rows, b}, y, odd_offset(type, variant + 2)));
    p.add(output(type, {rows, a + b}, odd_offset(type, variant + 1)));
    p.encode = [](GraphSession& s, Tensors t) {
      ops::concat(s, {.a = t[0], .b = t[1], .out = t[2]});
    };
    p.expect = [=](bool) {
      const std::size_t size = info(type).block_bytes;
      Bytes want(x.size() + y.size());
      for (std::size_t r = 0; r < rows; ++r) {
        move(x, r * a * size, want, r * (a + b) * size, a * size);
        move(y, r * b * size, want, (r * (a + b) + a) * size, b * size);
      }
      return std::vector{Expect{.operand = 2, .exact = want}};
    };
    return p;
  });
}

}  // namespace

void add_move(Set set, std::vector<Case>& cases) {
  const std::vector<Format> unpacked{
#define FORMAT(name, ggml_id, elements, bytes) formats::name,
#include "onepass/tables/formats.def"
  };
  std::vector<Format> all = unpacked;
#define LAYOUT(type, layout, elements, bytes, Form) all.push_back(formats::type##_##layout);
#include "onepass/tables/formats.def"
  std::vector<DType> plain;
  for (const Format format : all) {
    if (info(format).block_elements == 1) plain.push_back(format.type);
    cases.push_back(copy_case(format, 3, 1, 1));
    cases.push_back(copy_case(format, 17, 3, 3));
  }
  const std::size_t times = set == Set::full ? 10 : 1;
  const std::vector<std::uint32_t> sizes{1, 2, 7, 16, 33};
  draw(cases, "gather", 80 * times, [&](Random& r, std::size_t i) {
    const std::uint32_t variant = r.below(5), n = r.pick(sizes);
    const auto blocks = r.pick<std::uint32_t>({1, 2, 5});
    const std::uint32_t rows = r.pick(sizes);
    return gather_case(unpacked[i % unpacked.size()], rows, blocks, n, variant);
  });
  draw(cases, "transpose", 60 * times, [&](Random& r, std::size_t i) {
    const std::uint32_t variant = r.below(5), kept = r.below(2), c = kept * r.pick(sizes);
    const std::uint32_t b = r.pick(sizes), a = r.pick(sizes), batch = 1 + r.below(2);
    return transpose_case(plain[i % plain.size()], batch, a, b, c, variant);
  });
  draw(cases, "columns", 100 * times, [&](Random& r, std::size_t i) {
    const std::uint32_t cols = r.pick(sizes), start = r.pick<std::uint32_t>({0, 1, 5});
    const std::uint32_t variant = r.below(5);
    const std::uint32_t width = start + cols + r.pick<std::uint32_t>({0, 3});
    const std::uint32_t rows = r.pick(sizes);
    return columns_case(i % 2 == 0, plain[i / 2 % plain.size()], rows, width, start, cols, variant);
  });
  draw(cases, "concat", 60 * times, [&](Random& r, std::size_t i) {
    const std::uint32_t variant = r.below(5);
    const std::uint32_t b = r.pick(sizes), a = r.pick(sizes), rows = r.pick(sizes);
    return concat_case(plain[i % plain.size()], rows, a, b, variant);
  });
}

}  // namespace onepass::conformance
