#include "onepass/step_state.h"

#include <cstring>

#include "core/guarded.h"
#include "onepass/device.h"

namespace onepass {

Result<StepState> StepState::create(const Device& device, std::uint32_t max_rows,
                                    std::uint32_t max_slots) try {
  if (max_rows == 0 || max_slots == 0 || max_rows > (1u << 20) || max_slots > (1u << 20)) {
    return fail(ErrorCode::invalid_argument, "step state: " + std::to_string(max_rows) +
                                                 " rows and " + std::to_string(max_slots) +
                                                 " slots, expected 1 to 1048576 of each");
  }
  StepState s;
  ONEPASS_ASSIGN(s.buffer_, device.allocate(size_bytes(max_rows, max_slots)));
  s.max_rows_ = max_rows;
  s.max_slots_ = max_slots;
  const StepHeader header{0, 0, max_rows, max_slots, 0, 0, 0, 0};
  ONEPASS_TRY(device.write(s.view(), std::as_bytes(std::span(&header, 1))));
  return s;
} catch (const std::bad_alloc&) {
  return host_out_of_memory();
}

Status StepState::serialize(const StepValues& v, std::span<std::byte> out) const {
  return serialize(v, max_rows_, max_slots_, out);
}

Status StepState::serialize(const StepValues& v, std::uint32_t max_rows, std::uint32_t max_slots,
                            std::span<std::byte> out) try {
  if (v.rows.empty() || v.rows.size() > max_rows || v.slots.size() > max_slots) {
    return fail(ErrorCode::invalid_argument,
                "step: " + std::to_string(v.rows.size()) + " rows and " +
                    std::to_string(v.slots.size()) + " slots, the state holds 1 to " +
                    std::to_string(max_rows) + " and " + std::to_string(max_slots));
  }
  for (const StepRow& row : v.rows) {
    if (row.slot >= v.slots.size()) {
      return fail(ErrorCode::invalid_argument, "step: a row names slot " +
                                                   std::to_string(row.slot) + ", there are " +
                                                   std::to_string(v.slots.size()));
    }
  }
  if (out.size() != size_bytes(max_rows, max_slots)) {
    return fail(ErrorCode::invalid_argument, "step: wrong size of the output");
  }
  std::memset(out.data(), 0, out.size());
  const StepHeader header{static_cast<std::uint32_t>(v.rows.size()),
                          v.flags,
                          max_rows,
                          max_slots,
                          static_cast<std::uint32_t>(v.seed),
                          static_cast<std::uint32_t>(v.seed >> 32),
                          static_cast<std::uint32_t>(v.counter),
                          static_cast<std::uint32_t>(v.counter >> 32)};
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, v.rows.data(), v.rows.size_bytes());
  std::memcpy(out.data() + sizeof header + sizeof(StepRow) * max_rows, v.slots.data(),
              v.slots.size_bytes());
  return {};
} catch (const std::bad_alloc&) {
  return host_out_of_memory();
}

}  // namespace onepass
