// What the host ops refuse, with which words, and at which line.
#include "op_checks.h"

#include <limits>

namespace onepass::test::op_checks_test {
namespace {

TEST_F(OpChecks, RmsNorm) {
  expect_accepted([](GraphSession& s) {
    const Tensor x = f32(s, {2, 3, 8});
    ops::rms_norm(s, {.x = x, .weight = f32(s, {8}), .out = x});
    ops::rms_norm(s, {.x = x, .out = f32(s, {6, 8})});
    const Tensor half = s.scratch(DType::f16, {2, 8});
    ops::rms_norm(s, {.x = half, .weight = f32(s, {8}), .out = half});
    ops::rms_norm(s, {.x = half, .weight = s.scratch(DType::f16, {8}), .out = half});
  });
  expect_invalid("rms_norm: weight has 7 elements, x has 8 columns", [](GraphSession& s) {
    ops::rms_norm(s, {.x = f32(s, {2, 8}), .weight = f32(s, {7}), .out = f32(s, {2, 8})});
  });
  expect_invalid("rms_norm: x is missing", [](GraphSession& s) {
    ops::rms_norm(s, {.x = {}, .out = f32(s, {2, 8})});
  });
  expect_invalid("rms_norm: x is [2, 8], out is [2, 9]", [](GraphSession& s) {
    ops::rms_norm(s, {.x = f32(s, {2, 8}), .out = f32(s, {2, 9})});
  });
  expect_invalid("rms_norm: x is [2, 8], out is [3, 8]", [](GraphSession& s) {
    ops::rms_norm(s, {.x = f32(s, {2, 8}), .out = f32(s, {3, 8})});
  });
  expect_invalid("x is f32, out is f16", [](GraphSession& s) {
    ops::rms_norm(s, {.x = f32(s, {2, 8}), .out = s.scratch(DType::f16, {2, 8})});
  });
  expect_unsupported("x is u32, expected f32, f16 or bf16", [](GraphSession& s) {
    ops::rms_norm(s, {.x = s.scratch(DType::u32, {2, 8}), .out = f32(s, {2, 8})});
  });
  expect_unsupported("weight is f16, expected f32", [](GraphSession& s) {
    ops::rms_norm(
        s, {.x = f32(s, {2, 8}), .weight = s.scratch(DType::f16, {8}), .out = f32(s, {2, 8})});
  });
  expect_invalid("eps", [](GraphSession& s) {
    ops::rms_norm(s, {.x = f32(s, {2, 8}), .out = f32(s, {2, 8}), .eps = -1.0f});
  });
}

TEST_F(OpChecks, ViewsThatDoNotHoldTheirTensor) {
  expect_invalid("x [2, 8] of f32 needs 64 bytes, its view has 60", [](GraphSession& s) {
    ops::rms_norm(s, {.x = part(f32(s, {2, 8}), 4, {2, 8}), .out = f32(s, {2, 8})});
  });
  expect_invalid("x starts at byte", [](GraphSession& s) {
    ops::rms_norm(s, {.x = part(f32(s, {4, 8}), 2, {2, 8}), .out = f32(s, {2, 8})});
  });
  expect_invalid("x is empty", [](GraphSession& s) {
    Tensor x = f32(s, {2, 8});
    x.shape = {0, 8};
    ops::rms_norm(s, {.x = x, .out = f32(s, {2, 8})});
  });
  expect_invalid("needs", [](GraphSession& s) {  // a size that overflows 64 bits
    Tensor x = f32(s, {2, 8});
    x.shape = {0xffffffffu, 0xffffffffu, 0xffffffffu, 8};
    ops::softmax(s, {.x = x, .out = x});
  });
  expect_invalid("x has 0 dimensions", [](GraphSession& s) {
    Tensor x = f32(s, {1});
    x.shape = {};
    ops::softmax(s, {.x = x, .out = x});
  });
}

TEST_F(OpChecks, Overlap) {
  expect_invalid("out overlaps x without being the same memory", [](GraphSession& s) {
    const Tensor all = f32(s, {3, 8});
    ops::rms_norm(s, {.x = part(all, 0, {2, 8}), .out = part(all, 32, {2, 8})});
  });
  expect_accepted([](GraphSession& s) {
    const Tensor all = f32(s, {4, 8});
    ops::rms_norm(s, {.x = part(all, 0, {2, 8}), .out = part(all, 64, {2, 8})});
  });
  expect_invalid("out overlaps weight", [](GraphSession& s) {
    const Tensor x = f32(s, {1, 8});
    ops::rms_norm(s, {.x = x, .weight = part(x, 0, {8}), .out = x});
  });
  expect_invalid("out overlaps b without being the same memory", [](GraphSession& s) {
    const Tensor all = f32(s, {24});
    ops::add(s, {.a = f32(s, {8}), .b = part(all, 0, {8}), .out = part(all, 4, {8})});
  });
  expect_invalid("out overlaps x", [](GraphSession& s) {
    const Tensor x = f32(s, {1, 32});
    ops::matmul(s, {.x = x, .weight = f32(s, {32, 32}), .out = x});
  });
  expect_invalid("out overlaps x", [](GraphSession& s) {
    const Tensor x = f32(s, {4});
    ops::copy(s, {.x = x, .out = x});
  });
}

TEST_F(OpChecks, Elementwise) {
  expect_accepted([](GraphSession& s) {
    const Tensor a = f32(s, {2, 3}), b = f32(s, {2, 3});
    ops::add(s, {.a = a, .b = b, .out = a});
    ops::mul(s, {.a = a, .b = a, .out = b});
    ops::silu_mul(s, {.a = a, .b = b, .out = b});
    ops::gelu(s, {.x = a, .out = a});
    ops::softcap(s, {.x = a, .out = b, .cap = 30.0f});
    ops::copy(s, {.x = a, .out = f32(s, {6})});
  });
  expect_invalid("mul: a is [2, 3], b is [3, 2]", [](GraphSession& s) {
    ops::mul(s, {.a = f32(s, {2, 3}), .b = f32(s, {3, 2}), .out = f32(s, {2, 3})});
  });
  expect_invalid("silu_mul: a is f32, b is bf16", [](GraphSession& s) {
    ops::silu_mul(s, {.a = f32(s, {2}), .b = s.scratch(DType::bf16, {2}), .out = f32(s, {2})});
  });
  expect_unsupported("gelu: x is q4_0", [](GraphSession& s) {
    ops::gelu(s, {.x = s.scratch(DType::q4_0, {32}), .out = f32(s, {32})});
  });
  for (float cap : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    expect_invalid("softcap: cap must be", [cap](GraphSession& s) {
      ops::softcap(s, {.x = f32(s, {2}), .out = f32(s, {2}), .cap = cap});
    });
  }
  expect_invalid("copy: x is [2, 3], out is [5]", [](GraphSession& s) {
    ops::copy(s, {.x = f32(s, {2, 3}), .out = f32(s, {5})});
  });
  expect_invalid("softmax: x is [2, 3], out is [3, 2]", [](GraphSession& s) {
    ops::softmax(s, {.x = f32(s, {2, 3}), .out = f32(s, {3, 2})});
  });
}

TEST_F(OpChecks, Rope) {
  expect_accepted([](GraphSession& s) {
    const Tensor x = f32(s, {2, 3, 8});
    ops::rope(s, {.x = x, .out = x, .positions = step(s)});
    ops::rope(s, {.x = x,
                  .out = f32(s, {2, 3, 8}),
                  .positions = s.scratch(DType::u32, {2}).view,
                  .positions_are_u32 = true,
                  .mode = ops::RopeMode::neox_full,
                  .rope_dim = 4,
                  .freq_factors = f32(s, {2})});
  });
  expect_invalid("rope: x has 2 dimensions, expected 3", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 8});
    ops::rope(s, {.x = x, .out = x, .positions = step(s)});
  });
  for (std::uint32_t rope_dim : {3u, 10u}) {
    expect_invalid("rope: rope_dim is", [rope_dim](GraphSession& s) {
      const Tensor x = f32(s, {2, 3, 8});
      ops::rope(s, {.x = x, .out = x, .positions = step(s), .rope_dim = rope_dim});
    });
  }
  expect_invalid("rope: positions has 4 bytes", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 3, 8});
    ops::rope(s, {.x = x,
                  .out = x,
                  .positions = s.scratch(DType::u32, {1}).view,
                  .positions_are_u32 = true});
  });
  expect_invalid("rope: positions is missing", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 3, 8});
    ops::rope(s, {.x = x, .out = x, .positions = {}});
  });
  expect_invalid("rope: freq_factors has 3 elements, expected 4", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 3, 8});
    ops::rope(s, {.x = x, .out = x, .positions = step(s), .freq_factors = f32(s, {3})});
  });
  expect_invalid("rope: theta", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 3, 8});
    ops::rope(s, {.x = x, .out = x, .positions = step(s), .theta = 0.0f});
  });
}

