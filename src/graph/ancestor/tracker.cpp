#include "graph/ancestor/tracker.h"

#include "core/guarded.h"
#include "graph/hazards.h"
#include "graph/nodes.h"
#include "onepass/tracker.h"

namespace onepass {
namespace graph {

Status append_ranges(DeviceState& device, std::span<const View> views, bool write,
                     std::vector<Range>& out) {
  for (const View& v : views) {
    if (v.bytes == 0) continue;
    std::uint32_t region = v.buffer.index;
    std::uint64_t lo = v.offset;
    if ((region & scratch_bit) == 0) {
      if (!device.retain(v.buffer)) {
        return fail(ErrorCode::stale, "declared access to a buffer that was freed");
      }
      const BufferFacts facts = device.facts(v.buffer);
      device.release(v.buffer);
      if (facts.region == 0) region = ~scratch_bit;
      lo += facts.region_base;
    }
    out.push_back(Range{lo, lo + v.bytes, region, write});
  }
  return {};
}

}  // namespace graph

const char* name(Hazard hazard) noexcept {
  switch (hazard) {
    case Hazard::read_after_write:
      return "RAW";
    case Hazard::write_after_write:
      return "WAW";
    case Hazard::write_after_read:
      return "WAR";
    case Hazard::none:
      break;
  }
  return "none";
}

struct ConflictTracker::State {
  std::shared_ptr<DeviceState> device;
  graph::GroupTracker group;
};

ConflictTracker::ConflictTracker(const Device& device) {
  try {
    state_ = std::make_unique<State>(State{device.state().shared_from_this(), {}});
  } catch (const std::bad_alloc&) {
    // Every call says so.
  }
}
ConflictTracker::ConflictTracker(ConflictTracker&&) noexcept = default;
ConflictTracker& ConflictTracker::operator=(ConflictTracker&&) noexcept = default;
ConflictTracker::~ConflictTracker() = default;

Result<Hazard> ConflictTracker::conflicts(std::span<const View> reads,
                                          std::span<const View> writes) const {
  if (!state_) return host_out_of_memory();
  return guarded([&]() -> Result<Hazard> {
    std::vector<graph::Range> ranges;
    ONEPASS_TRY(graph::append_ranges(*state_->device, reads, false, ranges));
    if (state_->group.conflicts(ranges)) return Hazard::read_after_write;
    // A write that conflicts as a read would too lies on written bytes.
    ranges.clear();
    ONEPASS_TRY(graph::append_ranges(*state_->device, writes, false, ranges));
    if (state_->group.conflicts(ranges)) return Hazard::write_after_write;
    for (graph::Range& r : ranges) r.write = true;
    return state_->group.conflicts(ranges) ? Hazard::write_after_read : Hazard::none;
  });
}

Status ConflictTracker::add(std::span<const View> reads, std::span<const View> writes) {
  if (!state_) return host_out_of_memory();
  return guarded([&]() -> Status {
    std::vector<graph::Range> ranges;
    ONEPASS_TRY(graph::append_ranges(*state_->device, reads, false, ranges));
    ONEPASS_TRY(graph::append_ranges(*state_->device, writes, true, ranges));
    state_->group.add(ranges);
    return {};
  });
}

void ConflictTracker::reset() noexcept {
  if (state_) state_->group.reset();
}

std::size_t ConflictTracker::len() const noexcept { return state_ ? state_->group.size() : 0; }

}  // namespace onepass
