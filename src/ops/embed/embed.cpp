#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/embed/params.h"

namespace onepass::ops {
namespace {

// Everything but activations and integers.
constexpr TypeSet table_types = row_types | block_types | (any_type & ~unpacked_types);

View check_tokens(Checks& c, const View& tokens, bool are_u32, std::uint32_t rows) noexcept {
  return are_u32 ? c.memory("tokens", tokens, std::uint64_t{rows} * 4) : c.step("tokens", tokens);
}

}  // namespace

void embed(GraphSession& s, const Embed& a, Here here) {
  Checks c(s, "embed", here);
  const View table = c.tensor("table", a.table, table_types);
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.rank("table", a.table, 2);
  c.rank("out", a.out, 2);
  const std::uint32_t rows = a.out.shape[0], dim = a.table.shape[1];
  c.require(a.out.shape[1] == dim, "table is ", a.table.shape, ", out has ", a.out.shape[1],
            " columns");
  c.require(std::isfinite(a.scale), "scale must be finite");
  const View tokens = check_tokens(c, a.tokens, a.tokens_are_u32, rows);
  c.disjoint(out, "table", table);
  c.disjoint(out, "tokens", tokens);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::embed, a.table.dtype, here);
  d.set_params(EmbedParams{rows, a.table.shape[0], dim, a.tokens_are_u32 ? 1u : 0u, a.scale});
  d.bind(table);
  d.bind(tokens);
  d.bind(out);
  s.encode(d);
}

void embed_affine(GraphSession& s, const EmbedAffine& a, Here here) {
  Checks c(s, "embed_affine", here);
  const View weight = c.tensor("weight", a.weight, types(DType::u32));
  const View scales = c.tensor("scales", a.scales, row_types);
  const View biases = c.tensor("biases", a.biases, row_types);
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.same_type("scales", a.scales, "biases", a.biases);
  c.same_shape("scales", a.scales, "biases", a.biases);
  c.rank("weight", a.weight, 2);
  c.rank("scales", a.scales, 2);
  c.rank("out", a.out, 2);
  c.require(a.bits == 2 || a.bits == 3 || a.bits == 4 || a.bits == 6 || a.bits == 8, "bits is ",
            a.bits, ", expected 2, 3, 4, 6 or 8");
  c.require(a.group_size == 32 || a.group_size == 64 || a.group_size == 128, "group_size is ",
            a.group_size, ", expected 32, 64 or 128");
  c.require(std::isfinite(a.scale), "scale must be finite");
  if (c.failed()) return;
  const std::uint32_t rows = a.out.shape[0], dim = a.out.shape[1], vocab = a.weight.shape[0];
  const std::uint64_t words = std::uint64_t{dim} * a.bits / 32;
  c.require(dim % a.group_size == 0, "out has ", dim,
            " columns, expected a multiple of group_size ", a.group_size);
  c.require(a.weight.shape[1] == words, "weight has ", a.weight.shape[1], " words per row, ", dim,
            " values of ", a.bits, " bits need ", words);
  c.require(a.scales.shape == Shape{vocab, dim / a.group_size}, "scales is ", a.scales.shape,
            ", expected ", Shape{vocab, dim / a.group_size});
  const View tokens = check_tokens(c, a.tokens, a.tokens_are_u32, rows);
  c.disjoint(out, "weight", weight);
  c.disjoint(out, "scales", scales);
  c.disjoint(out, "biases", biases);
  c.disjoint(out, "tokens", tokens);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::embed_affine, a.scales.dtype, here);
  d.set_params(EmbedAffineParams{rows, vocab, dim, a.tokens_are_u32 ? 1u : 0u, a.scale, a.bits,
                                 a.group_size});
  d.bind(weight);
  d.bind(scales);
  d.bind(biases);
  d.bind(tokens);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
