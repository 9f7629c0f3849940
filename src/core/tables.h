// Expansions of the .def tables that only the library needs.
#pragma once

#include <span>

#include "onepass/dispatch.h"

namespace onepass {

// One row of fusions.def: `second` reads what `first` wrote, and both become one dispatch.
struct FusionRow {
  const char* name;
  Op first, second, fused;
  std::uint8_t out_slot;  // of first: the intermediate
  const char* in_slots;   // of second: digits of the slots where the intermediate may be read
  // Slots of the fused op in order: a = first's, b = second's slot of that number; b* = the slot
  // of in_slots that does not hold the intermediate.
  const char* slots;
  bool exact;  // same bits as the two dispatches
  // Fills the fused op's format and params; false when the pair does not fit (shapes, modes).
  bool (*merge)(const Dispatch& first, const Dispatch& second, Dispatch& fused);
};
std::span<const FusionRow> fusion_rows() noexcept;

}  // namespace onepass
