// Random programs of library ops on the emulated card: what is proven is what it runs, early starts
// included, and an order that is changed behind the proof shows in the numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/device_state.h"
#include "graph/plan_state.h"
#include "onepass/ops.h"
#include "onepass/session.h"
#include "support/backends/tampering.h"
#include "support/cuda_emu/backend.h"
#include "support/full_run.h"
#include "support/order_proof.h"
#include "support/random.h"

namespace onepass::property::card_programs_test {
namespace {

using test::count;
using test::Random;
using test::Removals;
using test::TamperingBackend;

// Cells of [rows, dim] f32: the first ones are the caller's, the others scratch.
constexpr std::uint32_t rows = 12, dim = 128, own_cells = 8, all_cells = 14;
constexpr std::uint64_t cell_bytes = std::uint64_t{rows} * dim * sizeof(float);

// norm reads its weight, a row of any cell, before it waits.
enum class Kind : std::uint32_t { norm, add, gate, cap, fence };

// Rows [first, first + n) of cells; the weight is row `first`.
struct Step {
  Kind kind;
  std::uint32_t x, y, out;
  std::uint32_t first, n;
};
using Steps = std::vector<Step>;

// What is not written yet is not read; the first write of scratch is a whole cell.
Steps random_steps(std::uint64_t seed) {
  Random random(seed);
  std::array<bool, all_cells> written{};
  std::fill_n(written.begin(), own_cells, true);
  const auto readable = [&] {
    for (;;) {
      const std::uint32_t cell = random.in(0, all_cells - 1);
      if (written[cell]) return cell;
    }
  };
  Steps steps(random.in(8, 40));
  for (Step& s : steps) {
    s.kind = random.percent(3) ? Kind::fence : static_cast<Kind>(random.in(0, 3));
    s.x = readable();
    s.y = readable();
    do {
      s.out = random.in(0, all_cells - 1);
    } while (s.kind == Kind::norm && s.out == s.y);
    s.first = written[s.out] ? random.in(0, rows - 1) : 0;
    s.n = written[s.out] ? random.in(1, rows - s.first) : rows;
    if (s.kind != Kind::fence) written[s.out] = true;
  }
  return steps;
}

// A card of its own size, and values that every run starts from.
class Card {
 public:
  Card(std::uint32_t compute_units, bool serial)
      : own_(std::make_unique<TamperingBackend>(
            emu::make_cuda_emulator({.seed = 1, .compute_units = compute_units}))),
        backend_(own_.get()),
        device_(*DeviceState::create(std::move(own_), {.serial = serial})),
        memory_(*device_.allocate(own_cells * cell_bytes)),
        values_(own_cells * cell_bytes / sizeof(float)) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = 2.0f * std::sin(static_cast<float>(i) * 0.37f);
    }
  }

  TamperingBackend& backend() { return *backend_; }

  Result<Plan> compile(const Steps& steps, bool fuse) {
    const GraphExecutor executor(device_);
    GraphSession s = executor.begin_recorded();
    std::array<Tensor, all_cells> cells;
    for (std::uint32_t c = 0; c < all_cells; ++c) {
      cells[c] = c < own_cells ? memory_.tensor(DType::f32, {rows, dim}, c * cell_bytes)
                               : s.scratch(DType::f32, {rows, dim});
    }
    for (const Step& step : steps) {
      const auto part = [&](std::uint32_t cell, std::uint32_t n, Shape shape) {
        const std::uint64_t row_bytes = dim * sizeof(float);
        return Tensor{*cells[cell].view.sub(step.first * row_bytes, n * row_bytes), DType::f32,
                      shape};
      };
      const Shape shape{step.n, dim};
      const Tensor x = part(step.x, step.n, shape), out = part(step.out, step.n, shape);
      switch (step.kind) {
        case Kind::norm:
          ops::rms_norm(s, {.x = x, .weight = part(step.y, 1, {dim}), .out = out});
          break;
        case Kind::add:
          ops::add(s, {.a = x, .b = part(step.y, step.n, shape), .out = out});
          break;
        case Kind::gate:
          ops::sigmoid_mul(s, {.a = x, .b = part(step.y, step.n, shape), .out = out});
          break;
        case Kind::cap:
          ops::softcap(s, {.x = x, .out = out, .cap = 3.0f});
          break;
        case Kind::fence:
          s.barrier();
          break;
      }
    }
    return s.compile({.fuse = fuse});
  }

  // What is in the caller's cells after a run.
  std::vector<float> run(const Plan& plan) {
    EXPECT_TRUE(device_.write_as<float>(memory_.view(), values_));
    EXPECT_TRUE(plan.run());
    std::vector<float> out(values_.size());
    EXPECT_TRUE(device_.read_as<float>(memory_.view(), out));
    return out;
  }

