#include "onepass/pool.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/device_state.h"
#include "core/guarded.h"

namespace onepass {

std::uint64_t BufferPool::class_bytes(std::uint64_t bytes) noexcept {
  if (bytes <= 256) return 256;
  if (bytes > std::uint64_t{1} << 62) return bytes;
  const std::uint64_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

Result<Buffer> BufferPool::take(std::uint64_t bytes) {
  return guarded([&]() -> Result<Buffer> {
    if (bytes == 0) return fail(ErrorCode::invalid_argument, "pool: 0 bytes");
    DeviceState& d = device_.state();
    const std::uint64_t size = class_bytes(bytes);
    in_use_.reserve(in_use_.size() + 1);
    const auto it = free_.find(size);
    if (it != free_.end() && !it->second.empty()) {
#ifndef NDEBUG
      const std::vector<std::byte> poison(size, std::byte{0xa5});
      ONEPASS_TRY(device_.write(it->second.back().view(), poison));
#endif
      in_use_.push_back(std::move(it->second.back()));
      it->second.pop_back();
    } else {
      ONEPASS_ASSIGN(Buffer fresh, device_.allocate(size));
      in_use_.push_back(std::move(fresh));
    }
    const BufferId id = in_use_.back().id();
    d.retain(id);
    return d.adopt(id, bytes);
  });
}

// The pool's own reference becomes a buffer with a new id, so views from before are stale.
Status BufferPool::release(Buffer buffer) {
  return guarded([&]() -> Status {
    DeviceState& d = device_.state();
    const auto it = std::find_if(in_use_.begin(), in_use_.end(),
                                 [&](const Buffer& b) { return b.id() == buffer.id(); });
    if (!buffer || it == in_use_.end()) {
      return fail(ErrorCode::invalid_argument, "pool: the buffer is not in use from this pool");
    }
    if (d.references(buffer.id()) != 2) {
      return fail(ErrorCode::invalid_state, "pool: the buffer has other owners");
    }
    std::vector<Buffer>& bin = free_[it->bytes()];
    bin.reserve(bin.size() + 1);
    buffer.reset();
    ONEPASS_ASSIGN(const BufferId renewed, d.renew(it->id()));
    Buffer own = std::move(*it);
    in_use_.erase(it);
    bin.push_back(rename(std::move(own), renewed));
    return {};
  });
}

Buffer BufferPool::rename(Buffer own, BufferId id) {
  const std::uint64_t bytes = own.bytes();
  own.forget();
  return device_.state().adopt(id, bytes);
}

void BufferPool::reset() {
  DeviceState& d = device_.state();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < in_use_.size(); ++i) {
    const Status freed = guarded([&]() -> Status {
      if (d.references(in_use_[i].id()) != 1) return Error{};
      std::vector<Buffer>& bin = free_[in_use_[i].bytes()];
      bin.reserve(bin.size() + 1);
      ONEPASS_ASSIGN(const BufferId renewed, d.renew(in_use_[i].id()));
      bin.push_back(rename(std::move(in_use_[i]), renewed));
      return {};
    });
    if (!freed && kept++ != i) in_use_[kept - 1] = std::move(in_use_[i]);
  }
  in_use_.erase(in_use_.begin() + static_cast<std::ptrdiff_t>(kept), in_use_.end());
}

void BufferPool::clear() { free_.clear(); }

std::size_t BufferPool::free_count() const noexcept {
  std::size_t n = 0;
  for (const auto& [size, bin] : free_) n += bin.size();
  return n;
}

std::uint64_t BufferPool::free_bytes() const noexcept {
  std::uint64_t n = 0;
  for (const auto& [size, bin] : free_) n += size * bin.size();
  return n;
}

}  // namespace onepass
