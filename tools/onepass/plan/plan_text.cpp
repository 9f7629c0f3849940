#include <algorithm>
#include <cstdio>
#include <map>

#include "commands/common.h"
#include "common/json_writer.h"
#include "common/print_to.h"
#include "plan_file.h"

namespace onepass::tool {
namespace {

// Steps that are compared one with each other; above this all of the rest counts as replaced.
constexpr std::size_t max_compared = std::size_t{16} << 20;

std::string title_of(const PlanStep& s) {
  return s.label.empty() ? s.kernel : s.kernel + " (" + s.label + ")";
}

std::string waits_for(const PlanStep& s) {
  std::string text;
  for (const std::uint32_t p : s.after) text += (text.empty() ? "" : ",") + std::to_string(p);
  return text.empty() ? "-" : text;
}

std::string arena_of(const PlanStep& s) {
  std::string text;
  for (const PlanStep::ArenaUse& use : s.arena) {
    char part[64];
    std::snprintf(part, sizeof part, "%s%s%llx+%llx", text.empty() ? "" : " ",
                  use.write ? "w:" : "r:", static_cast<unsigned long long>(use.begin),
                  static_cast<unsigned long long>(use.end - use.begin));
    text += part;
  }
  return text;
}

struct Total {
  const char* name;
  std::uint64_t a, b;
  bool bytes;
};
std::vector<Total> totals(const SavedPlan& a, const SavedPlan& b) {
  return {{"rows", a.rows, b.rows, false},
          {"dispatches", a.dispatches(), b.dispatches(), false},
          {"levels", a.levels(), b.levels(), false},
          {"edges", a.edges(), b.edges(), false},
          {"bytes_moved", a.bytes_moved(), b.bytes_moved(), true},
          {"arena_bytes", a.arena_bytes, b.arena_bytes, true},
          {"scratch_bytes", a.scratch_bytes, b.scratch_bytes, true},
          {"persistent_bytes", a.persistent_bytes, b.persistent_bytes, true}};
}

struct KernelCount {
  std::uint64_t a = 0, b = 0;
};
std::map<std::string, KernelCount> kernel_counts(const SavedPlan& a, const SavedPlan& b) {
  std::map<std::string, KernelCount> counts;
  for (const PlanStep& s : a.steps) ++counts[s.kernel].a;
  for (const PlanStep& s : b.steps) ++counts[s.kernel].b;
  return counts;
}

bool same_work(const PlanStep& a, const PlanStep& b) {
  return a.kernel == b.kernel && a.label == b.label && a.bytes_moved == b.bytes_moved;
}
bool same_step(const PlanStep& a, const PlanStep& b) {
  return same_work(a, b) && a.level == b.level && a.tiles == b.tiles && a.flops == b.flops &&
         a.after == b.after && a.arena == b.arena;
}

}  // namespace

std::string plan_text(const SavedPlan& p) {
  std::string out;
  print_to(out, "%s of %u row%s, %s on %s, %s order%s\n", p.rows == 1 ? "decode" : "prefill",
           p.rows, p.rows == 1 ? "" : "s", p.model.c_str(), p.device.c_str(), p.policy.c_str(),
           p.fuse ? "" : ", not fused");
  print_to(out, "%s, arena %s (%s without sharing)\n", p.counts_text().c_str(),
           show_bytes(p.arena_bytes).c_str(), show_bytes(p.scratch_bytes).c_str());
  std::size_t width = 6;
  for (const PlanStep& s : p.steps) width = std::max(width, title_of(s).size());
  const int w = static_cast<int>(std::min<std::size_t>(width, 48));
  print_to(out, "%5s %5s  %-*s %6s %9s  %-9s %s\n", "step", "level", w, "kernel", "tiles", "bytes",
           "after", "arena (hex: offset+bytes)");
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const PlanStep& s = p.steps[i];
    print_to(out, "%5zu %5u  %-*.*s %6u %9s  %-9s ", i, s.level, w, w, title_of(s).c_str(), s.tiles,
             show_bytes(s.bytes_moved).c_str(), waits_for(s).c_str());
    out += arena_of(s);
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

PlanDiff diff_plans(const SavedPlan& a, const SavedPlan& b) {
  PlanDiff diff;
  diff.same = a.rows == b.rows && a.arena_bytes == b.arena_bytes &&
              a.scratch_bytes == b.scratch_bytes && a.persistent_bytes == b.persistent_bytes &&
              a.steps.size() == b.steps.size() &&
              std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), same_step);
  std::size_t first = 0, end_a = a.steps.size(), end_b = b.steps.size();
  while (first < std::min(end_a, end_b) && same_work(a.steps[first], b.steps[first])) ++first;
  while (std::min(end_a, end_b) > first && same_work(a.steps[end_a - 1], b.steps[end_b - 1])) {
    --end_a;
    --end_b;
  }
  const std::size_t n = end_a - first, m = end_b - first;
  const auto only = [&](char side, std::size_t i) {
    diff.lines.push_back({side, static_cast<std::uint32_t>(i)});
  };
  if ((n + 1) > max_compared / (m + 1)) {
    for (std::size_t i = first; i < end_a; ++i) only('-', i);
    for (std::size_t j = first; j < end_b; ++j) only('+', j);
    return diff;
  }
  // common[i][j]: the longest common list of what follows i in a and j in b.
  std::vector<std::uint32_t> common((n + 1) * (m + 1), 0);
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& {
    return common[i * (m + 1) + j];
  };
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = m; j-- > 0;) {
      at(i, j) = same_work(a.steps[first + i], b.steps[first + j])
                     ? at(i + 1, j + 1) + 1
                     : std::max(at(i + 1, j), at(i, j + 1));
    }
  }
  for (std::size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && same_work(a.steps[first + i], b.steps[first + j])) {
      ++i;
      ++j;
    } else if (j == m || (i < n && at(i + 1, j) >= at(i, j + 1))) {
      only('-', first + i++);
    } else {
      only('+', first + j++);
    }
  }
  return diff;
}

