// What the elementwise, move, sample, embed, moe and quantize ops refuse.
#include <limits>

#include "op_checks.h"

namespace onepass::test::op_checks_data_test {
namespace {

class DataOpChecks : public OpChecks {};

TEST_F(DataOpChecks, ActivationsScaleAndCast) {
  expect_accepted([](GraphSession& s) {
    for (DType type : {DType::f32, DType::f16, DType::bf16}) {
      const Tensor a = s.scratch(type, {2, 3}), b = s.scratch(type, {2, 3});
      ops::silu(s, {.x = a, .out = a});
      ops::gelu_erf(s, {.x = a, .out = b});
      ops::relu2(s, {.x = a, .out = a});
      ops::sigmoid(s, {.x = a, .out = a});
      ops::gelu_mul(s, {.a = a, .b = b, .out = a});
      ops::gelu_erf_mul(s, {.a = a, .b = b, .out = a});
      ops::sigmoid_mul(s, {.a = a, .b = b, .out = b});
      ops::scale(s, {.x = a, .out = a, .factor = 0.5f});
      ops::add(s, {.a = a, .b = s.scratch(type, {3}), .out = a});
      ops::mul(s, {.a = a, .b = s.scratch(type, {3}), .out = b});
      ops::cast(s, {.x = a, .out = f32(s, {2, 3})});
    }
  });
  expect_invalid("add: a is [2, 3], b is [2]", [](GraphSession& s) {
    ops::add(s, {.a = f32(s, {2, 3}), .b = f32(s, {2}), .out = f32(s, {2, 3})});
  });
  expect_invalid("add: out overlaps b", [](GraphSession& s) {
    const Tensor a = f32(s, {2, 3});
    ops::add(s, {.a = a, .b = part(a, 0, {3}), .out = a});
  });
  expect_invalid("silu_mul: a is [2, 3], b is [3]", [](GraphSession& s) {
    ops::silu_mul(s, {.a = f32(s, {2, 3}), .b = f32(s, {3}), .out = f32(s, {2, 3})});
  });
  expect_invalid("scale: factor must be finite", [](GraphSession& s) {
    const Tensor a = f32(s, {2});
    ops::scale(s, {.x = a, .out = a, .factor = std::numeric_limits<float>::infinity()});
  });
  expect_unsupported("cast: out is q8_0, expected f32, f16 or bf16", [](GraphSession& s) {
    ops::cast(s, {.x = f32(s, {32}), .out = s.scratch(DType::q8_0, {32})});
  });
  expect_invalid("cast: x is [2, 3], out is [6]", [](GraphSession& s) {
    ops::cast(s, {.x = f32(s, {2, 3}), .out = s.scratch(DType::f16, {6})});
  });
  expect_invalid("cast: out overlaps x", [](GraphSession& s) {
    const Tensor a = f32(s, {4});
    ops::cast(s, {.x = a, .out = tensor(a.view, DType::f16, {4})});
  });
  expect_invalid("sigmoid: x is [4], out is [5]",
                 [](GraphSession& s) { ops::sigmoid(s, {.x = f32(s, {4}), .out = f32(s, {5})}); });
}

TEST_F(DataOpChecks, Move) {
  expect_accepted([](GraphSession& s) {
    const Tensor ids = s.scratch(DType::u32, {5});
    ops::gather(s, {.x = f32(s, {3, 8}), .indices = ids, .out = f32(s, {5, 8})});
    ops::gather(s, {.x = s.scratch(DType::q8_0, {3, 64}),
                    .indices = ids,
                    .out = s.scratch(DType::q8_0, {5, 64})});
    ops::transpose(s, {.x = f32(s, {2, 3, 4}), .out = f32(s, {2, 4, 3})});
    ops::transpose(s, {.x = f32(s, {2, 3, 4}), .out = f32(s, {3, 2, 4}), .keep_last = true});
    ops::slice(s, {.x = f32(s, {2, 8}), .out = f32(s, {2, 3}), .start = 5});
    ops::put(s, {.x = f32(s, {2, 3}), .into = f32(s, {2, 8}), .start = 5});
    ops::concat(s, {.a = f32(s, {2, 3}), .b = f32(s, {2, 4}), .out = f32(s, {2, 7})});
  });
  expect_invalid("gather: out is [4, 8], expected [5, 8]", [](GraphSession& s) {
    ops::gather(
        s, {.x = f32(s, {3, 8}), .indices = s.scratch(DType::u32, {5}), .out = f32(s, {4, 8})});
  });
  expect_unsupported("gather: indices is f32, expected u32", [](GraphSession& s) {
    ops::gather(s, {.x = f32(s, {3, 8}), .indices = f32(s, {5}), .out = f32(s, {5, 8})});
  });
  expect_unsupported("gather: x is q4_0_r16", [](GraphSession& s) {
    ops::gather(s, {.x = s.scratch(formats::q4_0_r16, {16, 32}),
                    .indices = s.scratch(DType::u32, {5}),
                    .out = s.scratch(formats::q4_0_r16, {16, 32})});
  });
  expect_invalid("transpose: out is [2, 3], expected [3, 2]", [](GraphSession& s) {
    ops::transpose(s, {.x = f32(s, {2, 3}), .out = f32(s, {2, 3})});
  });
  expect_invalid("transpose: x has 2 dimensions, expected at least 3", [](GraphSession& s) {
    ops::transpose(s, {.x = f32(s, {2, 3}), .out = f32(s, {3, 2}), .keep_last = true});
  });
  expect_unsupported("transpose: x is q4_0", [](GraphSession& s) {
    const Tensor x = s.scratch(DType::q4_0, {32, 32});
    ops::transpose(s, {.x = x, .out = x});
  });
  expect_invalid("slice: columns 6 to 9, x has 8", [](GraphSession& s) {
    ops::slice(s, {.x = f32(s, {2, 8}), .out = f32(s, {2, 3}), .start = 6});
  });
  expect_invalid("slice: columns 4294967295 to 4294967298, x has 8", [](GraphSession& s) {
    ops::slice(s, {.x = f32(s, {2, 8}), .out = f32(s, {2, 3}), .start = 0xffffffffu});
  });
  expect_invalid("slice: x is [2, 8], out is [3, 3]", [](GraphSession& s) {
    ops::slice(s, {.x = f32(s, {2, 8}), .out = f32(s, {3, 3})});
  });
  expect_invalid("put: columns 6 to 9, into has 8", [](GraphSession& s) {
    ops::put(s, {.x = f32(s, {2, 3}), .into = f32(s, {2, 8}), .start = 6});
  });
  expect_invalid("put: into overlaps x", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 8});
    ops::put(s, {.x = x, .into = x});
  });
  expect_invalid("concat: a has 3 columns, b 4, out 8", [](GraphSession& s) {
    ops::concat(s, {.a = f32(s, {2, 3}), .b = f32(s, {2, 4}), .out = f32(s, {2, 8})});
  });
  expect_invalid("concat: a is [2, 3], b is [1, 4]", [](GraphSession& s) {
    ops::concat(s, {.a = f32(s, {2, 3}), .b = f32(s, {1, 4}), .out = f32(s, {2, 7})});
  });
}

