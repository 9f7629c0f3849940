#include <limits>

#include "attention_params.h"
#include "kernel_harness.h"

namespace onepass::test::attention_test {
namespace {

struct Row {
  std::uint32_t slot, begin, end;  // keys [begin, end)
};

std::vector<double> reference(const ops::AttentionParams& p, const std::vector<float>& q,
                              const std::vector<double>& k, const std::vector<double>& v,
                              const std::vector<Row>& rows) {
  std::vector<double> out(q.size(), 0.0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t h = 0; h < p.heads; ++h) {
      const std::size_t kv_head = h / (p.heads / p.kv_heads);
      const std::size_t cache = (rows[r].slot * p.kv_heads + kv_head) * p.capacity * p.head_dim;
      const std::size_t at = (r * p.heads + h) * p.head_dim;
      std::vector<double> scores;
      for (std::size_t key = rows[r].begin; key < rows[r].end; ++key) {
        double s = 0;
        for (std::size_t i = 0; i < p.head_dim; ++i) {
          s += f64(q[at + i]) * k[cache + key * p.head_dim + i];
        }
        s *= f64(p.scale);
        if (p.softcap != 0.0f) s = f64(p.softcap) * std::tanh(s / f64(p.softcap));
        scores.push_back(s);
      }
      double top = -HUGE_VAL, total = 0;
      for (double s : scores) top = std::max(top, s);
      for (double& s : scores) total += s = std::exp(s - top);
      for (std::size_t n = 0; n < scores.size(); ++n) {
        for (std::size_t i = 0; i < p.head_dim; ++i) {
          out[at + i] += scores[n] / total * v[cache + (rows[r].begin + n) * p.head_dim + i];
        }
      }
    }
  }
  return out;
}

struct Cache {
  Stored k, v;
};
Cache make_cache(const ops::AttentionParams& p, DType k, DType v) {
  const std::size_t n = std::size_t{p.slots} * p.kv_heads * p.capacity * p.head_dim;
  return {store(k, random_floats(n, 21, 2.0f)), store(v, random_floats(n, 22))};
}

TEST(Attention, LastRowsOfALength) {
  for (DType k_type : {DType::f32, DType::f16}) {
    for (DType v_type : {DType::f32, DType::f16}) {
      for (bool causal : {true, false}) {
        for (std::uint32_t window : {0u, 1u, 4u, 70u}) {
          for (float softcap : {0.0f, 5.0f}) {
            ops::AttentionParams p = attention_params(5, 4, 2, 40, 1, 150);
            p.kv_len = 137;
            p.causal = causal ? 1 : 0;
            p.window = window;
            p.softcap = softcap;
            p.v_type = static_cast<std::uint32_t>(v_type);
            const Cache cache = make_cache(p, k_type, v_type);
            const std::vector<float> q = random_floats(5 * 4 * 40, 23, 2.0f);
            std::vector<Row> rows;
            for (std::uint32_t r = 0; r < 5; ++r) {
              const std::uint32_t position = 132 + r;
              const std::uint32_t begin =
                  window == 0 || position + 1 < window ? 0 : position + 1 - window;
              rows.push_back({0, begin, causal ? position + 1 : 137});
            }
            KernelRun run(Op::attention, k_type);
            run.params(p)
                .in(q)
                .in(cache.k.bytes)
                .in(cache.v.bytes)
                .none()
                .none()
                .none()
                .out(q.size() * 4)
                .run();
            expect_close(decode(DType::f32, run, 6),
                         reference(p, q, cache.k.values, cache.v.values, rows), 2e-6, 2e-6,
                         "attention");
          }
        }
      }
    }
  }
}

TEST(Attention, WindowGoldenKeys) {
  // Position 10 with a window of 4 sees keys 7 to 10: v holds one bit per key, scores are equal.
  ops::AttentionParams p = attention_params(1, 1, 1, 1, 1, 16);
  p.kv_len = 11;
  p.window = 4;
  std::vector<float> v(16);
  for (std::size_t i = 0; i < 16; ++i) v[i] = std::ldexp(1.0f, static_cast<int>(i));
  KernelRun run(Op::attention, DType::f32);
  run.params(p)
      .in(std::vector<float>{0.0f})
      .in(std::vector<float>(16))
      .in(v)
      .none()
      .none()
      .none()
      .out(4)
      .run();
  EXPECT_EQ(run.get<float>(6)[0], (128.0f + 256.0f + 512.0f + 1024.0f) / 4.0f);
}

TEST(Attention, StepRowsOfSeveralSlots) {
  ops::AttentionParams p = attention_params(6, 2, 1, 16, 3, 100);
  p.has_step = 1;
  const Cache cache = make_cache(p, DType::f16, DType::f32);
  const std::vector<float> q = random_floats(6 * 2 * 16, 24);
  // Row 3: position beyond the slot's length; row 4: a slot that is not in the cache; row 5: not
  // part of the pass.
  const std::vector<StepRow> rows = {{1, 70, 2, 0}, {1, 71, 2, 0}, {1, 0, 0, 0},
                                     {1, 50, 1, 0}, {1, 3, 9, 0},  {1, 3, 0, 0}};
  const std::vector<StepSlot> slots = {{1, 0, 0, 0}, {20, 0, 0, 0}, {72, 0, 0, 0}};
  KernelRun run(Op::attention, DType::f16);
  run.params(p).in(q).in(cache.k.bytes).in(cache.v.bytes).in(step_bytes(rows, slots, 5));
  run.none().none().out(q.size() * 4).run(false);
  const std::vector<double> want =
      reference(p, q, cache.k.values, cache.v.values,
                {{2, 0, 71}, {2, 0, 72}, {0, 0, 1}, {1, 0, 20}, {0, 0, 0}, {0, 0, 0}});
  std::vector<double> got = decode(DType::f32, run, 6);
  const std::size_t active = 5 * 2 * 16;
  for (std::size_t i = active * 4; i < q.size() * 4; ++i) {
    ASSERT_EQ(run.get<std::uint8_t>(6)[i], 0xa5);
  }
  got.resize(active);
  expect_close(got, {want.begin(), want.begin() + static_cast<std::ptrdiff_t>(active)}, 2e-6, 2e-6,
               "attention");
}

TEST(Attention, RowBitsDependOnTheRowAlone) {
  // The same keys in caches of two capacities, alone and among others, with and without a step.
  const std::uint32_t dim = 24, length = 130;
  const std::vector<float> q = random_floats(3 * 2 * dim, 25);
  ops::AttentionParams small = attention_params(3, 2, 2, dim, 1, 200);
  small.kv_len = length;
  const Cache cache = make_cache(small, DType::f32, DType::f32);
  KernelRun all(Op::attention, DType::f32);
  all.params(small)
      .in(q)
      .in(cache.k.bytes)
      .in(cache.v.bytes)
      .none()
      .none()
      .none()
      .out(q.size() * 4)
      .run();
  const std::vector<float> want = all.get<float>(6);

  ops::AttentionParams large = attention_params(1, 2, 2, dim, 2, 777);
  large.has_step = 1;
  std::vector<float> k(2 * 2 * 777 * dim, 9.0f), v = k;
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 0; i < 200 * dim; ++i) {
      k[(2 + h) * 777 * dim + i] = static_cast<float>(cache.k.values[h * 200 * dim + i]);
      v[(2 + h) * 777 * dim + i] = static_cast<float>(cache.v.values[h * 200 * dim + i]);
    }
  }
  for (std::uint32_t r = 0; r < 3; ++r) {
    const auto at = static_cast<std::ptrdiff_t>(r * 2 * dim);
    const std::vector<float> row(q.begin() + at, q.begin() + at + 2 * dim);
    KernelRun one(Op::attention, DType::f32);
    one.params(large).in(row).in(k).in(v);
    one.in(step_bytes({{0, length - 3 + r, 1, 0}}, {{0, 0, 0, 0}, {length, 0, 0, 0}}, 1));
    one.none().none().out(row.size() * 4).run();
    EXPECT_EQ(one.get<float>(6),
              std::vector<float>(want.begin() + at, want.begin() + at + 2 * dim));
  }
}

