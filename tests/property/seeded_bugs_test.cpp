// Known kinds of scheduler bugs, made on purpose: each must be reported in every graph whose
// meaning it changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>

#include "core/device_state.h"
#include "graph/plan_state.h"
#include "graph/validate.h"
#include "property/mutants.h"

namespace onepass::property::seeded_bugs_test {
namespace {

struct Verdict {
  bool applicable = false;  // the mutation changes what the pass means
  bool killed = false;
  bool shuffled = false;  // bytes or inputs differed in an adversarial order, too
};

// The validator's view of a schedule that the byte-by-byte truth calls wrong.
Verdict judge(Case& c, const Schedule& schedule, std::uint64_t seed) {
  if (!breaks(schedule, c.truth)) return {};
  const OrderedRecording r = make_recording(c.program, schedule);
  return {true, !testing::find_violations(r, schedule.model).empty(), shuffling_shows(c, r, seed)};
}

// ---- barriers ----

Verdict remove_barrier(Case& c, Random& random) {
  Schedule s = in_groups(c.truth);
  if (s.level.back() == 0) return {};
  const std::uint32_t gone = random.in(0, s.level.back() - 1);
  for (std::uint32_t& level : s.level) level -= level > gone ? 1 : 0;
  return judge(c, s, random.next());
}

Verdict move_barrier_later(Case& c, Random& random) {
  Schedule s = in_groups(c.truth);
  if (s.level.back() == 0) return {};
  const std::uint32_t group = random.in(1, s.level.back());
  const auto first = std::find(s.level.begin(), s.level.end(), group);
  const bool was_alone = first + 1 == s.level.end() || *(first + 1) != group;
  *first = group - 1;
  if (was_alone) {
    for (auto it = first + 1; it != s.level.end(); ++it) --*it;
  }
  return judge(c, s, random.next());
}

Verdict reset_at_split(Case& c, Random& random) {
  return judge(c, in_groups(c.truth, random.in(1, c.size() - 1)), random.next());
}

// ---- what the tracker sees ----

// Half of the schedules are groups in recorded order, half are edges.
Schedule schedule_of(const BitRows& conflicts, Random& random) {
  return random.percent(50) ? in_groups(conflicts) : by_edges(conflicts);
}

// Tries sites until one changes the meaning. `mutate` returns false where it does not apply.
template <class Mutate>
Verdict with_wrong_touch(Case& c, Random& random, Mutate mutate) {
  for (int tries = 0; tries < 30; ++tries) {
    Touches touches = c.touches;
    auto& list = touches[random.in(0, c.size() - 1)];
    if (list.empty()) continue;
    const std::uint32_t at = random.in(0, static_cast<std::uint32_t>(list.size()) - 1);
    if (!mutate(list, at)) continue;
    const Verdict v = judge(c, schedule_of(find_conflicts(touches, {}), random), random.next());
    if (v.applicable) return v;
  }
  return {};
}

using TouchList = std::vector<Touch>;

bool drop_read(TouchList& list, std::uint32_t at) {
  if (!list[at].read || list[at].write) return false;
  list.erase(list.begin() + at);
  return true;
}
bool drop_write(TouchList& list, std::uint32_t at) {
  if (!list[at].write) return false;
  list.erase(list.begin() + at);
  return true;
}
bool shrink(TouchList& list, std::uint32_t at) {
  if (at % 2 == 0) {
    ++list[at].lo;
  } else {
    --list[at].hi;
  }
  return true;
}
bool shift(TouchList& list, std::uint32_t at) {
  const std::int32_t by = list[at].lo % 2 == 0 ? 1 : -1;
  list[at].lo += by;
  list[at].hi += by;
  return true;
}
bool read_write_as_read(TouchList& list, std::uint32_t at) {
  if (!list[at].read || !list[at].write) return false;
  list[at].write = false;
  return true;
}

template <bool (*mutate)(TouchList&, std::uint32_t)>
Verdict wrong_touch(Case& c, Random& random) {
  return with_wrong_touch(c, random, mutate);
}

// The declaration itself is wrong: nothing that believes it can see that, the guard does.
template <bool (*mutate)(TouchList&, std::uint32_t)>
Verdict wrong_declaration(Case& c, Random& random) {
  std::vector<std::uint32_t> hashes;
  for (const OpSpec& op : c.graph.ops) {
    if (op.type == OpType::hash) hashes.push_back(op.id);
  }
  c.bench.start(RunOrder::forward, 0, std::byte{0xa5});
  for (int tries = 0; tries < 30; ++tries) {
    const std::uint32_t i = hashes[random.in(0, static_cast<std::uint32_t>(hashes.size()) - 1)];
    TouchList declared = c.touches[i];
    const std::uint32_t at = random.in(0, static_cast<std::uint32_t>(declared.size()) - 1);
    if (!mutate(declared, at) || !is_undeclared(c.touches[i], declared)) continue;
    return {true, guard_reports(c, i, declared), false};
  }
  return {};
}

// ---- the rule ----

Verdict with_wrong_rule(Case& c, Random& random, const Rule& rule) {
  return judge(c, schedule_of(find_conflicts(c.touches, rule), random), random.next());
}

Verdict one_byte_overlap_missed(Case& c, Random& random) {
  return with_wrong_rule(c, random, {.one_byte_is_none = true});
}
Verdict skip_war(Case& c, Random& random) { return with_wrong_rule(c, random, {.skip_war = true}); }
Verdict skip_waw(Case& c, Random& random) { return with_wrong_rule(c, random, {.skip_waw = true}); }

// Too much order is wrong as well: some edge then joins launches that share no byte.
Verdict wrong_edges(Case& c, const Rule& rule, std::uint64_t seed) {
  const BitRows conflicts = find_conflicts(c.touches, rule);
  if (same_closure(conflicts, c.truth)) return {};
  const Schedule schedule = by_edges(conflicts);
  const OrderedRecording r = make_recording(c.program, schedule);
  const bool too_little = !testing::find_violations(r, OrderKind::edges).empty();
  return {true, too_little || has_needless_edge(r), too_little && shuffling_shows(c, r, seed)};
}

Verdict adjacent_conflicts(Case& c, Random& random) {
  return wrong_edges(c, {.adjacent_conflicts = true}, random.next());
}
Verdict ignore_offset(Case& c, Random& random) {
  return wrong_edges(c, {.ignore_offset = true}, random.next());
}

// ---- passes ----

Verdict reorder_forgets_skipped(Case& c, Random& random) {
  return judge(c, in_groups(c.truth, greedy(c.truth, false)), random.next());
}

struct Pair {
  std::size_t norm, mul;
  std::uint32_t other;  // operand of mul that is not the intermediate
};

// Pairs a fusion that checks everything but the intermediate's fate would take.
std::vector<Pair> find_pairs(const GraphSpec& g) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < g.ops.size(); ++i) {
    const OpSpec& norm = g.ops[i];
    if (norm.type != OpType::rms_norm) continue;
    const Place &x = norm.places[0], &inter = norm.places[2];
    for (std::size_t j = i + 1; j < g.ops.size(); ++j) {
      const OpSpec& mul = g.ops[j];
      const bool left = mul.places[0] == inter, right = mul.places[1] == inter;
      if (mul.type == OpType::mul && left != right) {
        const Place &scale = mul.places[left ? 1 : 0], &out = mul.places[2];
        const bool safe = !g.overlap(scale, inter) && (out == x || !g.overlap(out, x)) &&
                          (out == scale || !g.overlap(out, scale));
        if (safe) pairs.push_back({i, j, left ? 1u : 0u});
        break;
      }
      bool spoiled = false;
      for (std::uint32_t k = 0; k < mul.n; ++k) {
        spoiled |= writes(mul.access[k]) &&
                   (g.overlap(mul.places[k], inter) || g.overlap(mul.places[k], x));
      }
      if (spoiled) break;
    }
  }
  return pairs;
}

