// Reuse of callers' buffers from pass to pass.
//
//   onepass::BufferPool pool(device);
//   ONEPASS_ASSIGN(onepass::Buffer tmp, pool.take(5000));  // 5000 bytes of a 5120-byte class
//   tmp.reset();                                           // or keep it over pool.reset()
//   pool.reset();                                          // takes back what only the pool owns
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "onepass/device.h"

namespace onepass {

// Size classes in quarter-octave steps: at most 25 % more than asked for. Recycled memory is not
// zeroed (debug builds fill it with a pattern), and gets a new id, so a view from before is stale.
// Not thread-safe.
class BufferPool {
 public:
  explicit BufferPool(Device device) : device_(std::move(device)) {}

  Result<Buffer> take(std::uint64_t bytes);
  // Gives a buffer of this pool back at once. A foreign or already returned one is an error.
  Status release(Buffer buffer);
  // Takes back every buffer whose only owner is the pool. For want of memory it may leave some for
  // the next time.
  void reset();
  // Frees what is not in use.
  void clear();

  std::size_t free_count() const noexcept;
  std::uint64_t free_bytes() const noexcept;
  std::size_t in_use_count() const noexcept { return in_use_.size(); }
  static std::uint64_t class_bytes(std::uint64_t bytes) noexcept;

 private:
  Buffer rename(Buffer own, BufferId id);

  Device device_;
  std::map<std::uint64_t, std::vector<Buffer>> free_;
  std::vector<Buffer> in_use_;
};

}  // namespace onepass
