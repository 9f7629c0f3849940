#include "conformance/case.h"
#include "conformance/reference.h"
#include "ops/shared/forms.h"

namespace onepass::conformance {
namespace {

constexpr double u = f32_unit;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

struct GateCase {
  std::uint32_t tokens = 1, experts = 4, used = 2;
  bool sigmoid = false, bias = false, expert_scale = false, renormalise = true;
  float scale = 1.0f;
  std::size_t variant = 0;
};

struct Choice {
  std::vector<std::uint32_t> ids;
  Doubles scores;  // of the chosen
};

// Nothing where rounding could decide.
std::optional<Choice> choose(const GateCase& c, const double* logits, const double* bias) {
  Doubles score(c.experts), rank(c.experts);
  double total = 0.0;
  const double top = *std::max_element(logits, logits + c.experts);
  for (std::uint32_t e = 0; e < c.experts; ++e) {
    score[e] = c.sigmoid ? sigmoid(logits[e]) : std::exp(logits[e] - top);
    total += score[e];
  }
  for (std::uint32_t e = 0; e < c.experts; ++e) {
    if (!c.sigmoid) score[e] /= total;
    rank[e] = score[e] + (bias != nullptr ? bias[e] : 0.0);
  }
  Choice choice;
  std::vector<bool> taken(c.experts);
  for (std::uint32_t k = 0; k < c.used; ++k) {
    std::optional<std::uint32_t> best;
    for (std::uint32_t e = 0; e < c.experts; ++e) {
      if (!taken[e] && (!best || rank[e] > rank[*best])) best = e;
    }
    for (std::uint32_t e = 0; e < c.experts; ++e) {
      const double gap = rank[*best] - rank[e];
      // Equal logits are equal scores: the lower id.
      const bool same = logits[e] == logits[*best] && bias == nullptr;
      if (!taken[e] && e != *best && !same && gap < 1e-5 * std::abs(rank[*best])) return {};
    }
    taken[*best] = true;
    choice.ids.push_back(*best);
    choice.scores.push_back(score[*best]);
  }
  return choice;
}

Case gate_case(const GateCase& c) {
  std::string text = label("moe_gate f32 tokens", c.tokens, " ", c.used, " of ", c.experts,
                           " view+", odd_offset(DType::f32, c.variant));
  if (c.sigmoid) text += " sigmoid";
  if (c.bias) text += " bias";
  if (c.expert_scale) text += " scales";
  if (!c.renormalise) text += " as is";
  if (c.scale != 1.0f) text += label(" scale", c.scale);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Stored bias = random_values(random, DType::f32, c.experts, 0.3);
    const Stored scales = random_values(random, DType::f32, c.experts, 2.0);
    Doubles logits;
    std::vector<Choice> choices;
    while (choices.size() < c.tokens) {
      const Doubles x = random_values(random, DType::f32, c.experts, 3.0).values;
      const auto choice = choose(c, x.data(), c.bias ? bias.values.data() : nullptr);
      if (!choice) continue;
      choices.push_back(*choice);
      logits.insert(logits.end(), x.begin(), x.end());
    }
    Prepared p;
    p.add(input(DType::f32, {c.tokens, c.experts}, store(DType::f32, logits).bytes,
                odd_offset(DType::f32, c.variant)));
    p.add(input(DType::f32, {c.experts}, c.bias ? bias.bytes : Bytes{}, 4));
    p.add(input(DType::f32, {c.experts}, c.expert_scale ? scales.bytes : Bytes{}, 12));
    p.add(output(DType::u32, {c.tokens, c.used}, odd_offset(DType::u32, c.variant + 1)));
    p.add(output(DType::f32, {c.tokens, c.used}, odd_offset(DType::f32, c.variant + 2)));
    p.encode = [c](GraphSession& s, Tensors t) {
      ops::moe_gate(s, {.logits = t[0],
                        .ids = t[3],
                        .weights = t[4],
                        .bias = t[1],
                        .expert_scale = t[2],
                        .score = c.sigmoid ? ops::MoeScore::sigmoid : ops::MoeScore::softmax,
                        .renormalise = c.renormalise,
                        .scale = c.scale});
    };
    p.expect = [=](bool) {
      std::vector<std::uint32_t> ids;
      Expect weights{.operand = 4};
      for (const Choice& choice : choices) {
        double total = 0.0;
        for (const double v : choice.scores) total += v;
        for (std::uint32_t k = 0; k < c.used; ++k) {
          double w = choice.scores[k] * static_cast<double>(c.scale);
          if (c.renormalise) w /= std::max(total, 0x1p-14);
          if (c.expert_scale) w *= scales.values[choice.ids[k]];
          ids.push_back(choice.ids[k]);
          weights.want.push_back(w);
          // The argument of exp is at most 48 away from the largest.
          weights.bound.push_back(std::abs(w) * (2 * sum_error(c.experts) + 60 * u) + 0x1p-126);
        }
      }
      return std::vector{Expect{.operand = 3, .exact = words(ids)}, weights};
    };
    const std::size_t per_row[] = {0, 3, 4};
    return row ? take_row(p, *row, per_row) : p;
  };
  return Case{"moe", text, Op::moe_gate, DType::f32, c.tokens, 0, prepare};
}

// Now and then an expert that does not exist.
std::vector<std::uint32_t> random_ids(Random& random, std::size_t n, std::uint32_t experts) {
  std::vector<std::uint32_t> ids(n);
  for (std::uint32_t& id : ids) {
    id = experts == 0 ? 0 : random.below(experts);
    if (random.below(9) == 0) id += experts;
  }
  return ids;
}

struct ReduceCase {
  std::uint32_t tokens = 1, used = 1, dim = 8;
  bool residual = false, shared = false, gate = false;
  std::uint32_t experts = 0;  // not 0: with biases of so many
  bool in_place = false;      // of residual, else of shared, else not
  std::size_t variant = 0;
};

Case reduce_case(const ReduceCase& c) {
  const bool in_residual = c.in_place && c.residual;
  const bool in_shared = c.in_place && !c.residual && c.shared;
  std::string text = label("moe_reduce f32 tokens", c.tokens, " used", c.used, " dim", c.dim,
                           " view+", odd_offset(DType::f32, c.variant));
  if (c.residual) text += " residual";
  if (c.shared) text += c.gate ? " gated" : " shared";
  if (in_residual || in_shared) text += " in place";
  if (c.experts != 0) text += label(" bias", c.experts);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape rows{c.tokens, c.dim};
    const auto values = [&](std::size_t n) { return random_values(random, DType::f32, n, 2.0); };
    const Stored y = values(std::size_t{c.tokens} * c.used * c.dim);
    const Stored weights = values(std::size_t{c.tokens} * c.used);
    const Stored residual = values(rows.elements()), shared = values(rows.elements());
    const Stored gate = values(c.tokens);
    const Stored bias = values(std::size_t{c.experts} * c.dim);
    const auto ids = random_ids(random, c.tokens * c.used, c.experts);
    const auto at = [&](std::size_t i) { return odd_offset(DType::f32, c.variant + i); };
    Prepared p;
    p.add(input(DType::f32, {c.tokens, c.used, c.dim}, y.bytes, at(0)));
    p.add(input(DType::f32, {c.tokens, c.used}, weights.bytes, at(1)));
    p.add(input(DType::f32, rows, c.residual ? residual.bytes : Bytes{}, at(2)));
    p.add(input(DType::f32, rows, c.shared ? shared.bytes : Bytes{}, at(3)));
    p.add(input(DType::f32, {c.tokens}, c.shared && c.gate ? gate.bytes : Bytes{}, at(4)));
    p.add(in_residual ? in_place(p.operands, 2)
          : in_shared ? in_place(p.operands, 3)
                      : output(DType::f32, rows, at(5)));
    if (c.experts != 0) {
      p.add(input(DType::u32, {c.tokens, c.used}, words(ids), 4));
      p.add(input(DType::f32, {c.experts, c.dim}, bias.bytes, at(6)));
    }
    p.encode = [c](GraphSession& s, Tensors t) {
      ops::moe_reduce(s, {.y = t[0],
                          .weights = t[1],
                          .out = t[5],
                          .residual = t[2],
                          .shared = t[3],
                          .shared_gate = t[4],
                          .ids = c.experts != 0 ? t[6] : Tensor{},
                          .bias = c.experts != 0 ? t[7] : Tensor{}});
    };
    p.expect = [=](bool) {
      Expect e{.operand = 5};
      for (std::size_t t = 0; t < c.tokens; ++t) {
        const double factor = c.gate ? sigmoid(gate.values[t]) : 1.0;
        for (std::size_t i = 0; i < c.dim; ++i) {
          double sum = 0.0, magnitude = 0.0;
          const auto term = [&](double v) {
            sum += v;
            magnitude += std::abs(v);
          };
          for (std::size_t k = 0; k < c.used; ++k) {
            const std::size_t pair = t * c.used + k;
            term(weights.values[pair] * y.values[pair * c.dim + i]);
            if (ids[pair] < c.experts) {
              term(weights.values[pair] * bias.values[ids[pair] * c.dim + i]);
            }
          }
          if (c.shared) term(factor * shared.values[t * c.dim + i]);
          if (c.residual) term(residual.values[t * c.dim + i]);
          e.want.push_back(sum);
          e.bound.push_back(magnitude * (c.used + 10) * u + 0x1p-149);
        }
      }
      return std::vector{e};
    };
    std::vector<std::size_t> per_row{0, 1, 5};
    if (c.residual) per_row.push_back(2);
    if (c.shared) per_row.push_back(3);
    if (c.shared && c.gate) per_row.push_back(4);
    if (c.experts != 0) per_row.push_back(6);
    return row ? take_row(p, *row, per_row) : p;
  };
  return Case{"moe", text, Op::moe_reduce, DType::f32, c.tokens, 0, prepare};
}