TEST(Attention, KeysBeyondTheRowAreNotRead) {
  ops::AttentionParams p = attention_params(1, 1, 1, 8, 1, 128);
  p.kv_len = 70;
  const float nan_value = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> k = random_floats(128 * 8, 26), v = random_floats(128 * 8, 27);
  for (std::size_t i = 70 * 8; i < k.size(); ++i) k[i] = v[i] = nan_value;
  KernelRun run(Op::attention, DType::f32);
  run.params(p).in(random_floats(8, 28)).in(k).in(v).none().none().none().out(32).run();
  for (float x : run.get<float>(6)) EXPECT_TRUE(std::isfinite(x));
}

TEST(Attention, ScoresOfMinusInfinityGiveZeros) {
  ops::AttentionParams p = attention_params(1, 1, 1, 1, 1, 4);
  p.kv_len = 4;
  const std::vector<float> k(4, -std::numeric_limits<float>::infinity());
  KernelRun run(Op::attention, DType::f32);
  run.params(p).in(std::vector<float>{1.0f}).in(k).in(std::vector<float>(4, 3.0f));
  run.none().none().none();
  run.out(4).run();
  EXPECT_EQ(run.get<float>(6)[0], 0.0f);
}

TEST(Attention, BrokenStepTouchesNothing) {
  ops::AttentionParams p = attention_params(2, 1, 1, 4, 1, 4);
  p.has_step = 1;
  std::vector<std::byte> step = step_bytes({{0, 0, 0, 0}}, {{1, 0, 0, 0}}, 1);
  const std::uint32_t huge = 0xffffffffu;
  std::memcpy(step.data() + offsetof(StepHeader, n_rows), &huge, 4);
  std::memcpy(step.data() + offsetof(StepHeader, max_rows), &huge, 4);
  KernelRun run(Op::attention, DType::f32);
  run.params(p).in(std::vector<float>(8)).in(std::vector<float>(16)).in(std::vector<float>(16));
  run.in(step).none().none().out(32).run(false);
  for (std::uint8_t b : run.get<std::uint8_t>(6)) EXPECT_EQ(b, 0xa5);
}

}  // namespace
}  // namespace onepass::test::attention_test