TEST_F(DataOpChecks, Selection) {
  expect_accepted([](GraphSession& s) {
    const Tensor x = f32(s, {2, 10});
    ops::argsort(s, {.x = x, .out = s.scratch(DType::u32, {2, 10})});
    ops::top_k(s, {.x = x, .values = f32(s, {2, 10}), .ids = s.scratch(DType::u32, {2, 10})});
    ops::sample(s, {.logits = x, .out = s.scratch(DType::u32, {2}), .step = step(s, 2, 1)});
  });
  expect_invalid("argsort: x is [2, 10], out is [2]", [](GraphSession& s) {
    ops::argsort(s, {.x = f32(s, {2, 10}), .out = s.scratch(DType::u32, {2})});
  });
  expect_invalid("top_k: values has 11 columns, x has 10", [](GraphSession& s) {
    ops::top_k(
        s,
        {.x = f32(s, {2, 10}), .values = f32(s, {2, 11}), .ids = s.scratch(DType::u32, {2, 11})});
  });
  expect_invalid("top_k: values is [2, 3], ids is [2, 4]", [](GraphSession& s) {
    ops::top_k(
        s, {.x = f32(s, {2, 10}), .values = f32(s, {2, 3}), .ids = s.scratch(DType::u32, {2, 4})});
  });
  expect_invalid("top_k: x is [2, 10], values is [1, 3]", [](GraphSession& s) {
    ops::top_k(
        s, {.x = f32(s, {2, 10}), .values = f32(s, {1, 3}), .ids = s.scratch(DType::u32, {1, 3})});
  });
  expect_invalid("top_k: ids overlaps values", [](GraphSession& s) {
    const Tensor values = f32(s, {1, 3});
    ops::top_k(
        s,
        {.x = f32(s, {1, 10}), .values = values, .ids = tensor(values.view, DType::u32, {1, 3})});
  });
}

