// kv_store, kv_copy and rope_store: what is written, and that nothing else is.
#include <limits>

#include "kernel_harness.h"
#include "ops/kv_cache/params.h"
#include "ops/norm/params.h"
#include "ops/rope/params.h"

namespace onepass::test::kv_cache_test {
namespace {

constexpr DType cache_dtypes[] = {DType::f32, DType::f16, DType::q8_0};
constexpr std::uint32_t heads = 3, dim = 64;

std::size_t row_bytes(DType type, std::size_t n = dim) { return *storage_bytes(type, n); }

std::vector<std::byte> head_bytes(DType type, const std::vector<float>& x, std::size_t head) {
  const auto at = x.begin() + static_cast<std::ptrdiff_t>(head * dim);
  return store(type, std::vector<float>(at, at + dim)).bytes;
}

// A cache with content, and the same with rows put in by index.
struct Expected {
  DType type;
  std::vector<std::byte> bytes;

  Expected(DType t, std::size_t rows, unsigned seed)
      : type(t), bytes(store(t, random_floats(rows * dim, seed)).bytes) {}
  void put(std::size_t row, const std::vector<std::byte>& value) {
    std::copy(value.begin(), value.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(row * row_bytes(type)));
  }
};

TEST(KvStore, RingStoresAtThePositionModuloCapacity) {
  const std::uint32_t slots = 2, capacity = 10;
  const std::vector<StepRow> rows = {
      {0, 9, 1, 0}, {0, 10, 1, 0}, {0, 1000003, 0, 0}, {0, 4000000000u, 2, 0}, {0, 5, 0, 0}};
  const std::vector<float> x = random_floats(5 * heads * dim, 1);
  for (DType type : cache_dtypes) {
    Expected cache(type, slots * heads * capacity, 2);
    KernelRun run(Op::kv_store, type);
    run.params(ops::KvStoreParams{5, heads, dim, slots, capacity, 1}).in(x);
    run.in(step_bytes(rows, {{0, 0, 0, 0}}, 4)).none().inout(cache.bytes).run();
    for (std::uint32_t r : {0u, 1u, 2u}) {  // row 3 names no slot of the cache, row 4 is no row
      for (std::uint32_t h = 0; h < heads; ++h) {
        cache.put((rows[r].slot * heads + h) * capacity + rows[r].position % capacity,
                  head_bytes(type, x, r * heads + h));
      }
    }
    EXPECT_EQ(run.get<std::byte>(3), cache.bytes) << name(type);
  }
}

TEST(KvStore, PagesOfTheSlotsList) {
  const std::uint32_t n_pages = 4, page = 256;
  // Slot 0 has pages 2, 0, 9 (which does not exist); slot 1 has page 3 and the list's end.
  const std::vector<std::uint32_t> list = {7, 2, 0, 9, 3};
  const std::vector<StepSlot> slots = {{0, 1, 0, 0}, {0, 4, 0, 0}};
  const std::vector<StepRow> rows = {{0, 0, 0, 0},   {0, 255, 0, 0}, {0, 256, 0, 0}, {0, 600, 0, 0},
                                     {0, 300, 1, 0}, {0, 17, 1, 0},  {0, 3, 2, 0}};
  const std::vector<float> x = random_floats(rows.size() * heads * dim, 3);
  for (DType type : cache_dtypes) {
    Expected cache(type, std::size_t{n_pages} * heads * page, 4);
    KernelRun run(Op::kv_store, type);
    run.params(ops::KvStoreParams{7, heads, dim, n_pages, page, 0}).in(x);
    run.in(step_bytes(rows, slots, 7)).in(list).inout(cache.bytes).run();
    const auto put = [&](std::uint32_t r, std::uint32_t page_id) {
      for (std::uint32_t h = 0; h < heads; ++h) {
        cache.put((page_id * heads + h) * page + rows[r].position % page,
                  head_bytes(type, x, r * heads + h));
      }
    };
    put(0, 2);
    put(1, 2);
    put(2, 0);
    put(5, 3);
    EXPECT_EQ(run.get<std::byte>(3), cache.bytes) << name(type);
  }
}

TEST(KvStore, LaunchRefusesWhatDoesNotFit) {
  KernelRun pages(Op::kv_store, DType::f32);
  pages.params(ops::KvStoreParams{1, 1, 8, 1, 16, 0}).in(std::vector<float>(8));
  pages.in(step_bytes({{0, 0, 0, 0}}, {{0, 0, 0, 0}}, 1)).in(std::vector<std::uint32_t>{0});
  pages.out(16 * 8 * 4);
  const Status status = pages.launch_status();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
}

TEST(KvCopy, FirstPositionsOfEveryHead) {
  const std::uint32_t capacity = 9;
  for (DType type : cache_dtypes) {
    for (std::uint32_t n : {1u, 5u, 9u}) {
      const Expected from(type, heads * capacity, 5);
      Expected to(type, heads * capacity, 6);
      KernelRun run(Op::kv_copy, type);
      run.params(ops::KvCopyParams{heads, dim, capacity, n}).in(from.bytes).inout(to.bytes).run();
      for (std::size_t row = 0; row < heads * capacity; ++row) {
        if (row % capacity >= n) continue;
        const auto at = from.bytes.begin() + static_cast<std::ptrdiff_t>(row * row_bytes(type));
        to.put(row, std::vector<std::byte>(at, at + static_cast<std::ptrdiff_t>(row_bytes(type))));
      }
      EXPECT_EQ(run.get<std::byte>(1), to.bytes) << name(type) << " " << n;
    }
  }
}

// The ops that rope_store stands for.
struct Separate {
  ops::RopeStoreParams p;
  std::vector<std::byte> step;
  std::vector<float> factors;
  std::vector<std::uint32_t> pages;