GraphSpec fused(const GraphSpec& g, const Pair& pair) {
  GraphSpec out = g;
  OpSpec& mul = out.ops[pair.mul];
  const OpSpec& norm = g.ops[pair.norm];
  OpSpec both;
  both.type = OpType::rms_norm_mul;
  both.id = mul.id;
  both.rows = norm.rows;
  both.add(norm.places[0], Access::read);
  both.add(norm.places[1], Access::read);
  both.add(mul.places[2], Access::write);
  both.add(mul.places[pair.other], Access::read);
  mul = both;
  out.ops.erase(out.ops.begin() + static_cast<std::ptrdiff_t>(pair.norm));
  return out;
}

// Takes a pair whose intermediate is still needed: by a reader, or by the caller.
Verdict fuse_wrongly(Case& c, Random& random, bool by_caller) {
  for (const Pair& pair : find_pairs(c.graph)) {
    const Place& inter = c.graph.ops[pair.norm].places[2];
    const BufferSpec& b = c.graph.buffers[inter.buffer];
    const Block& compared = c.expected.compared[b.memory];
    const bool observed =
        std::any_of(compared.bytes.begin() + c.graph.first_byte(inter),
                    compared.bytes.begin() + c.graph.first_byte(inter) + inter.bytes,
                    [](std::byte mask) { return mask != std::byte{0}; });
    if (observed != by_caller) continue;
    const GraphSpec mutant = fused(c.graph, pair);
    if (equal_outcomes(c.expected, run_reference(mutant, 1, std::byte{0xa5}))) continue;
    c.bench.start(RunOrder::reverse, random.next(), std::byte{0xa5});
    const auto report = c.bench.record(mutant).finish({.fuse = false});
    const bool killed = !report || !c.bench.agrees(c.expected);
    return {true, killed, killed};
  }
  return {};
}
Verdict fuse_without_use_count(Case& c, Random& random) { return fuse_wrongly(c, random, false); }
Verdict fuse_ignoring_output(Case& c, Random& random) { return fuse_wrongly(c, random, true); }

