// Expansions of the .def tables that only the library needs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "onepass/dispatch.h"

namespace onepass {

enum class FusionKind : std::uint8_t { chain, chain_keeping, pair, same };

// One row of fusions.def.
struct FusionRow {
  const char* name;
  FusionKind kind;
  Op first, second, fused;
  const char* in_place;  // digits
  bool exact;            // same bits as the two dispatches
  // Binds the views and fills format and params of a dispatch of the fused op; false when the pair
  // does not fit. Whether bytes overlap is not its business.
  bool (*merge)(const Dispatch& first, const Dispatch& second, Dispatch& fused);
};
std::span<const FusionRow> fusion_rows() noexcept;

// "+bias+add"; empty for the plain op.
std::string form_text(std::uint32_t form);

}  // namespace onepass
