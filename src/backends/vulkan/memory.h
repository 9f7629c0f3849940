// Memory of a device: pieces of a few large blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/vulkan/api.h"
#include "core/backend.h"

namespace onepass::vulkan {

struct Block;

struct Piece {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize offset = 0;
  VkDeviceSize bytes = 0;     // whole units of piece_alignment
  std::byte* host = nullptr;  // null: the host does not see it
  Block* block = nullptr;
};

// Where pieces begin and end: more than any device asks of a binding.
inline constexpr VkDeviceSize piece_alignment = 256;

// One VkDeviceMemory with one VkBuffer over all of it.
struct Block {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize bytes = 0;
  std::byte* host = nullptr;
  std::uint32_t type = 0;
  std::map<VkDeviceSize, VkDeviceSize> free;  // offset, bytes; no two touch

  bool is_empty() const noexcept { return free.size() == 1 && free.begin()->second == bytes; }
};

// Thread-safe. Memory of the device itself is what the host sees as well where there is such.
class Memory {
 public:
  Memory(const Gpu& gpu, bool staged) : gpu_(gpu), staged_(staged) {}
  ~Memory();

  Result<Piece*> allocate(std::uint64_t bytes, MemoryKind kind);
  void release(Piece* piece) noexcept;
  std::size_t n_pieces();

 private:
  Result<Block*> add_block(VkDeviceSize bytes, std::uint32_t type, bool host);
  bool take(Block& block, VkDeviceSize bytes, Piece& piece) noexcept;
  void destroy(Block& block) noexcept;
  // ~0: there is no such memory.
  std::uint32_t type_of(MemoryKind kind, bool& host) const noexcept;

  const Gpu& gpu_;
  const bool staged_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::map<Piece*, std::unique_ptr<Piece>> pieces_;
};

}  // namespace onepass::vulkan