// ---- memory ----

// Scratch shares bytes wherever the levels do not overlap, although nothing orders the users.
Verdict alias_by_level(Case& c, Random& random) {
  const Schedule s = by_edges(c.truth);
  struct Item {
    std::uint32_t memory, bytes, first = UINT32_MAX, last = 0;
    std::uint64_t lo = 0;
  };
  std::vector<Item> items;
  for (const BufferSpec& b : c.graph.buffers) {
    if (b.store != Store::scratch) continue;
    Item item{b.memory, b.bytes};
    for (std::size_t k = 0; k < s.order.size(); ++k) {
      for (const Touch& t : c.touches[s.order[k]]) {
        if (t.region != b.memory) continue;
        item.first = std::min(item.first, s.level[k]);
        item.last = std::max(item.last, s.level[k]);
      }
    }
    if (item.first == UINT32_MAX) continue;
    for (bool again = true; again;) {  // the lowest place that no item of these levels holds
      again = false;
      for (const Item& other : items) {
        const bool apart = other.last < item.first || item.last < other.first ||
                           other.lo + other.bytes <= item.lo || item.lo + item.bytes <= other.lo;
        if (!apart) {
          item.lo = other.lo + other.bytes;
          again = true;
        }
      }
    }
    items.push_back(item);
  }
  const std::uint32_t arena = c.graph.n_memories;  // one more region
  Touches physical = c.touches;
  OrderedRecording program = c.program;
  program.ranges.clear();
  program.range_offsets.assign(1, 0);
  std::uint32_t dispatch = 0;
  for (const OpSpec& op : c.graph.ops) {
    RecordedLaunch& launch = program.launches[dispatch];
    std::size_t touch = 0;
    for (std::uint32_t k = 0; k < op.n; ++k) {
      if (c.graph.is_immutable(op.places[k])) continue;
      Touch& t = physical[dispatch][touch++];
      const auto item = std::find_if(items.begin(), items.end(),
                                     [&](const Item& i) { return i.memory == t.region; });
      if (item != items.end()) {
        const std::int32_t bytes = t.hi - t.lo;
        t.region = arena;
        t.lo += static_cast<std::int32_t>(item->lo);
        t.hi = t.lo + bytes;
        launch.views[k].offset = item->lo + op.places[k].offset;
      }
      program.ranges.push_back(
          {t.region, static_cast<std::uint64_t>(t.lo), static_cast<std::uint64_t>(t.hi), t.write});
    }
    program.range_offsets.push_back(static_cast<std::uint32_t>(program.ranges.size()));
    ++dispatch;
  }
  if (!breaks(s, find_conflicts(physical, {}))) return {};
  const OrderedRecording r = make_recording(program, s);
  return {true, !testing::find_violations(r, OrderKind::edges).empty(),
          shuffling_shows(c, r, random.next())};
}

