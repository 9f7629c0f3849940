#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/embed/params.h"

namespace onepass::ops {
namespace {

// Everything but activations and integers.
constexpr TypeSet table_types = row_types | block_types | packed_types;

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
  c.require(!a.tokens_are_u32 || !a.by_position, "positions are those of a StepState");
  const View tokens = check_tokens(c, a.tokens, a.tokens_are_u32, rows);
  c.disjoint(out, "table", table);
  c.disjoint(out, "tokens", tokens);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::embed, a.table.format(), here);
  const op_u32 index = a.tokens_are_u32 ? embed_by_u32
                       : a.by_position  ? embed_by_position
                                        : embed_by_token;
  d.set_params(EmbedParams{rows, a.table.shape[0], dim, index, a.scale, 0, 0});
  d.bind(table);
  d.bind(tokens);
  d.bind(out);
  s.encode(d);
}

void embed_affine(GraphSession& s, const EmbedAffine& a, Here here) {
  Checks c(s, "embed_affine", here);
  const Checks::Affine weights{a.weight, a.scales, a.biases, a.bits, a.group_size};
  const auto [weight, scales, biases] = c.affine(weights);
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.rank("out", a.out, 2);
  c.require(std::isfinite(a.scale), "scale must be finite");
  if (c.failed()) return;
  const std::uint32_t rows = a.out.shape[0], dim = a.out.shape[1], vocab = a.weight.shape[0];
  c.affine_rows(weights, "out", dim);
  const View tokens = check_tokens(c, a.tokens, a.tokens_are_u32, rows);
  c.disjoint(out, "weight", weight);
  c.disjoint(out, "scales", scales);
  c.disjoint(out, "biases", biases);
  c.disjoint(out, "tokens", tokens);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::embed_affine, a.scales.dtype, here);
  d.set_params(EmbedAffineParams{rows, vocab, dim, a.tokens_are_u32 ? embed_by_u32 : embed_by_token,
                                 a.scale, a.bits, a.group_size, 0, 0});
  d.bind(weight);
  d.bind(scales);
  d.bind(biases);
  d.bind(tokens);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
