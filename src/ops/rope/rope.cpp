#include <algorithm>
#include <cmath>

#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/rope/params.h"

namespace onepass::ops {
namespace {

void check_scaling(Checks& c, const Rope& a) noexcept {
  const RopeScaling& s = a.scaling;
  c.require(s.freq_scale > 0.0f && std::isfinite(s.freq_scale),
            "scaling.freq_scale must be finite and above 0");
  c.require(s.ext_factor >= 0.0f && s.ext_factor <= 1.0f, "scaling.ext_factor must be 0 to 1");
  c.require(std::isfinite(s.attn_factor), "scaling.attn_factor is not finite");
  if (s.ext_factor == 0.0f) return;
  c.require(s.n_ctx_orig > 0, "scaling.n_ctx_orig is 0, ext_factor needs it");
  c.require(s.beta_slow > 0.0f && s.beta_fast >= s.beta_slow && std::isfinite(s.beta_fast),
            "scaling.beta_slow must be above 0 and not above beta_fast");
  c.require(a.theta > 1.0f, "theta must be above 1 with ext_factor");
}

// The pair that turns `turns` times over the original context.
double pair_of(double turns, double dim, double theta, double context) noexcept {
  constexpr double two_pi = 6.283185307179586;
  return dim * std::log(context / (turns * two_pi)) / (2.0 * std::log(theta));
}

RopeAngles make_angles(const Rope& a, std::uint32_t head_dim, std::uint32_t rope_dim) noexcept {
  const bool full = a.mode == RopeMode::neox_full;
  const double dim = full ? head_dim : rope_dim, theta = static_cast<double>(a.theta);
  const double ratio = std::pow(theta, -2.0 / dim);
  const RopeScaling& s = a.scaling;
  RopeAngles p{};
  p.pairs = rope_dim / 2;
  p.step = a.mode == RopeMode::interleaved ? 2 : 1;
  p.distance = a.mode == RopeMode::interleaved ? 1 : full ? head_dim / 2 : rope_dim / 2;
  p.ratio_hi = static_cast<float>(ratio);
  p.ratio_lo = static_cast<float>(ratio - static_cast<double>(p.ratio_hi));
  p.freq_scale = s.freq_scale;
  p.ext_factor = s.ext_factor;
  p.yarn_low = 0.0f;
  p.yarn_range = 1.0f;
  p.magnitude = s.attn_factor;
  if (s.ext_factor != 0.0f) {
    const double context = s.n_ctx_orig;
    const double low =
        std::max(0.0, std::floor(pair_of(static_cast<double>(s.beta_fast), dim, theta, context)));
    const double high = std::min(
        dim - 1.0, std::ceil(pair_of(static_cast<double>(s.beta_slow), dim, theta, context)));
    p.yarn_low = static_cast<float>(low);
    p.yarn_range = static_cast<float>(std::max(0.001, high - low));
    const double growth = 1.0 - 0.1 * std::log(static_cast<double>(s.freq_scale));
    p.magnitude = static_cast<float>(static_cast<double>(s.attn_factor) * growth);
  }
  return p;
}

}  // namespace

void rope(GraphSession& s, const Rope& a, Here here) {
  Checks c(s, "rope", here);
  const View x = c.tensor("x", a.x, row_types);
  const View out = c.tensor("out", a.out, row_types);
  c.rank("x", a.x, 3);
  c.same_type("x", a.x, "out", a.out);
  c.same_shape("x", a.x, "out", a.out);
  const std::uint32_t rows = a.x.shape[0], heads = a.x.shape[1], head_dim = a.x.shape[2];
  const std::uint32_t rope_dim = a.rope_dim == 0 ? head_dim : a.rope_dim;
  const bool full = a.mode == RopeMode::neox_full;
  c.require(a.mode <= RopeMode::neox_full, "mode is no RopeMode");
  c.require(rope_dim % 2 == 0 && rope_dim <= head_dim, "rope_dim is ", rope_dim,
            ", expected an even number up to head_dim ", head_dim);
  c.require(!full || head_dim % 2 == 0, "head_dim is ", head_dim, ", neox_full needs an even one");
  c.require(a.theta >= 1.0f && std::isfinite(a.theta), "theta must be finite and at least 1");
  check_scaling(c, a);
  const View positions = a.positions_are_u32
                             ? c.memory("positions", a.positions, std::uint64_t{rows} * 4)
                             : c.step("positions", a.positions);
  View factors{};
  if (a.freq_factors) {
    factors = c.tensor("freq_factors", a.freq_factors, types(DType::f32));
    c.require(a.freq_factors.shape.elements() == rope_dim / 2, "freq_factors has ",
              a.freq_factors.shape.elements(), " elements, expected ", rope_dim / 2);
    c.disjoint(out, "freq_factors", factors);
  }
  c.disjoint(out, "positions", positions);
  c.disjoint_or_same(out, "x", x);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::rope, a.x.dtype, here);
  d.set_params(RopeParams{rows, heads, head_dim, a.positions_are_u32 ? 1u : 0u,
                          make_angles(a, head_dim, rope_dim)});
  d.bind(x);
  d.bind(positions);
  d.bind(factors);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
