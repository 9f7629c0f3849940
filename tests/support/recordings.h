// Hand-made recordings over cells of 64-bit words, with a reference that runs them in program
// order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "support/ordered_recording.h"

namespace onepass::testing {

inline constexpr std::size_t cell_words = 32;
inline constexpr std::size_t cell_bytes = cell_words * sizeof(std::uint64_t);

inline std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct HashParams {
  std::uint64_t salt = 0;
};

// The last view is hashed in place with all others. A word depends on words of the inputs that
// other tiles of their producers wrote, so a missing wait changes the result.
inline void hash_words(std::span<std::uint64_t* const> cells, std::uint64_t salt, std::size_t begin,
                       std::size_t end) noexcept {
  std::uint64_t* out = cells.back();
  for (std::size_t j = begin; j < end; ++j) {
    std::uint64_t h = mix(salt ^ out[j]);
    for (std::size_t v = 0; v + 1 < cells.size(); ++v)
      h = mix(h ^ cells[v][(j * 7 + 13) % cell_words]) + cells[v][j];
    out[j] = h;
  }
}

inline void hash_kernel(const KernelArgs& a) noexcept {
  std::array<std::uint64_t*, max_views> cells;
  for (std::uint32_t v = 0; v < a.n_views; ++v) cells[v] = a.ptr<std::uint64_t>(v);
  const KernelArgs::Part part = a.part(cell_words);
  hash_words({cells.data(), a.n_views}, a.params_as<HashParams>().salt, part.begin, part.end);
}

inline constexpr KernelRow hash_row{.name = "hash", .code = hash_kernel};

// One step of a program: hashes cell `out` in place with the cells `in`.
struct Step {
  std::vector<std::uint32_t> in;
  std::uint32_t out = 0;
  std::uint32_t tiles = 1;
  std::uint64_t salt = 0;
  bool fence = false;
};
using Program = std::vector<Step>;

inline Program random_program(std::uint64_t seed, std::uint32_t n_steps, std::uint32_t n_cells,
                              double fence_chance = 0.02) {
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(rng() % n); };
  Program program(n_steps);
  for (Step& step : program) {
    step.fence = std::uniform_real_distribution<>()(rng) < fence_chance;
    step.out = below(n_cells);
    step.tiles = 1 + below(5);
    step.salt = rng();
    for (std::uint32_t i = below(4); i > 0; --i) {
      if (const std::uint32_t cell = below(n_cells); cell != step.out) step.in.push_back(cell);
    }
  }
  return program;
}

// A chain: every step reads what the one before wrote.
inline Program chain_program(std::uint32_t n_steps, std::uint32_t tiles) {
  Program program(n_steps);
  for (std::uint32_t i = 0; i < n_steps; ++i) {
    program[i].out = i % 2;
    program[i].in = {(i + 1) % 2};
    program[i].tiles = tiles;
    program[i].salt = i;
  }
  return program;
}

// `times` passes over the program, in its own order.
inline void run_reference(const Program& program, std::span<std::uint64_t> words, int times = 1) {
  for (int t = 0; t < times; ++t) {
    for (const Step& step : program) {
      if (step.fence) continue;
      std::vector<std::uint64_t*> cells;
      for (const std::uint32_t c : step.in) cells.push_back(words.data() + c * cell_words);
      cells.push_back(words.data() + step.out * cell_words);
      hash_words(cells, step.salt, 0, cell_words);
    }
  }
}

inline bool conflicts(const Step& a, const Step& b) {
  const auto reads = [](const Step& s, std::uint32_t cell) {
    return std::find(s.in.begin(), s.in.end(), cell) != s.in.end();
  };
  return a.fence || b.fence || a.out == b.out || reads(a, b.out) || reads(b, a.out);
}

// Sorted by level, with every conflict as an edge (not reduced).
inline OrderedRecording make_recording(const Program& program, const Allocation& memory,
                                       OrderKind model, const KernelRow& row = hash_row) {
  const std::size_t n = program.size();
  std::vector<std::uint32_t> level(n, 0);
  std::vector<std::vector<std::uint32_t>> preds(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t j = 0; j < i; ++j) {
      if (!conflicts(program[i], program[j])) continue;
      preds[i].push_back(j);
      level[i] = std::max(level[i], level[j] + 1);
    }
  }
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return level[a] < level[b]; });
  std::vector<std::uint32_t> place(n);
  for (std::uint32_t i = 0; i < n; ++i) place[order[i]] = i;

  OrderedRecording r;
  r.serial = model == OrderKind::in_order;
  r.replayed = true;
  r.launches.resize(n);
  r.range_offsets.assign(n + 1, 0);
  if (model == OrderKind::edges) r.pred_offsets.push_back(0);
  for (std::uint32_t i = 0; i < n; ++i) {
    const Step& step = program[order[i]];
    RecordedLaunch& l = r.launches[i];
    l.index = order[i];
    l.level = level[order[i]];
    while (r.level_offsets.size() <= l.level) r.level_offsets.push_back(i);
    if (!step.fence) {
      l.kernel = &row;
      l.launch.tiles = step.tiles;
      const HashParams params{step.salt};
      std::memcpy(l.params.data(), &params, sizeof params);
      for (const std::uint32_t c : step.in)
        l.views[l.n_views++] = BoundView{memory, c * cell_bytes, cell_bytes};
      l.views[l.n_views++] = BoundView{memory, step.out * cell_bytes, cell_bytes};
    }
    if (model == OrderKind::edges) {
      for (const std::uint32_t p : preds[order[i]]) r.preds.push_back(place[p]);
      r.pred_offsets.push_back(static_cast<std::uint32_t>(r.preds.size()));
    }
  }
  r.level_offsets.push_back(static_cast<std::uint32_t>(n));
  return r;
}

// One launch without views.
inline OrderedRecording one_launch(const KernelRow& row, std::uint32_t tiles = 1) {
  OrderedRecording r;
  r.launches.resize(1);
  r.launches[0].kernel = &row;
  r.launches[0].launch.tiles = tiles;
  r.level_offsets = {0, 1};
  r.pred_offsets = {0, 0};
  r.replayed = true;
  return r;
}

}  // namespace onepass::testing