TEST_F(OpChecks, Matmul) {
  expect_accepted([](GraphSession& s) {
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q8_0}) {
      ops::matmul(
          s, {.x = f32(s, {3, 64}), .weight = s.scratch(type, {5, 64}), .out = f32(s, {3, 5})});
    }
  });
  expect_invalid("matmul: weight is [5, 64], x has 32 columns", [](GraphSession& s) {
    ops::matmul(s, {.x = f32(s, {3, 32}), .weight = f32(s, {5, 64}), .out = f32(s, {3, 5})});
  });
  expect_invalid("matmul: weight is [5, 64], out has 6 columns", [](GraphSession& s) {
    ops::matmul(s, {.x = f32(s, {3, 64}), .weight = f32(s, {5, 64}), .out = f32(s, {3, 6})});
  });
  expect_invalid("matmul: x is [3, 64], out is [2, 5]", [](GraphSession& s) {
    ops::matmul(s, {.x = f32(s, {3, 64}), .weight = f32(s, {5, 64}), .out = f32(s, {2, 5})});
  });
  expect_invalid("weight has rows of 48 elements, q8_0 needs a multiple of 32",
                 [](GraphSession& s) {
                   Tensor w = s.scratch(DType::q8_0, {4, 32});
                   w.shape = {2, 48};
                   ops::matmul(s, {.x = f32(s, {3, 48}), .weight = w, .out = f32(s, {3, 2})});
                 });
  expect_unsupported("matmul: weight is u8", [](GraphSession& s) {
    ops::matmul(
        s, {.x = f32(s, {3, 64}), .weight = s.scratch(DType::u8, {5, 64}), .out = f32(s, {3, 5})});
  });
  expect_unsupported("matmul: x is f16, expected f32", [](GraphSession& s) {
    ops::matmul(
        s, {.x = s.scratch(DType::f16, {3, 64}), .weight = f32(s, {5, 64}), .out = f32(s, {3, 5})});
  });
}