 private:
  std::unique_ptr<TamperingBackend> own_;  // until the device has it
  TamperingBackend* backend_;
  Device device_;
  Buffer memory_;
  std::vector<float> values_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Another random order of the launches in every run.
bool differs(Card& card, const Plan& plan, const std::vector<float>& want, int runs) {
  for (int i = 0; i < runs; ++i) {
    if (!same_bits(card.run(plan), want)) return true;
  }
  return false;
}

// The order of each device size: every launch fills the smallest one.
constexpr std::uint32_t sizes[] = {1, 2, 132};

TEST(CardPrograms, RunTheOrderThatIsProven) {
  const std::uint32_t n = count(1000, 5000);
  Removals totals;
  for (const std::uint32_t compute_units : sizes) {
    Card card(compute_units, false), serial(compute_units, true);
    for (std::uint32_t seed = 0; seed < n; ++seed) {
      if (sizes[seed % std::size(sizes)] != compute_units) continue;
      const Steps steps = random_steps(seed);
      const bool fuse = seed % 2 == 0;
      const auto plan = card.compile(steps, fuse), in_order = serial.compile(steps, fuse);
      ASSERT_TRUE(plan) << seed << ": " << plan.error().to_string();
      ASSERT_TRUE(in_order);
      const RecordedPass& pass = *plan->state().pass;
      EXPECT_EQ(card.backend().got, &pass.order);
      EXPECT_EQ(pass.order.kind, OrderKind::edges);
      EXPECT_EQ(serial.backend().got->kind, OrderKind::in_order);
      ASSERT_EQ(test::check_removals(pass.recording, pass.order, totals), "") << seed;
      ASSERT_FALSE(differs(card, *plan, serial.run(*in_order), 3)) << seed;
    }
  }
  test::print("emulated card", totals);
  EXPECT_EQ(totals.orders, n);
  EXPECT_GT(totals.total(), 20u * n);
  EXPECT_GT(totals.programmatic, 5u * n);
  EXPECT_GT(totals.added, n);
  EXPECT_GT(totals.early, n);
  EXPECT_GT(totals.implied.size(), n);
}

// The order with one edge less or weaker.
struct Change {
  Order order;
  test::Lost lost;
};

// All that let a launch read too early, and some others.
std::vector<Change> changes_of(const Recording& r, const Order& order, Random& random) {
  const auto demands = test::demands_of(r);
  std::vector<Change> changes;
  for (std::uint32_t v = 0; v < r.launches.size(); ++v) {
    for (std::uint32_t e = order.edge_offsets[v]; e < order.edge_offsets[v + 1]; ++e) {
      Order weaker = order;
      weaker.edges[e].programmatic = true;
      for (const Order& o : {weaker, test::without_edge(order, v, e)}) {
        const test::Lost lost = test::lost_by(r, o, demands);
        if (lost == test::Lost::early || random.percent(5)) changes.push_back({o, lost});
      }
    }
  }
  return changes;
}

// The card runs the order as it was changed behind the proof: where that loses something, the proof
// would have said so and often numbers differ (not where the bytes are written again, unread, or
// launches happen to run in the order that was lost); where it loses nothing, never.
TEST(CardPrograms, AnOrderChangedBehindTheProofShows) {
  const std::uint32_t n = count(60, 1000);
  struct {
    std::uint32_t changes = 0, shown = 0;
  } totals[3];
  Card card(2, false), serial(2, true);
  for (std::uint32_t seed = 0; seed < n; ++seed) {
    const Steps steps = random_steps(seed);
    const auto plan = card.compile(steps, false), in_order = serial.compile(steps, false);
    ASSERT_TRUE(plan && in_order);
    const std::vector<float> want = serial.run(*in_order);
    const RecordedPass& pass = *plan->state().pass;
    Random random(seed);
    for (const Change& change : changes_of(pass.recording, pass.order, random)) {
      card.backend().tamper = [&](Order& o) { o = change.order; };
      const auto tampered = card.compile(steps, false);
      card.backend().tamper = nullptr;
      ASSERT_TRUE(tampered) << "proven before it was changed";
      EXPECT_EQ(card.backend().found.empty(), change.lost == test::Lost::nothing) << seed;
      const bool shows = differs(card, *tampered, want, 6);
      EXPECT_FALSE(shows && change.lost == test::Lost::nothing) << seed;
      auto& kind = totals[static_cast<std::size_t>(change.lost)];
      ++kind.changes;
      kind.shown += shows ? 1 : 0;
    }
  }
  const auto& [nothing, early, bytes] = totals;
  std::printf("changes that lose bytes: %u, %u show; that read early: %u, %u show; nothing: %u\n",
              bytes.changes, bytes.shown, early.changes, early.shown, nothing.changes);
  EXPECT_GT(bytes.changes, n);
  EXPECT_GT(bytes.shown * 3, bytes.changes);
  EXPECT_GT(early.changes, n / 2);
  EXPECT_GT(early.shown * 3, early.changes);
  EXPECT_GT(nothing.changes, n / 2);
}

}  // namespace
}  // namespace onepass::property::card_programs_test