// A plan that forgets to ask whether its buffers still live. The device hands the same memory out
// again, so nothing but the generation tells.
Verdict replay_ignores_generation(Case& c, Random& random) {
  const Device& device = c.bench.device();
  Result<Buffer> buffer = device.allocate(64);
  if (!buffer) return {};
  const std::byte* address = device.map(buffer->view())->data();
  GraphSession session = c.bench.record(c.graph);
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = *device.kernels().get("hash");
  d.set_params(HashParams{159, 1, 0, 0});
  d.bind(buffer->view(), Access::read);
  session.encode(d);
  const auto plan = session.compile({.fuse = random.percent(50)});
  if (!plan || !plan->run()) return {};
  buffer->reset();
  if (!device.fence()) return {};  // gives the memory back
  const Result<Buffer> again = device.allocate(64);
  const bool same_place = again && device.map(again->view())->data() == address;
  const Status checked = plan->run();
  if (checked || checked.error().code != ErrorCode::stale) return {true, false, false};
  RecordedPass& pass = *plan->state().pass;
  const std::vector<BufferId> required = std::exchange(pass.required, {});
  const Status unchecked = plan->run();
  pass.required = required;
  return {same_place, unchecked.has_value(), false};
}

struct Kind {
  const char* name;
  const char* killer;
  Verdict (*apply)(Case&, Random&);
};
constexpr std::array<Kind, 22> kinds{{
    {"remove barrier", "validator", remove_barrier},
    {"move barrier one later", "validator", move_barrier_later},
    {"tracker drops a read range", "validator", wrong_touch<drop_read>},
    {"tracker drops a write range", "validator", wrong_touch<drop_write>},
    {"tracker shrinks a range by a byte", "validator", wrong_touch<shrink>},
    {"tracker shifts a range by a byte", "validator", wrong_touch<shift>},
    {"declaration lacks a read range", "guard", wrong_declaration<drop_read>},
    {"declaration lacks a write range", "guard", wrong_declaration<drop_write>},
    {"declared range a byte too short", "guard", wrong_declaration<shrink>},
    {"declared range shifted by a byte", "guard", wrong_declaration<shift>},
    {"overlap: < becomes <=", "minimality", adjacent_conflicts},
    {"overlap: <= becomes <", "validator", one_byte_overlap_missed},
    {"ignore offset", "validator or minimality", ignore_offset},
    {"treat RW as R", "validator", wrong_touch<read_write_as_read>},
    {"skip WAR", "validator", skip_war},
    {"skip WAW", "validator", skip_waw},
    {"reset tracker at split", "validator", reset_at_split},
    {"fuse without use count", "shuffle", fuse_without_use_count},
    {"fuse ignoring the output flag", "shuffle", fuse_ignoring_output},
    {"reorder forgets the skipped set", "validator", reorder_forgets_skipped},
    {"alias by level", "validator", alias_by_level},
    {"replay ignores generation", "stale run", replay_ignores_generation},
}};

