// Attention over every kind of cache and cut: each against f64, and against the same keys in a
// linear cache bit by bit.
#include <limits>

#include "attention_params.h"
#include "core/features.h"
#include "kernel_harness.h"
#include "onepass/onepass.hpp"
#include "onepass/ops.h"

namespace onepass::test::attention_forms_test {
namespace {

constexpr DType cache_dtypes[] = {DType::f32, DType::f16, DType::q8_0};

// One sequence of keys and values, [kv head][position][dim].
struct Sequence {
  std::uint32_t kv_heads, length, dim;
  Stored k, v;

  Sequence(DType k_type, DType v_type, std::uint32_t n_heads, std::uint32_t n, std::uint32_t d,
           unsigned seed)
      : kv_heads(n_heads),
        length(n),
        dim(d),
        k(store(k_type, random_floats(std::size_t{n_heads} * n * d, seed, 2.0f))),
        v(store(v_type, random_floats(std::size_t{n_heads} * n * d, seed + 1))) {}
};

struct Row {
  const Sequence* sequence;
  std::uint32_t begin, end;
};

std::vector<double> reference(const ops::AttentionParams& p, const std::vector<float>& q,
                              const std::vector<Row>& rows, const std::vector<float>& sinks = {}) {
  std::vector<double> out(q.size(), 0.0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t h = 0; h < p.heads; ++h) {
      const Sequence& s = *rows[r].sequence;
      const std::size_t cache = h / (p.heads / p.kv_heads) * s.length * p.head_dim;
      const std::size_t at = (r * p.heads + h) * p.head_dim;
      std::vector<double> scores;
      double top = sinks.empty() ? -HUGE_VAL : f64(sinks[h]);
      for (std::size_t key = rows[r].begin; key < rows[r].end; ++key) {
        double score = 0;
        for (std::size_t i = 0; i < p.head_dim; ++i) {
          score += f64(q[at + i]) * s.k.values[cache + key * p.head_dim + i];
        }
        score *= f64(p.scale);
        if (p.softcap != 0.0f) score = f64(p.softcap) * std::tanh(score / f64(p.softcap));
        scores.push_back(score);
        top = std::max(top, score);
      }
      double total = sinks.empty() ? 0.0 : std::exp(f64(sinks[h]) - top);
      for (double& score : scores) total += score = std::exp(score - top);
      for (std::size_t n = 0; n < scores.size(); ++n) {
        for (std::size_t i = 0; i < p.head_dim; ++i) {
          out[at + i] +=
              scores[n] / total * s.v.values[cache + (rows[r].begin + n) * p.head_dim + i];
        }
      }
    }
  }
  return out;
}

// Puts positions [from, to) of a sequence at the place that `place(position)` names.
template <class Place>
void put(std::vector<std::byte>& cache, const Stored& from, const Sequence& s, DType type,
         std::uint64_t block, std::uint32_t capacity, std::uint32_t begin, std::uint32_t end,
         Place&& place) {
  const std::size_t row = *storage_bytes(type, s.dim);
  for (std::size_t h = 0; h < s.kv_heads; ++h) {
    for (std::uint32_t at = begin; at < end; ++at) {
      std::memcpy(cache.data() + ((block * s.kv_heads + h) * capacity + place(at)) * row,
                  from.bytes.data() + (h * s.length + at) * row, row);
    }
  }
}

std::vector<std::byte> garbage(DType type, std::size_t elements) {
  return std::vector<std::byte>(*storage_bytes(type, elements), std::byte{0x7f});  // NaN or large
}

std::vector<float> part_of(const std::vector<float>& all, std::size_t i, std::size_t n) {
  const auto at = all.begin() + static_cast<std::ptrdiff_t>(i * n);
  return {at, at + static_cast<std::ptrdiff_t>(n)};
}

// Every pair of types, many head sizes, one and several rows, cut in different ways.
TEST(AttentionForms, TypesHeadsAndCuts) {
  const struct {
    std::uint32_t heads, kv_heads, dim;
  } shapes[] = {{4, 1, 128}, {3, 3, 64}, {14, 2, 96}, {5, 1, 32}, {3, 1, 512}, {2, 2, 256}};
  for (const auto& s : shapes) {
    for (DType k_type : cache_dtypes) {
      for (DType v_type : cache_dtypes) {
        for (std::uint32_t rows : {1u, k_type == v_type ? 7u : 2u}) {
          ops::AttentionParams p =
              attention_params(rows, s.heads, s.kv_heads, s.dim, 1, 700, v_type);
          p.kv_len = 601;
          const Sequence keys(k_type, v_type, s.kv_heads, 700, s.dim, 31);
          const std::vector<float> q = random_floats(std::size_t{rows} * s.heads * s.dim, 33, 2.0f);
          std::vector<Row> seen;
          for (std::uint32_t r = 0; r < rows; ++r) seen.push_back({&keys, 0, 601 - rows + r + 1});
          std::vector<float> first;
          for (std::uint32_t threads : {1u, 16u}) {
            KernelRun run(Op::attention, k_type);
            run.threads(threads).params(p).in(q).in(keys.k.bytes).in(keys.v.bytes);
            run.none().none().none().out(q.size() * 4).run();
            if (threads == 1) first = run.get<float>(6);
            EXPECT_EQ(run.get<float>(6), first) << "with other tiles";
          }
          std::vector<double> got(first.begin(), first.end());
          expect_close(got, reference(p, q, seen), 3e-6, 3e-6, "attention");
        }
      }
    }
  }
}

// Row by row the bits of the pass with all rows, whatever the block of rows.
TEST(AttentionForms, PrefillRowsHaveTheBitsOfDecode) {
  for (std::uint32_t group : {1u, 2u, 4u, 7u}) {
    for (std::uint32_t window : {0u, 1u, 100u, 300u}) {
      const std::uint32_t rows = 150, heads = 2 * group, dim = 40, n = 620;
      ops::AttentionParams p = attention_params(rows, heads, 2, dim, 1, n, DType::f16);
      p.kv_len = n;
      p.window = window;
      p.softcap = window == 100 ? 4.0f : 0.0f;
      Sequence keys(DType::f16, DType::f16, 2, n, dim, 41);
      // Values that one row must not see may be anything.
      keys.v.bytes[(n - 1) * dim * 2 + 1] = std::byte{0x7e};
      const std::vector<float> q = random_floats(std::size_t{rows} * heads * dim, 43, 2.0f);
      KernelRun all(Op::attention, DType::f16);
      all.params(p).in(q).in(keys.k.bytes).in(keys.v.bytes).none().none().none();
      all.out(q.size() * 4).run();
      const std::vector<float> want = all.get<float>(6);
      p.rows = 1;
      for (std::uint32_t r : {0u, 1u, 17u, 63u, 64u, 65u, 107u, 148u, 149u}) {
        p.kv_len = n - rows + r + 1;
        KernelRun one(Op::attention, DType::f16);
        one.threads(r % 2 == 0 ? 1 : 8).params(p).in(part_of(q, r, heads * dim));
        one.in(keys.k.bytes).in(keys.v.bytes).none().none().none().out(heads * dim * 4).run();
        const std::vector<float> got = one.get<float>(6), row = part_of(want, r, heads * dim);
        ASSERT_EQ(std::memcmp(got.data(), row.data(), got.size() * 4), 0)
            << "row " << r << " group " << group << " window " << window;
      }
    }
  }
}

TEST(AttentionForms, Sinks) {
  for (std::uint32_t n : {1u, 40u, 530u}) {
    ops::AttentionParams p = attention_params(1, 6, 2, 48, 1, 530, DType::f32);
    p.kv_len = n;
    const Sequence keys(DType::f32, DType::f32, 2, 530, 48, 51);
    const std::vector<float> q = random_floats(6 * 48, 53, 3.0f);
    const std::vector<float> sinks = {0.0f, 3.0f, -2.0f, 50.0f, -80.0f, 0.5f};
    for (std::uint32_t threads : {1u, 8u}) {
      KernelRun run(Op::attention, DType::f32);
      run.threads(threads).params(p).in(q).in(keys.k.bytes).in(keys.v.bytes).none().none();
      run.in(sinks).out(q.size() * 4).run();
      expect_close(decode(DType::f32, run, 6), reference(p, q, {{&keys, 0, n}}, sinks), 3e-6, 3e-6,
                   "sinks");
    }
  }
}

// Two sequences in pages in no order, against each in a linear cache.
TEST(AttentionForms, PagesHaveTheBitsOfALinearCache) {
  const std::uint32_t heads = 4, kv_heads = 2, dim = 64, n_pages = 9;
  for (DType type : cache_dtypes) {
    for (std::uint32_t window : {0u, 300u}) {
      const std::uint32_t lengths[] = {700, 513};
      const Sequence a(type, type, kv_heads, 768, dim, 61), b(type, type, kv_heads, 768, dim, 63);
      const Sequence* sequences[] = {&a, &b};
      const std::vector<std::uint32_t> list = {5, 8, 0, 3, 7, 1, 2};  // 0: unused, then a, then b
      const std::uint32_t offsets[] = {1, 4};
      std::vector<std::byte> k = garbage(type, std::size_t{n_pages} * kv_heads * 256 * dim), v = k;
      for (std::size_t s = 0; s < 2; ++s) {
        for (std::uint32_t c = 0; c * 256 < lengths[s]; ++c) {
          const std::uint32_t page = list[offsets[s] + c];
          const std::uint32_t end = std::min(lengths[s], (c + 1) * 256);
          const auto place = [](std::uint32_t at) { return at % 256; };
          put(k, sequences[s]->k, *sequences[s], type, page, 256, c * 256, end, place);
          put(v, sequences[s]->v, *sequences[s], type, page, 256, c * 256, end, place);
        }
      }
      // Rows 0 to 2 are the end of a, 3 and 4 that of b.
      const std::vector<StepRow> rows = {
          {0, 697, 0, 0}, {0, 698, 0, 0}, {0, 699, 0, 0}, {0, 511, 1, 0}, {0, 512, 1, 0}};
      const auto step =
          step_bytes(rows, {{lengths[0], offsets[0], 0, 0}, {lengths[1], offsets[1], 0, 0}}, 5);
      const std::vector<float> q = random_floats(5 * heads * dim, 65, 2.0f);
      ops::AttentionParams p = attention_params(5, heads, kv_heads, dim, n_pages, 256, type);
      p.has_step = 1;
      p.window = window;
      KernelRun run(Op::attention, type);
      run.params(p).in(q).in(k).in(v).in(step).in(list).none().out(q.size() * 4).run();
      const std::vector<float> got = run.get<float>(6);
      for (std::uint32_t r = 0; r < 5; ++r) {
        ops::AttentionParams one = attention_params(1, heads, kv_heads, dim, 1, 768, type);
        one.kv_len = rows[r].position + 1;
        one.window = window;
        const Sequence& s = *sequences[rows[r].slot];
        KernelRun linear(Op::attention, type);
        linear.params(one).in(part_of(q, r, heads * dim)).in(s.k.bytes).in(s.v.bytes);
        linear.none().none().none().out(heads * dim * 4).run();
        EXPECT_EQ(linear.get<float>(6), part_of(got, r, heads * dim)) << name(type) << " row " << r;
      }
    }
  }
}

TEST(AttentionForms, MissingPagesHoldNoKeys) {
  ops::AttentionParams p = attention_params(1, 1, 1, 32, 2, 256, DType::f32);
  p.has_step = 1;
  const Sequence keys(DType::f32, DType::f32, 1, 512, 32, 71);
  const std::vector<float> q = random_floats(32, 73);
  const auto run_with = [&](std::vector<std::uint32_t> list, std::uint32_t offset) {
    KernelRun run(Op::attention, DType::f32);
    run.threads(8).params(p).in(q).in(keys.k.bytes).in(keys.v.bytes);
    run.in(step_bytes({{0, 511, 0, 0}}, {{512, offset, 0, 0}}, 1)).in(list).none().out(128).run();
    return run.get<float>(6);
  };
  const std::vector<float> first = run_with({0}, 0);  // the list ends: only the first page
  EXPECT_EQ(run_with({0, 77}, 0), first);             // the second does not exist
  EXPECT_EQ(run_with({0, 1}, 5), std::vector<float>(32, 0.0f));
  expect_close({first.begin(), first.end()}, reference(p, q, {{&keys, 0, 256}}), 3e-6, 3e-6,
               "first page");
}

TEST(AttentionForms, RingsHaveTheBitsOfALinearCache) {
  const std::uint32_t heads = 4, kv_heads = 2, dim = 64, total = 1500;
  for (DType type : cache_dtypes) {
    for (const auto& [window, capacity, rows] :
         {std::array{8u, 11u, 4u}, std::array{300u, 310u, 3u}, std::array{256u, 257u, 2u}}) {
      const Sequence keys(type, type, kv_heads, total, dim, 81);
      std::vector<std::byte> k = garbage(type, std::size_t{kv_heads} * capacity * dim), v = k;
      for (std::uint32_t length : {rows, window, capacity + 1, 1000u, total}) {
        const std::uint32_t from = length > capacity ? length - capacity : 0;
        const auto place = [cap = capacity](std::uint32_t at) { return at % cap; };
        put(k, keys.k, keys, type, 0, capacity, from, length, place);
        put(v, keys.v, keys, type, 0, capacity, from, length, place);
        std::vector<StepRow> step_rows;
        for (std::uint32_t r = 0; r < rows; ++r) step_rows.push_back({0, length - rows + r, 0, 0});
        const std::vector<float> q = random_floats(std::size_t{rows} * heads * dim, 83, 2.0f);
        ops::AttentionParams p = attention_params(rows, heads, kv_heads, dim, 1, capacity, type);
        p.has_step = 1;
        p.ring = 1;
        p.window = window;
        KernelRun ring(Op::attention, type);
        ring.params(p).in(q).in(k).in(v).in(step_bytes(step_rows, {{length, 0, 0, 0}}, rows));
        ring.none().none().out(q.size() * 4).run();
        ops::AttentionParams flat = attention_params(rows, heads, kv_heads, dim, 1, total, type);
        flat.kv_len = length;
        flat.window = window;
        KernelRun linear(Op::attention, type);
        linear.params(flat).in(q).in(keys.k.bytes).in(keys.v.bytes).none().none().none();
        linear.out(q.size() * 4).run();
        EXPECT_EQ(ring.get<float>(6), linear.get<float>(6))
            << name(type) << " window " << window << " length " << length;
      }
    }
  }
}

TEST(AttentionQ, SameBitsAsAttentionThenQuantize) {
  const struct {
    std::uint32_t heads, kv_heads, dim;
  } shapes[] = {{4, 1, 128}, {8, 8, 64}, {4, 4, 8}, {12, 4, 40}, {4, 2, 80}, {32, 4, 16}};
  for (const auto& s : shapes) {
    for (std::uint32_t rows : {1u, 5u}) {
      for (std::uint32_t threads : {1u, 16u}) {
        const DType k_type = s.dim % 32 == 0 ? DType::q8_0 : DType::f16;
        ops::AttentionParams p =
            attention_params(rows, s.heads, s.kv_heads, s.dim, 1, 530, DType::f16);
        p.kv_len = 530;
        const Sequence keys(k_type, DType::f16, s.kv_heads, 530, s.dim, 91);
        const std::vector<float> q = random_floats(std::size_t{rows} * s.heads * s.dim, 93, 2.0f);
        const std::vector<float> sinks = random_floats(s.heads, 94);
        KernelRun plain(Op::attention, k_type);
        plain.threads(threads).params(p).in(q).in(keys.k.bytes).in(keys.v.bytes);
        plain.none().none().in(sinks).out(q.size() * 4).run();
        p.form = ops::form_quantized;
        KernelRun fused(Op::attention, k_type);
        fused.threads(threads).params(p).in(q).in(keys.k.bytes).in(keys.v.bytes);
        fused.none().none().in(sinks).out(q.size() / 32 * 40).run();
        EXPECT_EQ(fused.get<std::byte>(6), quantized(plain.get<std::byte>(6), s.heads * s.dim));
      }
    }
  }
}

// Through plans on the CPU, replayed: any number of threads, any instruction set.
TEST(AttentionForms, DevicesAndReplaysGiveTheSameBits) {
  constexpr std::uint32_t heads = 4, dim = 64, keys = 1500;
  const Sequence sequence(DType::f16, DType::q8_0, 1, keys, dim, 101);
  const std::vector<float> q = random_floats(heads * dim, 103, 2.0f);
  std::vector<float> first;
  for (std::uint32_t threads : {1u, 2u, 5u}) {
    for (std::uint32_t features : {~0u, feature_bits(Feature::avx2), 0u}) {
      const Device device =
          Device::open("cpu", {.backend = {CpuOptions{.threads = threads, .features = features}}})
              .value();
      const Buffer q_memory = device.allocate(q.size() * 4).value();
      const Buffer out = device.allocate(q.size() * 4).value();
      const Buffer k = device.allocate(sequence.k.bytes.size()).value();
      const Buffer v = device.allocate(sequence.v.bytes.size()).value();
      ASSERT_TRUE(device.write_as<float>(q_memory.view(), q));
      ASSERT_TRUE(device.write_as<std::byte>(k.view(), sequence.k.bytes));
      ASSERT_TRUE(device.write_as<std::byte>(v.view(), sequence.v.bytes));
      const StepState step = StepState::create(device, 1, 1).value();
      GraphSession s = GraphExecutor(device).begin_recorded();
      ops::attention(s, {.q = q_memory.tensor(DType::f32, {1, heads, dim}),
                         .k = k.tensor(DType::f16, {1, 1, keys, dim}),
                         .v = v.tensor(DType::q8_0, {1, 1, keys, dim}),
                         .out = out.tensor(DType::f32, {1, heads, dim}),
                         .step = step.view()});
      const Result<Plan> plan = s.compile({.step = &step});
      ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
      for (std::uint32_t position : {1400u, 3u, 1400u}) {
        ASSERT_TRUE(plan->run(SingleStep(0, position).values()));
        std::vector<float> got(q.size());
        ASSERT_TRUE(device.read_as<float>(out.view(), got));
        if (position != 1400) continue;
        if (first.empty()) first = got;
        EXPECT_EQ(got, first) << threads << " threads, features " << features;
      }
    }
  }
}

TEST(AttentionForms, LaunchRefusesWhatDoesNotFit) {
  const auto status = [](auto change, std::size_t page_bytes = 0) {
    ops::AttentionParams p = attention_params(2, 4, 2, 16, 1, 256, DType::f32);
    p.kv_len = 20;
    change(p);
    KernelRun run(Op::attention, DType::f32);
    run.params(p).in(std::vector<float>(128)).in(std::vector<float>(2 * 256 * 16));
    run.in(std::vector<float>(2 * 256 * 16)).none();
    page_bytes != 0 ? run.in(std::vector<std::byte>(page_bytes)) : run.none();
    run.none().out(512);
    return run.launch_status();
  };
  EXPECT_TRUE(status([](ops::AttentionParams&) {}).has_value());
  EXPECT_TRUE(status([](ops::AttentionParams&) {}, 4).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.capacity = 128; }, 4).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.ring = 1; }, 4).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.kv_heads = 3; }).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.kv_heads = 0; }).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.head_dim = 0; }).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.kv_len = 1; }).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.kv_len = 257; }).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.v_type = 40; }).has_value());
  EXPECT_FALSE(status([](ops::AttentionParams& p) { p.slots = 2; }).has_value());
}

}  // namespace
}  // namespace onepass::test::attention_forms_test