ops::MatmulAffine affine(GraphSession& s, std::uint32_t bits, std::uint32_t group) {
  return {.x = s.scratch(DType::f32, {2, 128}),
          .weight = s.scratch(DType::u32, {5, 128 * bits / 32}),
          .scales = s.scratch(DType::bf16, {5, 128 / group}),
          .biases = s.scratch(DType::bf16, {5, 128 / group}),
          .out = s.scratch(DType::f32, {2, 5}),
          .bits = bits,
          .group_size = group};
}

TEST_F(OpChecks, MatmulAffine) {
  expect_accepted([](GraphSession& s) {
    for (std::uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
      for (std::uint32_t group : {32u, 64u, 128u}) ops::matmul_affine(s, affine(s, bits, group));
    }
  });
  expect_invalid("bits is 7", [](GraphSession& s) { ops::matmul_affine(s, affine(s, 7, 64)); });
  expect_invalid("group_size is 16",
                 [](GraphSession& s) { ops::matmul_affine(s, affine(s, 4, 16)); });
  expect_invalid("weight has 16 words per row, 128 values of 6 bits need 24", [](GraphSession& s) {
    ops::MatmulAffine a = affine(s, 4, 64);
    a.bits = 6;
    ops::matmul_affine(s, a);
  });
  expect_invalid("scales is [5, 2], expected [5, 4]", [](GraphSession& s) {
    ops::MatmulAffine a = affine(s, 4, 64);
    a.group_size = 32;
    ops::matmul_affine(s, a);
  });
  expect_invalid("scales is bf16, biases is f32", [](GraphSession& s) {
    ops::MatmulAffine a = affine(s, 4, 64);
    a.biases = f32(s, {5, 2});
    ops::matmul_affine(s, a);
  });
  expect_invalid("x has 96 columns, expected a multiple of group_size 64", [](GraphSession& s) {
    ops::MatmulAffine a = affine(s, 4, 64);
    a.x = f32(s, {2, 96});
    ops::matmul_affine(s, a);
  });
}

