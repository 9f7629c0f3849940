#include "backends/cuda/memory.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace onepass::cuda {
namespace {

constexpr std::uint64_t granularity = 256;
constexpr std::uint64_t mebibyte = 1u << 20;
// Requests up to the limit share pieces. Larger ones get pieces of their own size, which are cut up
// only for other large ones.
constexpr std::uint64_t shared_limit = 8 * mebibyte;
constexpr std::uint64_t shared_piece = 32 * mebibyte;
constexpr std::uint64_t own_granularity = 2 * mebibyte;

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  for (const auto& [address, block] : blocks_) {
    if (address == block.piece) driver_->cuMemFree(address);
  }
}

Result<CUdeviceptr> DeviceMemory::take_from_driver(std::uint64_t bytes, std::uint64_t asked) {
  CUdeviceptr address = 0;
  CUresult result = driver_->cuMemAlloc(&address, bytes);
  ++statistics_.driver_calls;
  if (result == CUDA_ERROR_OUT_OF_MEMORY && trim_locked()) {
    result = driver_->cuMemAlloc(&address, bytes);
    ++statistics_.driver_calls;
  }
  if (result != CUDA_SUCCESS) {
    std::size_t free_bytes = 0, total_bytes = 0;
    driver_->cuMemGetInfo(&free_bytes, &total_bytes);
    return fail(error_code(result, ErrorCode::out_of_memory),
                name_ + ": cannot allocate " + std::to_string(asked) + " bytes, " +
                    std::to_string(free_bytes) + " of " + std::to_string(total_bytes) +
                    " are free: " + describe(*driver_, result, "cuMemAlloc"));
  }
  statistics_.reserved_bytes += bytes;
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.reserved_bytes);
  return address;
}

// The block keeps its first bytes, the rest becomes a free block.
void DeviceMemory::split(Blocks::iterator block, std::uint64_t bytes) {
  const Block& whole = block->second;
  const std::uint64_t rest = whole.bytes - bytes;
  if (rest == 0) return;
  const CUdeviceptr address = block->first + bytes;
  free_[whole.is_shared].emplace(rest, address);
  blocks_.emplace_hint(std::next(block), address, Block{rest, whole.piece, whole.is_shared, true});
  block->second.bytes = bytes;
}

Result<CUdeviceptr> DeviceMemory::allocate(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t asked = std::clamp<std::uint64_t>(bytes, 1, std::uint64_t{1} << 62);
  const bool shared = !exact_ && asked <= shared_limit;
  const std::uint64_t size =
      exact_ ? asked : round_up(asked, shared ? granularity : own_granularity);
  Blocks::iterator block;
  const auto fit = free_[shared].lower_bound({size, 0});
  if (fit != free_[shared].end()) {
    block = blocks_.find(fit->second);
    split(block, size);
    free_[shared].erase(fit);
    block->second.is_free = false;
  } else {
    const std::uint64_t piece = shared ? shared_piece : size;
    ONEPASS_ASSIGN(const CUdeviceptr address, take_from_driver(piece, bytes));
    block = blocks_.emplace(address, Block{piece, address, shared, false}).first;
    split(block, size);
  }
  statistics_.used_bytes += size;
  return block->first;
}

void DeviceMemory::release(CUdeviceptr address) noexcept {
  const std::lock_guard lock(mutex_);
  auto block = blocks_.find(address);
  if (block == blocks_.end() || block->second.is_free) return;
  statistics_.used_bytes -= block->second.bytes;
  if (exact_) {
    driver_->cuMemFree(address);
    ++statistics_.driver_calls;
    statistics_.reserved_bytes -= block->second.bytes;
    blocks_.erase(block);
    return;
  }
  auto& free = free_[block->second.is_shared];
  const auto joins = [&](Blocks::iterator other) {
    return other->second.is_free && other->second.piece == block->second.piece;
  };
  if (const auto next = std::next(block); next != blocks_.end() && joins(next)) {
    free.erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin() && joins(std::prev(block))) {
    const auto previous = std::prev(block);
    free.erase({previous->second.bytes, previous->first});
    previous->second.bytes += block->second.bytes;
    blocks_.erase(block);
    block = previous;
    block->second.is_free = false;
  }
  try {
    free.emplace(block->second.bytes, block->first);
    block->second.is_free = true;
  } catch (const std::bad_alloc&) {
    // Unused until the device is closed.
  }
}

bool DeviceMemory::trim_locked() noexcept {
  bool any = false;
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto next = std::next(block);
    const bool alone = next == blocks_.end() || next->second.piece != block->second.piece;
    if (block->second.is_free && block->first == block->second.piece && alone) {
      driver_->cuMemFree(block->first);
      ++statistics_.driver_calls;
      statistics_.reserved_bytes -= block->second.bytes;
      free_[block->second.is_shared].erase({block->second.bytes, block->first});
      blocks_.erase(block);
      any = true;
    }
    block = next;
  }
  return any;
}

void DeviceMemory::trim() noexcept {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

MemoryStatistics DeviceMemory::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace onepass::cuda
