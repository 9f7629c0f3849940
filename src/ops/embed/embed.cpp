#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/embed/params.h"

namespace onepass::ops {

void embed(GraphSession& s, const Embed& a, Here here) {
  Checks c(s, "embed", here);
  const View table = c.tensor("table", a.table, weight_types);
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.rank("table", a.table, 2);
  c.rank("out", a.out, 2);
  const std::uint32_t rows = a.out.shape[0], dim = a.table.shape[1];
  c.require(a.out.shape[1] == dim, "table is ", a.table.shape, ", out has ", a.out.shape[1],
            " columns");
  const View tokens = a.tokens_are_u32 ? c.memory("tokens", a.tokens, std::uint64_t{rows} * 4)
                                       : c.step("tokens", a.tokens);
  c.disjoint(out, "table", table);
  c.disjoint(out, "tokens", tokens);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::embed, a.table.dtype, here);
  d.set_params(EmbedParams{rows, a.table.shape[0], dim, a.tokens_are_u32 ? 1u : 0u});
  d.bind(table);
  d.bind(tokens);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
