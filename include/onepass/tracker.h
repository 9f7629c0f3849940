// The hazard rule for callers who place barriers by hand.
//
//   onepass::ConflictTracker tracker(device);
//   ONEPASS_TRY(tracker.add(reads, writes));                                   // of a dispatch
//   ONEPASS_ASSIGN(const onepass::Hazard why, tracker.conflicts(writes, {}));  // of the next
//   if (why != onepass::Hazard::none) encoder.memory_barrier();                // then reset()
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "onepass/device.h"

namespace onepass {

enum class Hazard : std::uint8_t { none, read_after_write, write_after_write, write_after_read };
const char* name(Hazard hazard) noexcept;  // "none", "RAW", "WAW", "WAR"

// The bytes touched since the last reset. Read-read is free; adjacent ranges and empty ones never
// conflict. Move-only, not thread-safe. A freed buffer is an error.
class ConflictTracker {
 public:
  explicit ConflictTracker(const Device& device);
  ConflictTracker(ConflictTracker&&) noexcept;
  ConflictTracker& operator=(ConflictTracker&&) noexcept;
  ~ConflictTracker();

  // Why a dispatch with these accesses must wait: its reads are looked at before its writes.
  // Nothing is stored.
  Result<Hazard> conflicts(std::span<const View> reads, std::span<const View> writes) const;
  Status add(std::span<const View> reads, std::span<const View> writes);
  void reset() noexcept;
  std::size_t len() const noexcept;  // ranges added

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace onepass