struct GatedCase {
  ops::GateActivation activation = ops::GateActivation::silu;
  std::uint32_t rows = 1, dim = 32;
  std::uint32_t experts = 0;  // not 0: with biases of so many
  enum class Out { plain, in_gate, q8a, fused_q8a } out = Out::plain;
  std::size_t variant = 0;
};

struct Value {
  double y, error;
};
// activation(g) * x for a gate and a factor that are each off by a rounding.
Value gated_value(ops::GateActivation activation, double g, double x) {
  const double e = u * std::abs(g);
  Value a{};
  switch (activation) {
    case ops::GateActivation::silu:
      a.y = g * sigmoid(g);
      a.error = 1.1 * e + 8 * u * std::abs(a.y);
      break;
    case ops::GateActivation::gelu: {
      const double inner = 0.79788456080286536 * (g + 0.044715 * g * g * g);
      const double t = std::tanh(inner);
      a.y = 0.5 * g * (1.0 + t);
      a.error = 1.2 * e + 0.5 * std::abs(g) * ((1.0 - t * t) * 6 * u * std::abs(inner) + 8 * u) +
                3 * u * std::abs(a.y);
      break;
    }
    case ops::GateActivation::gelu_erf:
      a.y = 0.5 * g * std::erfc(-g / 1.4142135623730951);
      a.error = 1.2 * e + (16 + g * g) * u * std::abs(a.y) + 0x1p-126;
      break;
    case ops::GateActivation::relu2:
      a.y = g > 0.0 ? g * g : 0.0;
      a.error = 4 * u * a.y;
      break;
    case ops::GateActivation::clamped_silu: {
      const double c = std::min(g, 7.0);
      a.y = c * sigmoid(1.702 * c);
      a.error = 2 * e + (8 + 4 * std::abs(1.702 * c)) * u * std::abs(a.y);
      x = std::clamp(x, -7.0, 7.0) + 1.0;
      break;
    }
  }
  return {a.y * x, a.error * std::abs(x) + 4 * u * std::abs(a.y) * (std::abs(x) + 1.0) + 0x1p-126};
}