TEST_F(OpChecks, MatmulId) {
  const auto args = [](GraphSession& s) -> ops::MatmulId {
    return {.x = f32(s, {3, 32}),
            .weight = s.scratch(DType::q4_0, {4, 5, 32}),
            .ids = s.scratch(DType::u32, {3, 2}),
            .out = f32(s, {3, 2, 5})};
  };
  expect_accepted([&](GraphSession& s) { ops::matmul_id(s, args(s)); });
  expect_invalid("ids is [2, 2], x has 3 rows", [&](GraphSession& s) {
    ops::MatmulId a = args(s);
    a.ids = s.scratch(DType::u32, {2, 2});
    ops::matmul_id(s, a);
  });
  expect_invalid("out is [3, 2, 4], expected [3, 2, 5]", [&](GraphSession& s) {
    ops::MatmulId a = args(s);
    a.out = f32(s, {3, 2, 4});
    ops::matmul_id(s, a);
  });
  expect_unsupported("ids is f32, expected u32", [&](GraphSession& s) {
    ops::MatmulId a = args(s);
    a.ids = f32(s, {3, 2});
    ops::matmul_id(s, a);
  });
}

TEST_F(OpChecks, Attention) {
  const auto args = [](GraphSession& s) -> ops::Attention {
    return {.q = f32(s, {2, 4, 8}),
            .k = s.scratch(DType::f16, {1, 2, 16, 8}),
            .v = f32(s, {1, 2, 16, 8}),
            .out = f32(s, {2, 4, 8})};
  };
  expect_accepted([&](GraphSession& s) {
    ops::Attention a = args(s);
    a.kv_len = 16;
    ops::attention(s, a);
    ops::Attention b = args(s);
    b.step = step(s, 2, 1);
    ops::attention(s, b);
  });
  for (std::uint32_t kv_len : {0u, 1u, 17u}) {
    expect_invalid("attention: kv_len is", [&](GraphSession& s) {
      ops::Attention a = args(s);
      a.kv_len = kv_len;
      ops::attention(s, a);
    });
  }
  expect_invalid("with a step it comes from there", [&](GraphSession& s) {
    ops::Attention a = args(s);
    a.step = step(s);
    a.kv_len = 4;
    ops::attention(s, a);
  });
  expect_invalid("q has 3 heads, expected a multiple of k's 2", [&](GraphSession& s) {
    ops::Attention a = args(s);
    a.q = a.out = f32(s, {2, 3, 8});
    a.kv_len = 16;
    ops::attention(s, a);
  });
  expect_invalid("k is [1, 2, 16, 8], v is [1, 2, 15, 8]", [&](GraphSession& s) {
    ops::Attention a = args(s);
    a.v = f32(s, {1, 2, 15, 8});
    ops::attention(s, a);
  });
  expect_invalid("softcap", [&](GraphSession& s) {
    ops::Attention a = args(s);
    a.kv_len = 16;
    a.softcap = -1.0f;
    ops::attention(s, a);
  });
}

