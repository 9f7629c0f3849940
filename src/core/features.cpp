#include "core/features.h"

#include <array>
#include <iterator>
#include <string_view>

#include "onepass/backends/cpu.h"
#include "ops/shared/simd16.h"

namespace onepass {
namespace {

struct Named {
  const char* name;
  std::uint32_t bits;
};
// Last first.
constexpr Named named[] = {
    {"clusters", feature_bits(Feature::clusters)},
    {"tensor_cores", feature_bits(Feature::tensor_cores)},
    {"f16", feature_bits(Feature::f16)},
#define ISA(isa, condition, feature, there, text) {#feature, feature_bits(Feature::feature)},
#include "ops/shared/isa.def"
#undef ISA
};

struct IsaRow {
  const char* name;
  std::string_view processor;
  bool is_compiled;
  std::uint32_t needs;
  const char* text;
};
constexpr IsaRow sets[] = {
#define ISA(isa, condition, feature, there, text) \
  {#isa, #condition, (condition), feature_bits(Feature::feature), text},
#include "ops/shared/isa.def"
#undef ISA
};

// A processor with a set has those below it too, and f16.
constexpr CpuPath path_of(std::size_t set) {
  const IsaRow& row = sets[set];
  CpuPath path{row.name, row.text, row.needs, row.is_compiled};
  if (row.needs != 0) path.features |= feature_bits(Feature::f16);
  for (std::size_t less = set + 1; less < std::size(sets); ++less) {
    if (sets[less].processor == row.processor) path.features |= sets[less].needs;
  }
  return path;
}

constexpr auto paths = [] {
  std::array<CpuPath, std::size(sets)> list{};
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = path_of(list.size() - 1 - i);
  return list;
}();

}  // namespace

std::vector<std::string> feature_names(const DeviceInfo& info) {
  std::vector<std::string> list;
  for (std::size_t i = std::size(named); i-- > 0;) {
    if ((info.features & named[i].bits) != 0) list.emplace_back(named[i].name);
  }
  return list;
}

std::span<const CpuPath> cpu_paths() noexcept { return paths; }

const CpuPath& best_cpu_path(std::uint32_t features) noexcept {
  const CpuPath* best = paths.data();
  for (const CpuPath& path : paths) {
    if ((path.features & ~features) == 0) best = &path;
  }
  return *best;
}

std::optional<std::uint32_t> cpu_path_features(std::string_view name) noexcept {
  if (name == "best") return ~0u;
  for (const CpuPath& path : paths) {
    if (name == path.name) return path.features;
  }
  return std::nullopt;
}

}  // namespace onepass