GraphOptions options_of(const Kind& kind) {
  GraphOptions options = case_options();
  if (kind.apply == fuse_without_use_count || kind.apply == fuse_ignoring_output) {
    options.pair_percent = 50;
  }
  if (kind.apply == alias_by_level) options.max_scratch = 16;
  return options;
}

TEST(SeededBugs, AreReportedWhereverTheyChangeTheMeaning) {
  const std::uint32_t wanted = count(200, 1000);
  const Stopwatch watch;
  Bench bench;
  std::printf("%-34s %-24s %8s %10s %8s %7s %9s\n", "bug", "killer", "graphs", "applicable",
              "killed", "rate", "shuffling");
  for (const Kind& kind : kinds) {
    std::uint32_t tried = 0, applicable = 0, killed = 0, shuffled = 0;
    for (std::uint64_t seed = 0; applicable < wanted && seed < 50ull * wanted; ++seed) {
      const GraphSpec graph = random_graph(seed, options_of(kind));
      std::optional<Case> c = make_case(bench, graph);
      ASSERT_TRUE(c) << kind.name << ", graph " << seed;
      Random random(seed * 0x9e3779b97f4a7c15u + 1);
      const Verdict v = kind.apply(*c, random);
      ++tried;
      if (!v.applicable) continue;
      ++applicable;
      killed += v.killed ? 1 : 0;
      shuffled += v.shuffled ? 1 : 0;
      EXPECT_TRUE(v.killed) << kind.name << ", graph " << seed;
    }
    std::printf("%-34s %-24s %8u %10u %8u %6.1f%% %8.1f%%\n", kind.name, kind.killer, tried,
                applicable, killed, 100.0 * killed / std::max(applicable, 1u),
                100.0 * shuffled / std::max(applicable, 1u));
    EXPECT_EQ(applicable, wanted) << kind.name;
    EXPECT_EQ(killed, applicable) << kind.name;
  }
  std::printf("%zu kinds, %.1f s\n", kinds.size(), watch.seconds());
}

// The instruments say nothing where there is nothing to say.
TEST(SeededBugs, InstrumentsAreQuietOnSoundGraphs) {
  const std::uint32_t n = count(100, 1000);
  Bench bench;
  std::uint64_t launches = 0;
  for (std::uint64_t seed = 0; seed < n; ++seed) {
    const GraphSpec graph = random_graph(seed, case_options());
    std::optional<Case> c = make_case(bench, graph);
    ASSERT_TRUE(c) << seed;
    EXPECT_EQ(find_conflicts(c->touches, {}), c->truth);
    for (const Schedule& s :
         {in_groups(c->truth), by_edges(c->truth), in_groups(c->truth, greedy(c->truth, true))}) {
      ASSERT_FALSE(breaks(s, c->truth)) << seed;
      const OrderedRecording r = make_recording(c->program, s);
      EXPECT_TRUE(testing::find_violations(r, s.model).empty()) << seed;
      EXPECT_FALSE(shuffling_shows(*c, r, seed)) << seed;
      if (s.model == OrderKind::edges) {
        EXPECT_FALSE(has_needless_edge(r)) << seed;
      }
    }
    EXPECT_FALSE(has_needless_edge(
        OrderedRecording(c->plan.state().pass->recording, c->plan.state().pass->order)))
        << seed;
    bench.start(RunOrder::forward, 0, std::byte{0xa5});
    for (std::uint32_t i = 0; i < c->size(); ++i, ++launches) {
      EXPECT_FALSE(guard_reports(*c, i, c->touches[i])) << "graph " << seed << ", launch " << i;
    }
    if (HasFailure()) return;
  }
  std::printf("%u graphs, %llu launches guarded\n", n, static_cast<unsigned long long>(launches));
}

}  // namespace
}  // namespace onepass::property::seeded_bugs_test