TEST_F(OpChecks, AttentionOverOtherCaches) {
  const auto args = [](GraphSession& s) -> ops::Attention {
    return {.q = f32(s, {2, 4, 32}),
            .k = s.scratch(DType::q8_0, {3, 2, 256, 32}),
            .v = s.scratch(DType::f16, {3, 2, 256, 32}),
            .out = f32(s, {2, 4, 32}),
            .step = step(s, 2, 1)};
  };
  const auto with = [&](auto change) {
    return [&args, change](GraphSession& s) {
      ops::Attention a = args(s);
      change(s, a);
      ops::attention(s, a);
    };
  };
  expect_accepted(with([](GraphSession& s, ops::Attention& a) {
    a.sinks = f32(s, {4});
    a.pages = s.scratch(DType::u32, {5}).view;
    a.out = s.scratch(DType::q8a, {2, 128});
  }));
  expect_accepted(with([](GraphSession&, ops::Attention& a) {
    a.ring = true;
    a.window = 255;
  }));
  expect_invalid("window is 256 and there are 2 rows, a ring of 256",
                 with([](GraphSession&, ops::Attention& a) {
                   a.ring = true;
                   a.window = 256;
                 }));
  expect_invalid("window is 0", with([](GraphSession&, ops::Attention& a) { a.ring = true; }));
  expect_invalid("a ring needs causal attention", with([](GraphSession&, ops::Attention& a) {
                   a.ring = true;
                   a.window = 8;
                   a.causal = false;
                 }));
  expect_invalid("a ring or has pages, not both", with([](GraphSession& s, ops::Attention& a) {
                   a.ring = true;
                   a.window = 8;
                   a.pages = s.scratch(DType::u32, {5}).view;
                 }));
  expect_invalid("with pages its third dimension is 256",
                 with([](GraphSession& s, ops::Attention& a) {
                   a.k = a.v = s.scratch(DType::f16, {3, 2, 128, 32});
                   a.pages = s.scratch(DType::u32, {5}).view;
                 }));
  expect_invalid(
      "pages has 7 bytes, expected a multiple of 4",
      with([](GraphSession& s, ops::Attention& a) { a.pages = s.scratch(DType::u8, {7}).view; }));
  expect_invalid("sinks has 3 elements, expected one for each of 4 heads",
                 with([](GraphSession& s, ops::Attention& a) { a.sinks = f32(s, {3}); }));
  expect_unsupported("sinks is f16, expected f32", with([](GraphSession& s, ops::Attention& a) {
                       a.sinks = s.scratch(DType::f16, {4});
                     }));
  expect_invalid("as q8a it is [2, 128]", with([](GraphSession& s, ops::Attention& a) {
                   a.out = s.scratch(DType::q8a, {2, 64});
                 }));
  expect_unsupported("k is bf16, expected f32, f16 or q8_0",
                     with([](GraphSession& s, ops::Attention& a) {
                       a.k = s.scratch(DType::bf16, {3, 2, 256, 32});
                     }));
  for (std::uint32_t dim : {12u, 520u}) {
    expect_invalid("expected a multiple of 8 up to 512",
                   with([dim](GraphSession& s, ops::Attention& a) {
                     a.q = a.out = f32(s, {2, 4, dim});
                     a.k = a.v = f32(s, {3, 2, 256, dim});
                   }));
  }
  expect_invalid("kv_len is 600, expected 2 (rows) to 512 (pages)",
                 with([](GraphSession& s, ops::Attention& a) {
                   a.step = {};
                   a.kv_len = 600;
                   a.pages = s.scratch(DType::u32, {2}).view;
                 }));
  expect_invalid("out overlaps q", with([](GraphSession&, ops::Attention& a) { a.out = a.q; }));
}

TEST_F(OpChecks, Norms) {
  expect_accepted([](GraphSession& s) {
    const Tensor x = f32(s, {2, 8}), y = f32(s, {2, 8}), w = f32(s, {8});
    ops::l2_norm(s, {.x = x, .out = x});
    ops::layer_norm(s, {.x = x, .weight = w, .bias = w, .out = x});
    ops::layer_norm(s, {.x = x, .out = y});
    ops::add_rms_norm(s, {.x = x, .residual = y, .weight = w, .sum = y, .out = x});
    ops::norm_add(s, {.x = x, .weight = w, .residual = y, .out = y});
  });
  expect_invalid("l2_norm: x is [2, 8], out is [2, 9]", [](GraphSession& s) {
    ops::l2_norm(s, {.x = f32(s, {2, 8}), .out = f32(s, {2, 9})});
  });
  expect_invalid("l2_norm: eps", [](GraphSession& s) {
    ops::l2_norm(s, {.x = f32(s, {2, 8}), .out = f32(s, {2, 8}), .eps = -1.0f});
  });
  expect_invalid("layer_norm: bias has 9 elements, x has 8 columns", [](GraphSession& s) {
    ops::layer_norm(s, {.x = f32(s, {2, 8}), .bias = f32(s, {9}), .out = f32(s, {2, 8})});
  });
  expect_invalid("layer_norm: weight is f32, bias is f16", [](GraphSession& s) {
    const Tensor x = s.scratch(DType::f16, {2, 8});
    ops::layer_norm(s,
                    {.x = x, .weight = f32(s, {8}), .bias = s.scratch(DType::f16, {8}), .out = x});
  });
  expect_invalid("add_rms_norm: x is [2, 8], residual is [2, 7]", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 8});
    ops::add_rms_norm(s, {.x = x, .residual = f32(s, {2, 7}), .sum = x, .out = f32(s, {2, 8})});
  });
  expect_invalid("add_rms_norm: out overlaps sum", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 8});
    ops::add_rms_norm(s, {.x = x, .residual = f32(s, {2, 8}), .sum = x, .out = x});
  });
  expect_invalid("norm_add: residual is missing", [](GraphSession& s) {
    const Tensor x = f32(s, {2, 8});
    ops::norm_add(s, {.x = x, .residual = {}, .out = x});
  });
}

