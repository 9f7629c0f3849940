#include "graph/memory.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

namespace onepass::graph {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

// Per item the nodes that touch it, ascending.
struct Touches {
  std::vector<std::uint32_t> offsets, nodes;
  std::span<const std::uint32_t> of(std::uint32_t item) const {
    return {nodes.data() + offsets[item], nodes.data() + offsets[item + 1]};
  }
};

Touches find_touches(const Program& program, std::span<const ScratchItem> items) {
  const auto n_items = static_cast<std::uint32_t>(items.size());
  std::vector<std::uint32_t> item_of(program.n_regions, none), same_region(n_items, none);
  for (std::uint32_t i = 0; i < n_items; ++i) {
    if (items[i].region >= program.n_regions) continue;
    same_region[i] = item_of[items[i].region];
    item_of[items[i].region] = i;
  }
  Touches touches;
  std::vector<std::uint32_t> last(n_items), next;
  const auto for_each = [&](auto&& visit) {
    std::fill(last.begin(), last.end(), none);
    for (std::uint32_t node = 0; node < program.size(); ++node) {
      for (const Range& r : program.ranges_of(node)) {
        if (r.lo >= r.hi || r.region >= program.n_regions) continue;
        for (std::uint32_t i = item_of[r.region]; i != none; i = same_region[i]) {
          if (last[i] != node) visit(i, node);
          last[i] = node;
        }
      }
    }
  };
  touches.offsets.assign(std::size_t{n_items} + 1, 0);
  for_each([&](std::uint32_t i, std::uint32_t) { ++touches.offsets[i + 1]; });
  std::partial_sum(touches.offsets.begin(), touches.offsets.end(), touches.offsets.begin());
  touches.nodes.resize(touches.offsets.back());
  next.assign(touches.offsets.begin(), touches.offsets.end() - 1);
  for_each([&](std::uint32_t i, std::uint32_t node) { touches.nodes[next[i]++] = node; });
  return touches;
}

// An item somebody touches. Blocks are numbered by first touch.
struct Block {
  std::uint64_t bytes;  // aligned
  std::uint32_t item, first, last;
};

// Bit (a, b): the blocks may share bytes, one being dead in every execution before the other
// begins.
BitMatrix find_sharable(const Dag& dag, const Touches& touches, std::span<const Block> blocks) {
  // The touches of a block that are no ancestor of another one of them: `last` and these.
  std::vector<std::uint32_t> more_offsets{0}, more;
  for (const Block& block : blocks) {
    const auto nodes = touches.of(block.item);
    for (std::size_t i = nodes.size() - 1; i-- > 0;) {
      bool is_ancestor = dag.ancestors.test(block.last, nodes[i]);
      for (std::size_t k = more_offsets.back(); k < more.size() && !is_ancestor; ++k) {
        is_ancestor = dag.ancestors.test(more[k], nodes[i]);
      }
      if (!is_ancestor) more.push_back(nodes[i]);
    }
    more_offsets.push_back(static_cast<std::uint32_t>(more.size()));
  }

  BitMatrix sharable(blocks.size());
  std::vector<std::uint64_t> common;  // ancestors of every node that touches the later block
  for (std::size_t later = 0; later < blocks.size(); ++later) {
    const auto nodes = touches.of(blocks[later].item);
    const auto first_row = dag.ancestors.row(nodes[0]);
    common.assign(first_row.begin(), first_row.end());
    for (const std::uint32_t node : nodes.subspan(1)) {
      const auto row = dag.ancestors.row(node);
      for (std::size_t w = 0; w <= nodes[0] / 64; ++w) common[w] &= row[w];
    }
    const std::span<std::uint64_t> row = sharable.row(later);
    for (std::size_t early = 0; early < later; ++early) {
      bool ordered = test_bit(common, blocks[early].last);
      for (std::uint32_t k = more_offsets[early]; k < more_offsets[early + 1] && ordered; ++k) {
        ordered = test_bit(common, more[k]);
      }
      if (!ordered) continue;
      set_bit(row, early);
      set_bit(sharable.row(early), later);
    }
  }
  return sharable;
}

struct Span {
  std::uint64_t lo, hi;
  std::uint32_t block;
};

// Places blocks one after the other in the smallest hole that fits.
class BestFit {
 public:
  BestFit(std::span<const Block> blocks, const BitMatrix& sharable)
      : blocks_(blocks), sharable_(sharable) {}

