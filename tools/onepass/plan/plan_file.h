// Plans as files: what a model's pass was compiled to, to look at and to compare.
//
//   ONEPASS_ASSIGN(SavedPlan a, read_plan("before.json"));
//   ONEPASS_ASSIGN(SavedPlan b, read_plan("after.json"));
//   put(plan_diff_text(a, b));
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "onepass/plan.h"

namespace onepass::tool {

struct SavedPlan {
  std::string version;  // of the program that made it
  std::string model, device, policy;
  std::uint32_t rows = 1;
  bool fuse = true;
  std::uint64_t arena_bytes = 0, scratch_bytes = 0, persistent_bytes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> fused;  // rules that fired
  std::string issued;  // what its device is given: "68 barriers"; not read from files
  std::vector<PlanStep> steps;

  std::uint32_t dispatches() const noexcept;
  std::uint32_t levels() const noexcept;
  std::uint32_t barriers() const noexcept { return levels() == 0 ? 0 : levels() - 1; }
  std::uint64_t edges() const noexcept;
  std::string counts_text() const;  // "69 dispatches in 69 levels, 68 edges (72 edges issued)"
  std::uint64_t bytes_moved() const noexcept;
};

SavedPlan saved_plan(const Plan& plan);

inline constexpr std::uint64_t max_plan_bytes = std::uint64_t{64} << 20;
std::string plan_json(const SavedPlan& plan);
// A file that plan_json wrote. Everything in it is checked: levels ascend from 0, steps wait for
// earlier ones of lower levels only, arena bytes lie in the arena.
Result<SavedPlan> parse_plan(std::string_view text);
Result<SavedPlan> read_plan(const std::string& path);

std::string plan_text(const SavedPlan& plan);

// How b differs from a: totals, kernels, steps.
struct PlanDiff {
  struct Line {
    char side = ' ';             // '-': only in a, '+': only in b
    std::uint32_t position = 0;  // there
  };
  std::vector<Line> lines;  // of a '-' or '+', in the order of both
  bool same = true;         // steps, levels, waits and arena bytes are all equal
};
PlanDiff diff_plans(const SavedPlan& a, const SavedPlan& b);
std::string plan_diff_text(const SavedPlan& a, const SavedPlan& b, const PlanDiff& diff);
std::string plan_diff_json(const SavedPlan& a, const SavedPlan& b, const PlanDiff& diff);

// The plan as a picture: one column for each level, lines between them. fold: groups of steps that
// repeat, as layers do, are drawn once, with how often they come.
std::string plan_svg(const SavedPlan& plan, bool fold);

}  // namespace onepass::tool