TEST_F(OpChecks, SoftmaxMask) {
  expect_accepted([](GraphSession& s) {
    const Tensor x = f32(s, {4, 3, 8});
    ops::softmax(s, {.x = x, .out = x, .mask = f32(s, {3, 8}), .scale = 0.5f});
    ops::softmax(s, {.x = x, .out = x, .mask = s.scratch(DType::bf16, {8})});
  });
  expect_invalid("softmax: mask is [3, 9], x is [4, 3, 8]", [](GraphSession& s) {
    const Tensor x = f32(s, {4, 3, 8});
    ops::softmax(s, {.x = x, .out = x, .mask = f32(s, {3, 9})});
  });
  expect_invalid("softmax: x has 12 rows, expected a multiple of the mask's 5",
                 [](GraphSession& s) {
                   const Tensor x = f32(s, {4, 3, 8});
                   ops::softmax(s, {.x = x, .out = x, .mask = f32(s, {5, 8})});
                 });
  expect_unsupported("softmax: mask is f16, expected f32 or bf16", [](GraphSession& s) {
    const Tensor x = f32(s, {4, 8});
    ops::softmax(s, {.x = x, .out = x, .mask = s.scratch(DType::f16, {4, 8})});
  });
  expect_invalid("softmax: scale", [](GraphSession& s) {
    const Tensor x = f32(s, {4, 8});
    const float infinity = std::numeric_limits<float>::infinity();
    ops::softmax(s, {.x = x, .out = x, .scale = infinity});
  });
}

TEST_F(OpChecks, RopeScaling) {
  const auto with = [](ops::RopeScaling scaling, float theta = 10000.0f) {
    return [scaling, theta](GraphSession& s) {
      const Tensor x = f32(s, {2, 2, 8});
      ops::rope(s, {.x = x,
                    .out = x,
                    .positions = step(s, 2, 1),
                    .theta = theta,
                    .mode = ops::RopeMode::neox,
                    .scaling = scaling});
    };
  };
  expect_accepted(with({.freq_scale = 0.125f}));
  expect_accepted(with({.freq_scale = 0.25f, .ext_factor = 1.0f, .n_ctx_orig = 4096}));
  expect_invalid("scaling.freq_scale", with({.freq_scale = 0.0f}));
  expect_invalid("scaling.ext_factor", with({.ext_factor = 1.5f, .n_ctx_orig = 4096}));
  expect_invalid("scaling.n_ctx_orig is 0", with({.ext_factor = 1.0f}));
  expect_invalid("scaling.beta_slow",
                 with({.ext_factor = 1.0f, .beta_slow = 0.0f, .n_ctx_orig = 1}));
  expect_invalid("theta must be above 1", with({.ext_factor = 1.0f, .n_ctx_orig = 4096}, 1.0f));
}

