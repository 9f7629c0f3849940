// What changes from pass to pass, in one device buffer that kernels read: replay patches nothing.
//
//   ONEPASS_ASSIGN(const onepass::StepState step, onepass::StepState::create(device, 1, 1));
//   ops::rope(s, {.x = q, .out = q, .positions = step.view()});
//   ONEPASS_ASSIGN(const onepass::Plan plan, s.compile({.step = &step}));
//   ONEPASS_TRY(plan.run(onepass::SingleStep(token, position).values()));  // writes it, then runs
#pragma once

#include <cstdint>
#include <span>

#include "onepass/buffer.h"

namespace onepass {

class Device;

inline constexpr std::uint32_t step_flag_stop = 1;

// Device layout: header, max_rows rows, max_slots slots, 16-byte steps, little-endian.
struct StepHeader {
  std::uint32_t n_rows;
  std::uint32_t flags;
  std::uint32_t max_rows;
  std::uint32_t max_slots;
  std::uint32_t seed_lo, seed_hi;
  std::uint32_t counter_lo, counter_hi;
};
struct StepRow {
  std::uint32_t token;
  std::uint32_t position;
  std::uint32_t slot;  // sequence slot
  std::uint32_t unused;
};
struct StepSlot {
  std::uint32_t kv_length;    // keys visible after this pass's rows were stored
  std::uint32_t page_offset;  // first entry of the slot's page list
  std::uint32_t unused0, unused1;
};
static_assert(sizeof(StepHeader) == 32 && sizeof(StepRow) == 16 && sizeof(StepSlot) == 16);

// Values for one pass, copied by run().
struct StepValues {
  std::uint32_t flags = 0;
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;
  std::span<const StepRow> rows;
  std::span<const StepSlot> slots;
};

// One row, one sequence: batch-1 decode.
struct SingleStep {
  StepRow row{};
  StepSlot slot{};
  SingleStep(std::uint32_t token, std::uint32_t position) noexcept
      : row{token, position, 0, 0}, slot{position + 1, 0, 0, 0} {}
  StepValues values(std::uint64_t seed = 0) const noexcept {
    return StepValues{0, seed, position(), {&row, 1}, {&slot, 1}};
  }
  std::uint32_t position() const noexcept { return row.position; }
};

class StepState {
 public:
  StepState() = default;
  static Result<StepState> create(const Device& device, std::uint32_t max_rows,
                                  std::uint32_t max_slots);
  static constexpr std::uint64_t size_bytes(std::uint32_t max_rows, std::uint32_t max_slots) {
    return sizeof(StepHeader) + std::uint64_t{16} * max_rows + std::uint64_t{16} * max_slots;
  }

  View view() const noexcept { return buffer_.view(); }
  std::uint32_t max_rows() const noexcept { return max_rows_; }
  std::uint32_t max_slots() const noexcept { return max_slots_; }
  // Checks counts against this state and writes the bytes a device would hold.
  Status serialize(const StepValues& values, std::span<std::byte> out) const;
  static Status serialize(const StepValues& values, std::uint32_t max_rows, std::uint32_t max_slots,
                          std::span<std::byte> out);

 private:
  Buffer buffer_;
  std::uint32_t max_rows_ = 0;
  std::uint32_t max_slots_ = 0;
};

}  // namespace onepass