  std::vector<float> norm_and_rotate(std::vector<float> x, std::uint32_t n_heads,
                                     const std::vector<float>& weight, float eps) const {
    if (!weight.empty()) {
      KernelRun norm(Op::rms_norm, DType::f32);
      norm.params(ops::RmsNormParams{0, p.rows * n_heads, p.head_dim, eps, 1});
      norm.in(x).in(weight).out(x.size() * 4).run();
      x = norm.get<float>(2);
    }
    KernelRun rope(Op::rope, DType::f32);
    rope.params(ops::RopeParams{p.rows, n_heads, p.head_dim, 0, p.angles}).in(x).in(step);
    factors.empty() ? rope.none() : rope.in(factors);
    rope.inout(x).run();  // rows beyond the pass keep what they have
    return rope.get<float>(3);
  }
  std::vector<std::byte> stored(DType type, const std::vector<float>& x,
                                const std::vector<std::byte>& cache) const {
    KernelRun run(Op::kv_store, type);
    run.params(ops::KvStoreParams{p.rows, p.kv_heads, p.head_dim, p.slots, p.capacity, p.ring});
    run.in(x).in(step);
    pages.empty() ? run.none() : run.in(pages);
    run.inout(cache).run();
    return run.get<std::byte>(3);
  }
};

TEST(RopeStore, SameBitsAsTheSeparateOps) {
  struct Form {
    bool q, k, v, q_norm, k_norm, factors;
    std::uint32_t step, ring, paged;
    DType k_type, v_type;
  };
  const Form forms[] = {
      {true, true, true, true, true, false, 1, 0, 0, DType::f16, DType::f16},
      {true, true, true, false, false, true, 2, 0, 0, DType::f16, DType::q8_0},
      {true, false, false, true, false, false, 1, 0, 0, DType::f32, DType::f32},
      {false, true, false, false, true, true, 1, 1, 0, DType::q8_0, DType::f32},
      {false, false, true, false, false, false, 1, 0, 1, DType::f32, DType::f32},
      {true, true, true, true, false, false, 2, 0, 1, DType::f32, DType::f16},
      {false, true, true, false, true, true, 1, 1, 0, DType::f32, DType::f32},
  };
  for (const Form& f : forms) {
    for (std::uint32_t rows : {1u, 5u, 130u}) {
      Separate ops_{};
      ops::RopeStoreParams& p = ops_.p;
      p.rows = rows;
      p.heads = 6;
      p.kv_heads = heads;
      p.head_dim = dim;
      p.q_eps = 1e-5f;
      p.k_eps = 1e-6f;
      p.slots = 2;
      p.capacity = f.paged != 0 ? 256 : f.ring != 0 ? 140 : 150;
      p.ring = f.ring;
      p.k_type = static_cast<std::uint32_t>(f.k_type);
      p.v_type = static_cast<std::uint32_t>(f.v_type);
      p.angles.pairs = f.step == 2 ? 20 : 24;
      p.angles.step = f.step;
      p.angles.distance = f.step == 2 ? 1 : 24;
      p.angles.ratio_hi = 0.75f;
      p.angles.freq_scale = 0.25f;
      p.angles.ext_factor = 1.0f;
      p.angles.yarn_low = 4.0f;
      p.angles.yarn_range = 9.0f;
      p.angles.magnitude = 1.1f;
      std::vector<StepRow> step_rows;
      for (std::uint32_t r = 0; r < rows; ++r) {
        step_rows.push_back({0, r * (f.ring != 0 ? 3u : 1u), r % 7 == 6 ? 1u : 0u, 0});
      }
      const std::uint32_t active = rows > 3 ? rows - 2 : rows;
      ops_.step = step_bytes(step_rows, {{0, 1, 0, 0}, {0, 0, 0, 0}}, active);
      if (f.factors) ops_.factors = random_floats(24, 1);
      for (float& v : ops_.factors) v += 2.0f;
      ops_.factors.resize(f.factors ? p.angles.pairs : 0);
      if (f.paged != 0) ops_.pages = {1, 0};

      const std::vector<float> q = random_floats(std::size_t{rows} * 6 * dim, 7);
      const std::vector<float> k = random_floats(std::size_t{rows} * heads * dim, 8);
      const std::vector<float> v = random_floats(std::size_t{rows} * heads * dim, 9);
      const std::vector<float> q_weight = f.q_norm ? random_floats(dim, 10) : std::vector<float>{};
      const std::vector<float> k_weight = f.k_norm ? random_floats(dim, 11) : std::vector<float>{};
      const std::size_t cache_rows = std::size_t{2} * heads * p.capacity;
      const Expected k_cache(f.k_type, cache_rows, 12), v_cache(f.v_type, cache_rows, 13);

      const DType format = f.k ? f.k_type : f.v ? f.v_type : DType::f32;
      KernelRun run(Op::rope_store, format);
      const auto maybe = [&run](bool there, const auto& values) {
        there ? run.in(values) : run.none();
      };
      run.params(p);
      maybe(f.q, q);
      maybe(f.q_norm, q_weight);
      maybe(f.k, k);
      maybe(f.k_norm, k_weight);
      maybe(f.v, v);
      run.in(ops_.step);
      maybe(f.factors, ops_.factors);
      maybe(f.paged != 0, ops_.pages);
      maybe(f.q, q);  // an output: rows beyond the pass keep this
      maybe(f.k, k_cache.bytes);
      maybe(f.v, v_cache.bytes);
      run.run();
      if (f.q) {
        std::vector<float> want = ops_.norm_and_rotate(q, 6, q_weight, p.q_eps);
        const auto end = static_cast<std::ptrdiff_t>(active * 6 * dim);
        std::copy(q.begin() + end, q.end(), want.begin() + end);
        EXPECT_EQ(run.get<float>(8), want) << rows;
      }
      if (f.k) {
        const std::vector<float> x = ops_.norm_and_rotate(k, heads, k_weight, p.k_eps);
        EXPECT_EQ(run.get<std::byte>(9), ops_.stored(f.k_type, x, k_cache.bytes)) << rows;
      }
      if (f.v) {
        EXPECT_EQ(run.get<std::byte>(10), ops_.stored(f.v_type, v, v_cache.bytes)) << rows;
      }
    }
  }
}

TEST(RopeStore, LaunchRefusesWhatDoesNotFit) {
  const auto status = [](auto change) {
    ops::RopeStoreParams p{};
    p.rows = 1;
    p.heads = 2;
    p.kv_heads = 1;
    p.head_dim = 8;
    p.angles.pairs = 4;
    p.angles.step = 1;
    p.angles.distance = 4;
    change(p);
    KernelRun run(Op::rope_store, DType::f32);
    run.params(p).in(std::vector<float>(16)).none().none().none().none();
    run.in(step_bytes({{0, 0, 0, 0}}, {{0, 0, 0, 0}}, 1)).none().none().out(64).none().none();
    return run.launch_status();
  };
  EXPECT_TRUE(status([](ops::RopeStoreParams&) {}).has_value());
  EXPECT_FALSE(status([](ops::RopeStoreParams& p) { p.angles.pairs = 5; }).has_value());
  EXPECT_FALSE(status([](ops::RopeStoreParams& p) { p.angles.distance = 3; }).has_value());
  EXPECT_FALSE(status([](ops::RopeStoreParams& p) { p.rows = 2; }).has_value());
  EXPECT_FALSE(status([](ops::RopeStoreParams& p) { p.k_type = 9999; }).has_value());
}

}  // namespace
}  // namespace onepass::test::kv_cache_test
