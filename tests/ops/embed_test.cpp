#include "kernel_harness.h"
#include "ops/embed/params.h"
#include "packed_rows.h"

namespace onepass::test::embed_test {
namespace {

const std::vector<std::uint32_t> tokens = {10, 0, 11, 4, 4, 0xffffffffu};  // two do not exist
constexpr std::uint32_t vocab = 11;

// Rows of a table of exact values, times scale.
std::vector<float> expected(const std::vector<float>& table, std::uint32_t dim, float scale) {
  std::vector<float> want;
  for (std::uint32_t t : tokens) {
    for (std::uint32_t i = 0; i < dim; ++i) {
      want.push_back(t < vocab ? table[std::size_t{t} * dim + i] * scale : 0.0f);
    }
  }
  return want;
}

std::vector<StepRow> token_rows() {
  std::vector<StepRow> rows;
  for (std::uint32_t t : tokens) rows.push_back({t, 0, 0, 0});
  return rows;
}

void expect_embeds(Format type, std::uint32_t dim, const std::vector<std::byte>& table,
                   const std::vector<float>& values) {
  for (float scale : {1.0f, 7.3f}) {
    std::vector<float> want = expected(values, dim, scale);
    KernelRun plain(Op::embed, type);
    plain.params(ops::EmbedParams{6, vocab, dim, 1, scale, 0, 0}).in(table).in(tokens);
    plain.out(want.size() * 4).run();
    EXPECT_EQ(plain.get<float>(2), want) << name(type);

    KernelRun step(Op::embed, type);
    step.params(ops::EmbedParams{6, vocab, dim, 0, scale, 0, 0}).in(table);
    step.in(step_bytes(token_rows(), {{0, 0, 0, 0}}, 4)).out(want.size() * 4).run(false);
    std::vector<float> got = step.get<float>(2);
    const std::vector<std::uint8_t> bytes = step.get<std::uint8_t>(2);
    for (std::size_t i = 4 * dim * 4; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], 0xa5);
    got.resize(4 * dim);
    want.resize(4 * dim);
    EXPECT_EQ(got, want) << name(type);
  }
}

TEST(Embed, EveryFormatAndTokenSource) {
  std::vector<DType> list = {DType::f32, DType::f16, DType::bf16};
#define BLOCK(format, Block) list.push_back(DType::format);
  ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
  for (DType type : list) {
    const std::uint32_t dim = info(type).block_elements > 32 ? 512 : 96;
    const Stored table = store(type, random_floats(std::size_t{vocab} * dim, 4));
    expect_embeds(type, dim, table.bytes, {table.values.begin(), table.values.end()});
  }
}

TEST(Embed, PackedRows) {
  for (DType native : packable_types) {
    const Format packed{native, Layout::r16};
    const std::uint32_t dim = info(packed).block_elements > 32 ? 512 : 96;
    const NativeRows m = random_rows(native, vocab, dim, 12);
    expect_embeds(packed, dim, pack_matrix(native, vocab, dim, m.bytes), m.values);
  }
}

TEST(Embed, PackedAffineRows) {
  for (std::uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
    for (std::uint32_t group : {32u, 64u, 128u}) {
      for (DType type : {DType::f32, DType::f16, DType::bf16}) {
        const std::uint32_t dim = 384;
        const AffineMatrix m = random_affine(bits, group, type, vocab, dim, 3);
        const Format packed{quant::affine_type(bits, group, type).value(), Layout::r16};
        std::vector<std::byte> bytes(storage_bytes(packed, vocab, dim).value());
        ASSERT_TRUE(quant::pack_affine(m.rows(), packed, vocab, dim, bytes));
        expect_embeds(packed, dim, bytes, m.values);
      }
    }
  }
}

TEST(EmbedAffine, EveryWidthGroupAndScaleType) {
  const std::uint32_t dim = 256;
  for (std::uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
    for (std::uint32_t group : {32u, 64u, 128u}) {
      for (DType type : {DType::f32, DType::f16, DType::bf16}) {
        const Stored scales = store(type, random_floats(vocab * dim / group, 1, 0.1f));
        const Stored biases = store(type, random_floats(vocab * dim / group, 2, 1.0f));
        std::mt19937 generator(bits);
        std::vector<std::uint32_t> words(vocab * dim * bits / 32);
        for (std::uint32_t& w : words) w = static_cast<std::uint32_t>(generator());
        std::vector<float> values;
        for (std::size_t i = 0; i < std::size_t{vocab} * dim; ++i) {
          std::uint32_t q = 0;  // rows are whole words, so the whole matrix is one stream
          for (std::size_t b = 0; b < bits; ++b) {
            const std::size_t at = i * bits + b;
            q |= (words[at / 32] >> (at % 32) & 1u) << b;
          }
          values.push_back(static_cast<float>(q) * static_cast<float>(scales.values[i / group]) +
                           static_cast<float>(biases.values[i / group]));
        }
        for (float scale : {1.0f, -2.5f}) {
          std::vector<float> want = expected(values, dim, scale);
          KernelRun run(Op::embed_affine, type);
          run.params(ops::EmbedAffineParams{6, vocab, dim, 1, scale, bits, group, 0, 0});
          run.in(words).in(scales.bytes).in(biases.bytes).in(tokens).out(want.size() * 4).run();
          EXPECT_EQ(run.get<float>(4), want) << bits << " bits, group " << group;

          KernelRun step(Op::embed_affine, type);
          step.params(ops::EmbedAffineParams{6, vocab, dim, 0, scale, bits, group, 0, 0});
          step.in(words).in(scales.bytes).in(biases.bytes);
          step.in(step_bytes(token_rows(), {{0, 0, 0, 0}}, 6)).out(want.size() * 4).run();
          EXPECT_EQ(step.get<float>(4), want) << bits << " bits, group " << group;
        }
      }
    }
  }
}

TEST(EmbedAffine, ParamsThatDoNotFit) {
  const std::vector<float> some(4096);
  const auto refused = [&](std::uint32_t dim, std::uint32_t bits, std::uint32_t group) {
    KernelRun run(Op::embed_affine, DType::f32);
    run.params(ops::EmbedAffineParams{1, 1, dim, 1, 1.0f, bits, group, 0, 0});
    run.in(some).in(some).in(some).in(some).out(16384);
    return !run.launch_status().has_value();
  };
  EXPECT_FALSE(refused(128, 4, 64));
  EXPECT_TRUE(refused(128, 7, 64));
  EXPECT_TRUE(refused(128, 4, 0));
  EXPECT_TRUE(refused(128, 4, 48));
  EXPECT_TRUE(refused(96, 4, 64));
}

}  // namespace
}  // namespace onepass::test::embed_test