Case gated_case(const GatedCase& c) {
  constexpr const char* names[] = {"silu", "gelu", "gelu_erf", "relu2", "clamped_silu"};
  constexpr const char* outs[] = {"", " in place", " q8a", " fused q8a"};
  using Out = GatedCase::Out;
  const bool quantized = c.out == Out::q8a || c.out == Out::fused_q8a;
  std::string text =
      label("gated ", names[static_cast<std::size_t>(c.activation)], " rows", c.rows, " dim", c.dim,
            " view+", odd_offset(DType::f32, c.variant), outs[static_cast<std::size_t>(c.out)]);
  if (c.experts != 0) text += label(" bias", c.experts);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape shape{c.rows, c.dim}, biases{std::max(c.experts, 1u), c.dim};
    // Wide enough for the clamps at 7.
    const Stored gate = random_values(random, DType::f32, shape.elements(), 6.0);
    const Stored up = random_values(random, DType::f32, shape.elements(), 6.0);
    const Stored gate_bias = random_values(random, DType::f32, biases.elements(), 2.0);
    const Stored up_bias = random_values(random, DType::f32, biases.elements(), 2.0);
    const auto ids = random_ids(random, c.rows, c.experts);
    const auto at = [&](std::size_t i) { return odd_offset(DType::f32, c.variant + i); };
    Prepared p;
    p.add(input(DType::f32, shape, gate.bytes, at(0)));
    p.add(input(DType::f32, shape, up.bytes, at(1)));
    p.add(input(DType::u32, {c.rows}, words(ids), 4));
    p.add(input(DType::f32, biases, gate_bias.bytes, at(2)));
    p.add(input(DType::f32, biases, up_bias.bytes, at(3)));
    p.add(quantized               ? output(DType::q8a, shape, 8)
          : c.out == Out::in_gate ? in_place(p.operands, 0)
                                  : output(DType::f32, shape, at(4)));
    p.encode = [c](GraphSession& s, Tensors t) {
      const bool fused = c.out == Out::fused_q8a, has_bias = c.experts != 0;
      const Tensor out = fused ? s.scratch(DType::f32, t[0].shape) : t[5];
      ops::gated(s, {.gate = t[0],
                     .up = t[1],
                     .out = out,
                     .activation = c.activation,
                     .ids = has_bias ? t[2] : Tensor{},
                     .gate_bias = has_bias ? t[3] : Tensor{},
                     .up_bias = has_bias ? t[4] : Tensor{}});
      if (fused) ops::quantize(s, {.x = out, .out = t[5]});
    };
    p.expect = [=](bool) {
      Expect e{.operand = 5};
      for (std::size_t i = 0; i < shape.elements(); ++i) {
        const std::size_t id = ids[i / c.dim], bias = id * c.dim + i % c.dim;
        const bool has_bias = id < c.experts;
        const Value v =
            gated_value(c.activation, gate.values[i] + (has_bias ? gate_bias.values[bias] : 0.0),
                        up.values[i] + (has_bias ? up_bias.values[bias] : 0.0));
        e.want.push_back(v.y);
        e.bound.push_back(v.error);
      }
      if (quantized) e.bound = q8a_error(e.want, e.bound);
      return std::vector{e};
    };
    const std::size_t per_row[] = {0, 1, 2, 5};
    return row ? take_row(p, *row, per_row) : p;
  };
  Case k{"moe", text, Op::gated, DType::f32, c.rows, c.out == Out::fused_q8a ? 1u : 0u, prepare};
  k.form = quantized ? ops::form_quantized : 0;
  return k;
}

}  // namespace