std::string plan_diff_text(const SavedPlan& a, const SavedPlan& b, const PlanDiff& diff) {
  if (diff.same) return "the plans are the same\n";
  std::string out;
  const auto about = [&](const char* side, const SavedPlan& p) {
    print_to(out, "%s %s on %s, %s order%s\n", side, p.model.c_str(), p.device.c_str(),
             p.policy.c_str(), p.fuse ? "" : ", not fused");
  };
  about("---", a);
  about("+++", b);
  print_to(out, "%-18s %12s %12s %12s\n", "", "before", "after", "change");
  for (const Total& t : totals(a, b)) {
    const long long change = static_cast<long long>(t.b) - static_cast<long long>(t.a);
    const std::string x = t.bytes ? show_bytes(t.a) : std::to_string(t.a);
    const std::string y = t.bytes ? show_bytes(t.b) : std::to_string(t.b);
    print_to(out, "%-18s %12s %12s %+12lld\n", t.name, x.c_str(), y.c_str(), change);
  }
  bool any = false;
  for (const auto& [kernel, count] : kernel_counts(a, b)) {
    if (count.a == count.b) continue;
    if (!any) print_to(out, "\n%-40s %12s %12s\n", "kernel", "before", "after");
    any = true;
    print_to(out, "%-40.60s %12llu %12llu\n", kernel.c_str(),
             static_cast<unsigned long long>(count.a), static_cast<unsigned long long>(count.b));
  }
  if (!diff.lines.empty()) out += "\nsteps\n";
  for (const PlanDiff::Line& line : diff.lines) {
    const PlanStep& s = (line.side == '-' ? a : b).steps[line.position];
    print_to(out, "%c %5u  level %-5u %-40.80s %9s\n", line.side, line.position, s.level,
             title_of(s).c_str(), show_bytes(s.bytes_moved).c_str());
  }
  if (diff.lines.empty()) {
    std::size_t level = 0, after = 0, arena = 0, tiles = 0;
    for (std::size_t i = 0; i < std::min(a.steps.size(), b.steps.size()); ++i) {
      level += a.steps[i].level != b.steps[i].level ? 1u : 0u;
      after += a.steps[i].after != b.steps[i].after ? 1u : 0u;
      arena += a.steps[i].arena != b.steps[i].arena ? 1u : 0u;
      tiles += a.steps[i].tiles != b.steps[i].tiles ? 1u : 0u;
    }
    print_to(
        out,
        "\nthe same work in the same order; other levels in %zu steps, other waits in %zu, other "
        "places in the arena in %zu, other tiles in %zu\n",
        level, after, arena, tiles);
  }
  return out;
}

std::string plan_diff_json(const SavedPlan& a, const SavedPlan& b, const PlanDiff& diff) {
  JsonWriter json;
  json.begin_object().key("same").value(diff.same);
  for (const Total& t : totals(a, b)) {
    json.key(t.name).begin_array().value(t.a).value(t.b).end_array();
  }
  json.key("barriers").begin_array().value(a.barriers()).value(b.barriers()).end_array();
  json.key("kernels").begin_object();
  for (const auto& [kernel, count] : kernel_counts(a, b)) {
    if (count.a != count.b)
      json.key(kernel).begin_array().value(count.a).value(count.b).end_array();
  }
  json.end_object().key("steps").begin_array();
  for (const PlanDiff::Line& line : diff.lines) {
    const PlanStep& s = (line.side == '-' ? a : b).steps[line.position];
    json.begin_object().key("side").value(line.side == '-' ? "before" : "after");
    json.key("position").value(line.position).key("level").value(s.level);
    json.key("kernel").value(s.kernel);
    if (!s.label.empty()) json.key("label").value(s.label);
    json.key("bytes").value(s.bytes_moved).end_object();
  }
  return json.end_array().end_object().text() + "\n";
}

}  // namespace onepass::tool
