#include <utility>

#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/move/params.h"

namespace onepass::ops {
namespace {

std::uint32_t element_bytes(const Tensor& t) noexcept { return info(t.dtype).block_bytes; }

// Bytes of the tensor's last dimension, a plain type.
std::uint32_t row_bytes(Checks& c, const char* what, const Tensor& t) noexcept {
  return c.u32(what, std::uint64_t{t.shape.last()} * element_bytes(t));
}

// Same number of rows; false after a failed check.
std::uint32_t same_rows(Checks& c, const char* a_what, const Tensor& a, const char* b_what,
                        const Tensor& b) noexcept {
  if (c.failed()) return 0;
  c.require(a.shape.rows() == b.shape.rows(), a_what, " is ", a.shape, ", ", b_what, " is ",
            b.shape);
  return c.u32("the number of rows", a.shape.rows());
}

}  // namespace

void copy(GraphSession& s, const Unary& a, Here here) {
  Checks c(s, "copy", here);
  const View x = c.tensor("x", a.x, unpacked_types | packed_types);
  const View out = c.tensor("out", a.out, unpacked_types | packed_types);
  c.same_type("x", a.x, "out", a.out);
  c.require(x.bytes == out.bytes, "x is ", a.x.shape, ", out is ", a.out.shape);
  c.disjoint(out, "x", x);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::copy, a.x.format(), here);
  d.set_params(
      CopyParams{static_cast<std::uint32_t>(x.bytes), static_cast<std::uint32_t>(x.bytes >> 32)});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

void gather(GraphSession& s, const Gather& a, Here here) {
  Checks c(s, "gather", here);
  const View x = c.tensor("x", a.x, unpacked_types);
  const View indices = c.tensor("indices", a.indices, types(DType::u32));
  const View out = c.tensor("out", a.out, unpacked_types);
  c.same_type("x", a.x, "out", a.out);
  c.rank("x", a.x, 2);
  c.rank("indices", a.indices, 1);
  c.rank("out", a.out, 2);
  if (c.failed()) return;
  const std::uint32_t rows = a.indices.shape[0], cols = a.x.shape[1];
  c.require(a.out.shape == Shape{rows, cols}, "out is ", a.out.shape, ", expected ",
            Shape{rows, cols});
  c.disjoint(out, "x", x);
  c.disjoint(out, "indices", indices);
  const std::uint32_t bytes = c.u32("bytes of a row", x.bytes / a.x.shape[0]);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::gather, a.x.format(), here);
  d.set_params(GatherParams{rows, a.x.shape[0], bytes, 0, 0});
  d.bind(x);
  d.bind(indices);
  d.bind(out);
  s.encode(d);
}

void transpose(GraphSession& s, const Transpose& a, Here here) {
  Checks c(s, "transpose", here);
  const View x = c.tensor("x", a.x, plain_types);
  const View out = c.tensor("out", a.out, plain_types);
  c.same_type("x", a.x, "out", a.out);
  const std::uint32_t needed = a.keep_last ? 3 : 2;
  c.require(a.x.shape.rank >= needed, "x has ", a.x.shape.rank, " dimensions, expected at least ",
            needed);
  if (c.failed()) return;
  const std::uint32_t at = a.x.shape.rank - needed;  // of the first of the two
  Shape expected = a.x.shape;
  std::swap(expected.dims[at], expected.dims[at + 1]);
  c.require(a.out.shape == expected, "out is ", a.out.shape, ", expected ", expected);
  c.disjoint(out, "x", x);
  const std::uint32_t unit = a.keep_last ? row_bytes(c, "bytes of a row", a.x) : element_bytes(a.x);
  std::uint64_t before = 1;
  for (std::uint32_t i = 0; i < at; ++i) before *= a.x.shape[i];
  const std::uint32_t batch = c.u32("the number of matrices", before);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::transpose, a.x.dtype, here);
  d.set_params(TransposeParams{batch, a.x.shape[at], a.x.shape[at + 1], unit});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

void slice(GraphSession& s, const Slice& a, Here here) {
  Checks c(s, "slice", here);
  const View x = c.tensor("x", a.x, plain_types);
  const View out = c.tensor("out", a.out, plain_types);
  c.same_type("x", a.x, "out", a.out);
  const std::uint32_t rows = same_rows(c, "x", a.x, "out", a.out);
  if (c.failed()) return;
  const std::uint32_t cols = a.out.shape.last();
  c.require(std::uint64_t{a.start} + cols <= a.x.shape.last(), "columns ", a.start, " to ",
            std::uint64_t{a.start} + cols, ", x has ", a.x.shape.last());
  c.disjoint(out, "x", x);
  const std::uint32_t stride = row_bytes(c, "bytes of a row", a.x);
  if (c.failed()) return;

  const std::uint32_t element = element_bytes(a.x), bytes = cols * element;
  Dispatch d = dispatch(Op::slice, a.x.dtype, here);
  d.set_params(ColumnsParams{rows, a.start * element, stride, 0, bytes, bytes});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

void put(GraphSession& s, const Put& a, Here here) {
  Checks c(s, "put", here);
  const View x = c.tensor("x", a.x, plain_types);
  const View into = c.tensor("into", a.into, plain_types);
  c.same_type("x", a.x, "into", a.into);
  const std::uint32_t rows = same_rows(c, "x", a.x, "into", a.into);
  if (c.failed()) return;
  const std::uint32_t cols = a.x.shape.last();
  c.require(std::uint64_t{a.start} + cols <= a.into.shape.last(), "columns ", a.start, " to ",
            std::uint64_t{a.start} + cols, ", into has ", a.into.shape.last());
  c.require(!overlap(into, x), "into overlaps x");
  const std::uint32_t stride = row_bytes(c, "bytes of a row", a.into);
  if (c.failed()) return;

  const std::uint32_t element = element_bytes(a.x), bytes = cols * element;
  Dispatch d = dispatch(Op::put, a.x.dtype, here);
  d.set_params(ColumnsParams{rows, 0, bytes, a.start * element, stride, bytes});
  d.bind(x);
  d.bind(into);
  s.encode(d);
}

void concat(GraphSession& s, const Concat& t, Here here) {
  Checks c(s, "concat", here);
  const View a = c.tensor("a", t.a, plain_types);
  const View b = c.tensor("b", t.b, plain_types);
  const View out = c.tensor("out", t.out, plain_types);
  c.same_type("a", t.a, "b", t.b);
  c.same_type("a", t.a, "out", t.out);
  same_rows(c, "a", t.a, "b", t.b);
  const std::uint32_t rows = same_rows(c, "a", t.a, "out", t.out);
  if (c.failed()) return;
  c.require(std::uint64_t{t.a.shape.last()} + t.b.shape.last() == t.out.shape.last(), "a has ",
            t.a.shape.last(), " columns, b ", t.b.shape.last(), ", out ", t.out.shape.last());
  c.disjoint(out, "a", a);
  c.disjoint(out, "b", b);
  row_bytes(c, "bytes of a row", t.out);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::concat, t.a.dtype, here);
  d.set_params(ConcatParams{rows, t.a.shape.last() * element_bytes(t.a),
                            t.b.shape.last() * element_bytes(t.b)});
  d.bind(a);
  d.bind(b);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