void add_moe(Set set, std::vector<Case>& cases) {
  draw(cases, "gate", set == Set::full ? 600 : 150, [](Random& r, std::size_t) {
    GateCase c;
    c.tokens = r.pick<std::uint32_t>({1, 2, 7, 33});
    c.experts = r.pick<std::uint32_t>({1, 3, 8, 33, 128});
    c.used = 1 + r.below(std::min(c.experts, 8u));
    c.sigmoid = r.below(3) == 0;
    c.bias = r.below(3) == 0;
    c.expert_scale = r.below(3) == 0;
    c.renormalise = r.below(3) != 0;
    if (r.below(3) == 0) c.scale = 2.5f;
    c.variant = r.below(5);
    return gate_case(c);
  });
  draw(cases, "reduce", set == Set::full ? 600 : 150, [](Random& r, std::size_t) {
    ReduceCase c;
    c.tokens = r.pick<std::uint32_t>({1, 2, 7, 33});
    c.used = r.pick<std::uint32_t>({1, 2, 3, 8});
    c.dim = r.pick<std::uint32_t>({1, 7, 16, 33, 64, 100, 257});
    c.residual = r.below(2) == 0;
    c.shared = r.below(2) == 0;
    c.gate = c.shared && r.below(2) == 0;
    c.in_place = r.below(2) == 0;
    if (r.below(3) == 0) c.experts = r.pick<std::uint32_t>({1, 5});
    c.variant = r.below(5);
    return reduce_case(c);
  });
  draw(cases, "gated", set == Set::full ? 800 : 200, [](Random& r, std::size_t i) {
    GatedCase c;
    c.activation = static_cast<ops::GateActivation>(i % 5);
    c.out = static_cast<GatedCase::Out>(i / 5 % 4);
    const bool whole = c.out == GatedCase::Out::q8a || c.out == GatedCase::Out::fused_q8a;
    c.rows = r.pick<std::uint32_t>({1, 2, 7, 33});
    c.dim = whole ? 32 * r.pick<std::uint32_t>({1, 2, 3, 9})
                  : r.pick<std::uint32_t>({1, 7, 16, 33, 64, 100, 257});
    if (r.below(2) == 0) c.experts = r.pick<std::uint32_t>({1, 5});
    c.variant = r.below(5);
    return gated_case(c);
  });
}

}  // namespace onepass::conformance