TEST_F(DataOpChecks, Sample) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto args = [](GraphSession& s) -> ops::Sample {
    return {.logits = f32(s, {2, 10}), .out = s.scratch(DType::u32, {2}), .step = step(s, 2, 1)};
  };
  const auto with = [&](const std::string& words, float temperature, float top_p, float min_p) {
    expect_invalid(words, [&](GraphSession& s) {
      ops::Sample a = args(s);
      a.temperature = temperature;
      a.top_p = top_p;
      a.min_p = min_p;
      ops::sample(s, a);
    });
  };
  for (float t : {-0.5f, inf, std::numeric_limits<float>::quiet_NaN()}) {
    with("sample: temperature must be finite and not negative", t, 1.0f, 0.0f);
  }
  for (float p : {0.0f, -1.0f, 1.5f, std::numeric_limits<float>::quiet_NaN()}) {
    with("sample: top_p must be above 0 and at most 1", 1.0f, p, 0.0f);
  }
  for (float p : {-0.1f, 1.1f, inf}) with("sample: min_p must be between 0 and 1", 1.0f, 1.0f, p);
  expect_invalid("sample: step is missing", [&](GraphSession& s) {
    ops::Sample a = args(s);
    a.step = {};
    ops::sample(s, a);
  });
  expect_invalid("sample: logits is [2, 10], out has 3 elements", [&](GraphSession& s) {
    ops::Sample a = args(s);
    a.out = s.scratch(DType::u32, {3});
    ops::sample(s, a);
  });
  expect_unsupported("sample: logits is f16, expected f32", [&](GraphSession& s) {
    ops::Sample a = args(s);
    a.logits = s.scratch(DType::f16, {2, 10});
    ops::sample(s, a);
  });
}

TEST_F(DataOpChecks, Embed) {
  expect_accepted([](GraphSession& s) {
    for (Format type :
         {formats::bf16, formats::q4_1, formats::q5_0, formats::q5_1, formats::iq4_nl,
          formats::q4_0_r16, formats::q2_k, formats::q3_k, formats::q4_k, formats::q5_k,
          formats::q6_k, formats::iq4_xs, formats::q6_k_r16, formats::a4_bf16_r16}) {
      ops::embed(s, {.table = s.scratch(type, {10, 256}),
                     .out = f32(s, {2, 256}),
                     .tokens = step(s, 2, 1),
                     .scale = 16.0f});
    }
  });
  expect_unsupported("embed: table is q8a", [](GraphSession& s) {
    ops::embed(
        s, {.table = s.scratch(DType::q8a, {10, 32}), .out = f32(s, {2, 32}), .tokens = step(s)});
  });
  expect_invalid("embed: scale must be finite", [](GraphSession& s) {
    ops::embed(s, {.table = f32(s, {10, 32}),
                   .out = f32(s, {2, 32}),
                   .tokens = step(s),
                   .scale = std::numeric_limits<float>::quiet_NaN()});
  });
  expect_invalid("table has rows of 128 elements, q2_k needs a multiple of 256",
                 [](GraphSession& s) {
                   Tensor table = s.scratch(DType::q2_k, {10, 256});
                   table.shape = {20, 128};
                   ops::embed(s, {.table = table, .out = f32(s, {2, 128}), .tokens = step(s)});
                 });
}