TEST_F(OpChecks, Caches) {
  const auto cache = [](GraphSession& s) { return s.scratch(DType::q8_0, {3, 2, 256, 32}); };
  expect_accepted([&](GraphSession& s) {
    const Tensor x = f32(s, {2, 2, 32});
    ops::kv_store(s, {.x = x, .cache = cache(s), .step = step(s, 2, 1), .ring = true});
    ops::kv_store(s, {.x = x,
                      .cache = cache(s),
                      .step = step(s, 2, 1),
                      .pages = s.scratch(DType::u32, {4}).view});
    ops::kv_copy(s, {.cache = cache(s), .from = 2, .to = 0, .n = 256});
    ops::kv_copy(s, {.cache = cache(s), .from = 0, .to = 1, .n = 9999, .ring = true});
  });
  expect_invalid("kv_store: a cache is a ring or has pages", [&](GraphSession& s) {
    ops::kv_store(s, {.x = f32(s, {2, 2, 32}),
                      .cache = cache(s),
                      .step = step(s, 2, 1),
                      .pages = s.scratch(DType::u32, {4}).view,
                      .ring = true});
  });
  expect_invalid("kv_copy: from is slot 3, the cache has 3", [&](GraphSession& s) {
    ops::kv_copy(s, {.cache = cache(s), .from = 3, .to = 0, .n = 1});
  });
  expect_invalid("kv_copy: to is slot 7, the cache has 3", [&](GraphSession& s) {
    ops::kv_copy(s, {.cache = cache(s), .from = 0, .to = 7, .n = 1});
  });
  expect_invalid("kv_copy: from and to are both slot 1", [&](GraphSession& s) {
    ops::kv_copy(s, {.cache = cache(s), .from = 1, .to = 1, .n = 1});
  });
  for (std::uint32_t n : {0u, 257u}) {
    expect_invalid("expected 1 to 256 (capacity)", [&](GraphSession& s) {
      ops::kv_copy(s, {.cache = cache(s), .from = 0, .to = 1, .n = n});
    });
  }
  expect_unsupported("kv_copy: cache is bf16", [&](GraphSession& s) {
    ops::kv_copy(s, {.cache = s.scratch(DType::bf16, {2, 1, 8, 8}), .from = 0, .to = 1, .n = 1});
  });
}

TEST_F(OpChecks, StepOps) {
  expect_accepted([](GraphSession& s) {
    ops::kv_store(s, {.x = f32(s, {2, 3, 8}),
                      .cache = s.scratch(DType::f16, {1, 3, 16, 8}),
                      .step = step(s, 2, 1)});
    ops::embed(s, {.table = s.scratch(DType::q8_0, {10, 32}),
                   .out = f32(s, {2, 32}),
                   .tokens = step(s, 2, 1)});
    const Tensor tokens = s.scratch(DType::u32, {2});
    ops::argmax(s, {.x = f32(s, {2, 10}), .out = tokens});
    ops::step_advance(s, {.tokens = tokens, .step = step(s, 2, 1)});
    ops::step_advance(
        s, {.tokens = tokens, .step = step(s, 2, 1), .history = s.scratch(DType::u32, {2, 16})});
  });
  expect_invalid("kv_store: x is [2, 3, 8], cache is [1, 2, 16, 8]", [](GraphSession& s) {
    ops::kv_store(s, {.x = f32(s, {2, 3, 8}), .cache = f32(s, {1, 2, 16, 8}), .step = step(s)});
  });
  expect_invalid("kv_store: step is missing", [](GraphSession& s) {
    ops::kv_store(s, {.x = f32(s, {2, 2, 8}), .cache = f32(s, {1, 2, 16, 8}), .step = {}});
  });
  expect_invalid("embed: table is [10, 32], out has 31 columns", [](GraphSession& s) {
    ops::embed(s, {.table = f32(s, {10, 32}), .out = f32(s, {2, 31}), .tokens = step(s)});
  });
  expect_invalid("embed: tokens has 4 bytes", [](GraphSession& s) {
    ops::embed(s, {.table = f32(s, {10, 32}),
                   .out = f32(s, {2, 32}),
                   .tokens = s.scratch(DType::u32, {1}).view,
                   .tokens_are_u32 = true});
  });
  expect_invalid("argmax: x is [2, 10], out has 3 elements", [](GraphSession& s) {
    ops::argmax(s, {.x = f32(s, {2, 10}), .out = s.scratch(DType::u32, {3})});
  });
  expect_unsupported("argmax: out is f32, expected u32", [](GraphSession& s) {
    ops::argmax(s, {.x = f32(s, {2, 10}), .out = f32(s, {2})});
  });
  expect_invalid("step_advance: history has another number of rows", [](GraphSession& s) {
    ops::step_advance(s, {.tokens = s.scratch(DType::u32, {1}),
                          .step = step(s, 1, 1),
                          .history = s.scratch(DType::u32, {2, 16})});
  });
  expect_invalid("step_advance: step has", [](GraphSession& s) {
    ops::step_advance(
        s, {.tokens = s.scratch(DType::u32, {1}), .step = s.scratch(DType::u32, {8}).view});
  });
}

}  // namespace
}  // namespace onepass::test::op_checks_test