  std::uint64_t run(std::span<const std::uint32_t> order, std::vector<std::uint64_t>& offsets) {
    offsets.assign(blocks_.size(), 0);
    placed_.assign(sharable_.words(), 0);
    by_offset_.clear();
    std::uint64_t arena_bytes = 0;
    for (const std::uint32_t b : order) {
      const std::uint64_t lo = find_hole(b, offsets);
      const Span span{lo, lo + blocks_[b].bytes, b};
      offsets[b] = lo;
      arena_bytes = std::max(arena_bytes, span.hi);
      set_bit(placed_, b);
      by_offset_.insert(std::upper_bound(by_offset_.begin(), by_offset_.end(), span,
                                         [](const Span& x, const Span& y) { return x.lo < y.lo; }),
                        span);
    }
    return arena_bytes;
  }

 private:
  std::uint64_t find_hole(std::uint32_t b, const std::vector<std::uint64_t>& offsets) {
    const std::span<const std::uint64_t> may_share = sharable_.row(b);
    std::size_t n_apart = 0;
    for (std::size_t w = 0; w < sharable_.words(); ++w) {
      n_apart += static_cast<std::size_t>(std::popcount(placed_[w] & ~may_share[w]));
    }
    apart_.clear();
    if (n_apart * 16 > by_offset_.size()) {
      for (const Span& s : by_offset_) {
        if (!test_bit(may_share, s.block)) apart_.push_back(s);
      }
    } else {
      for (std::size_t w = 0; w < sharable_.words(); ++w) {
        for (std::uint64_t bits = placed_[w] & ~may_share[w]; bits != 0; bits &= bits - 1) {
          const auto other = static_cast<std::uint32_t>(w * 64) +
                             static_cast<std::uint32_t>(std::countr_zero(bits));
          apart_.push_back({offsets[other], offsets[other] + blocks_[other].bytes, other});
        }
      }
      std::sort(apart_.begin(), apart_.end(),
                [](const Span& x, const Span& y) { return x.lo < y.lo; });
    }
    const std::uint64_t bytes = blocks_[b].bytes;
    std::uint64_t end = 0, best = UINT64_MAX, best_hole = UINT64_MAX;
    for (const Span& s : apart_) {
      if (s.lo > end && s.lo - end >= bytes && s.lo - end < best_hole) {
        best = end;
        best_hole = s.lo - end;
      }
      end = std::max(end, s.hi);
    }
    return best_hole == UINT64_MAX ? end : best;
  }

  std::span<const Block> blocks_;
  const BitMatrix& sharable_;
  std::vector<std::uint64_t> placed_;  // bit per block
  std::vector<Span> by_offset_, apart_;
};

}  // namespace

Placement place_scratch(const Program& program, const Dag& dag, std::span<const ScratchItem> items,
                        std::uint64_t alignment, bool alias) {
  const std::uint64_t unit = std::max<std::uint64_t>(alignment, 1);
  const bool has_opaque = std::find(program.kinds.begin(), program.kinds.end(), NodeKind::opaque) !=
                          program.kinds.end();
  const Touches touches = find_touches(program, items);
  Placement placement;
  placement.offsets.assign(items.size(), 0);
  std::vector<Block> blocks;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    const auto nodes = touches.of(i);
    if (nodes.empty() && !has_opaque) continue;
    const std::uint64_t bytes = (items[i].bytes + unit - 1) / unit * unit;
    placement.offsets[i] = placement.unaliased_bytes;
    placement.unaliased_bytes += bytes;
    blocks.push_back(
        {bytes, i, nodes.empty() ? 0 : nodes.front(), nodes.empty() ? 0 : nodes.back()});
  }
  placement.arena_bytes = placement.unaliased_bytes;
  if (!alias || has_opaque || dag.ancestors.empty() || blocks.empty()) return placement;

  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block& a, const Block& b) { return a.first < b.first; });
  const BitMatrix sharable = find_sharable(dag, touches, blocks);
  BestFit best_fit(blocks, sharable);
  std::vector<std::uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::vector<std::uint64_t> offsets;
  const auto keep_if_smaller = [&] {
    const std::uint64_t arena_bytes = best_fit.run(order, offsets);
    if (arena_bytes >= placement.arena_bytes) return;
    placement.arena_bytes = arena_bytes;
    for (std::size_t b = 0; b < blocks.size(); ++b) placement.offsets[blocks[b].item] = offsets[b];
  };
  keep_if_smaller();
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return blocks[a].bytes > blocks[b].bytes;
  });
  keep_if_smaller();
  return placement;
}

}  // namespace onepass::graph