TEST_F(DataOpChecks, EmbedAffine) {
  const auto args = [](GraphSession& s, std::uint32_t bits, std::uint32_t group) {
    return ops::EmbedAffine{.weight = s.scratch(DType::u32, {5, 128 * bits / 32}),
                            .scales = s.scratch(DType::f16, {5, 128 / group}),
                            .biases = s.scratch(DType::f16, {5, 128 / group}),
                            .out = s.scratch(DType::f32, {2, 128}),
                            .tokens = step(s, 2, 1),
                            .bits = bits,
                            .group_size = group};
  };
  expect_accepted([&](GraphSession& s) {
    for (std::uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
      for (std::uint32_t group : {32u, 64u, 128u}) ops::embed_affine(s, args(s, bits, group));
    }
  });
  expect_invalid("embed_affine: bits is 7, expected 2, 3, 4, 5, 6 or 8",
                 [&](GraphSession& s) { ops::embed_affine(s, args(s, 7, 64)); });
  expect_invalid("embed_affine: group_size is 16",
                 [&](GraphSession& s) { ops::embed_affine(s, args(s, 4, 16)); });
  expect_invalid("embed_affine: weight has 16 words per row, 128 values of 8 bits need 32",
                 [&](GraphSession& s) {
                   ops::EmbedAffine a = args(s, 4, 64);
                   a.bits = 8;
                   ops::embed_affine(s, a);
                 });
  expect_invalid("embed_affine: scales is [5, 2], expected [5, 4]", [&](GraphSession& s) {
    ops::EmbedAffine a = args(s, 4, 64);
    a.group_size = 32;
    ops::embed_affine(s, a);
  });
  expect_invalid("embed_affine: out has 96 columns, expected a multiple of group_size 64",
                 [&](GraphSession& s) {
                   ops::EmbedAffine a = args(s, 4, 64);
                   a.out = f32(s, {2, 96});
                   ops::embed_affine(s, a);
                 });
}

TEST_F(DataOpChecks, Moe) {
  const auto gate = [](GraphSession& s) -> ops::MoeGate {
    return {
        .logits = f32(s, {3, 8}), .ids = s.scratch(DType::u32, {3, 2}), .weights = f32(s, {3, 2})};
  };
  const auto reduce = [](GraphSession& s) -> ops::MoeReduce {
    return {.y = f32(s, {3, 2, 16}), .weights = f32(s, {3, 2}), .out = f32(s, {3, 16})};
  };
  expect_accepted([&](GraphSession& s) {
    ops::MoeGate g = gate(s);
    ops::moe_gate(s, g);
    g.bias = f32(s, {8});
    g.expert_scale = f32(s, {8});
    g.score = ops::MoeScore::sigmoid;
    ops::moe_gate(s, g);
    ops::MoeReduce r = reduce(s);
    ops::moe_reduce(s, r);
    r.residual = r.out;
    r.shared = f32(s, {3, 16});
    ops::moe_reduce(s, r);
    r.shared_gate = f32(s, {3});
    ops::moe_reduce(s, r);
  });
  expect_invalid("moe_gate: ids takes 9 of 8 experts", [&](GraphSession& s) {
    ops::MoeGate g = gate(s);
    g.ids = s.scratch(DType::u32, {3, 9});
    g.weights = f32(s, {3, 9});
    ops::moe_gate(s, g);
  });
  expect_invalid("moe_gate: logits has 1025 experts, at most 1024", [&](GraphSession& s) {
    ops::MoeGate g = gate(s);
    g.logits = f32(s, {3, 1025});
    ops::moe_gate(s, g);
  });
  expect_invalid("moe_gate: ids is [3, 2], weights is [3, 3]", [&](GraphSession& s) {
    ops::MoeGate g = gate(s);
    g.weights = f32(s, {3, 3});
    ops::moe_gate(s, g);
  });
  expect_invalid("moe_gate: bias is [7], expected [8]", [&](GraphSession& s) {
    ops::MoeGate g = gate(s);
    g.bias = f32(s, {7});
    ops::moe_gate(s, g);
  });
  expect_invalid("moe_gate: weights overlaps an input", [&](GraphSession& s) {
    ops::MoeGate g = gate(s);
    g.weights = part(g.logits, 0, {3, 2});
    ops::moe_gate(s, g);
  });
  expect_invalid("moe_reduce: out is [3, 15], expected [3, 16]", [&](GraphSession& s) {
    ops::MoeReduce r = reduce(s);
    r.out = f32(s, {3, 15});
    ops::moe_reduce(s, r);
  });
  expect_invalid("moe_reduce: weights is [2, 2], expected [3, 2]", [&](GraphSession& s) {
    ops::MoeReduce r = reduce(s);
    r.weights = f32(s, {2, 2});
    ops::moe_reduce(s, r);
  });
  expect_invalid("moe_reduce: shared_gate without shared", [&](GraphSession& s) {
    ops::MoeReduce r = reduce(s);
    r.shared_gate = f32(s, {3});
    ops::moe_reduce(s, r);
  });
  const auto gated = [](GraphSession& s) -> ops::Gated {
    return {.gate = f32(s, {3, 2, 32}), .up = f32(s, {3, 2, 32}), .out = f32(s, {3, 2, 32})};
  };
  expect_accepted([&](GraphSession& s) {
    ops::Gated g = gated(s);
    ops::gated(s, g);
    g.activation = ops::GateActivation::clamped_silu;
    g.ids = s.scratch(DType::u32, {3, 2});
    g.gate_bias = f32(s, {8, 32}), g.up_bias = f32(s, {8, 32});
    g.out = s.scratch(DType::q8a, {3, 2, 32});
    ops::gated(s, g);
    ops::MoeReduce r = reduce(s);
    r.ids = g.ids, r.bias = f32(s, {8, 16});
    ops::moe_reduce(s, r);
  });
  expect_invalid("gated: ids, gate_bias and up_bias go together", [&](GraphSession& s) {
    ops::Gated g = gated(s);
    g.gate_bias = f32(s, {8, 32});
    ops::gated(s, g);
  });
  expect_invalid("gated: gate_bias is [8, 16], gate has 32 columns", [&](GraphSession& s) {
    ops::Gated g = gated(s);
    g.ids = s.scratch(DType::u32, {3, 2});
    g.gate_bias = f32(s, {8, 16}), g.up_bias = f32(s, {8, 16});
    ops::gated(s, g);
  });
  expect_invalid("moe_reduce: ids is [3], expected [3, 2]", [&](GraphSession& s) {
    ops::MoeReduce r = reduce(s);
    r.ids = s.scratch(DType::u32, {3}), r.bias = f32(s, {8, 16});
    ops::moe_reduce(s, r);
  });
  expect_invalid("moe_reduce: out overlaps y", [&](GraphSession& s) {
    ops::MoeReduce r = reduce(s);
    r.out = part(r.y, 0, {3, 16});
    ops::moe_reduce(s, r);
  });
}

TEST_F(DataOpChecks, Quantize) {
  expect_accepted([](GraphSession& s) {
    for (DType type : {DType::q8a, DType::q4_0, DType::q5_1, DType::q3_k, DType::iq4_xs}) {
      const Tensor q = s.scratch(type, {3, 256});
      ops::quantize(s, {.x = f32(s, {3, 256}), .out = q});
      ops::dequantize(s, {.x = q, .out = f32(s, {3, 256})});
    }
    ops::dequantize(s, {.x = s.scratch(formats::q6_k_r16, {3, 256}), .out = f32(s, {3, 256})});
  });
  expect_unsupported("quantize: out is f16", [](GraphSession& s) {
    ops::quantize(s, {.x = f32(s, {32}), .out = s.scratch(DType::f16, {32})});
  });
  expect_unsupported("quantize: out is q4_0_r16", [](GraphSession& s) {
    ops::quantize(s, {.x = f32(s, {16, 32}), .out = s.scratch(formats::q4_0_r16, {16, 32})});
  });
  expect_unsupported("dequantize: x is bf16", [](GraphSession& s) {
    ops::dequantize(s, {.x = s.scratch(DType::bf16, {32}), .out = f32(s, {32})});
  });
  expect_invalid("dequantize: x is [3, 32], out is [96]", [](GraphSession& s) {
    ops::dequantize(s, {.x = s.scratch(DType::q8_0, {3, 32}), .out = f32(s, {96})});
  });
  expect_invalid(
      "dequantize: x is [2, 16, 32] of q4_0_r16, expected one matrix", [](GraphSession& s) {
        ops::dequantize(
            s, {.x = s.scratch(formats::q4_0_r16, {2, 16, 32}), .out = f32(s, {2, 16, 32})});
      });
}

}  // namespace
}  // namespace onepass::test::op_checks_data_test
