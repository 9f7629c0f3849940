#include "backends/vulkan/memory.h"

#include <algorithm>
#include <string>

namespace onepass::vulkan {
namespace {

constexpr VkDeviceSize block_bytes = VkDeviceSize{64} << 20;

constexpr VkDeviceSize align_up(VkDeviceSize n, VkDeviceSize unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace

Memory::~Memory() {
  for (const auto& block : blocks_) destroy(*block);
}

std::size_t Memory::n_pieces() {
  const std::lock_guard lock(mutex_);
  return pieces_.size();
}

std::uint32_t Memory::type_of(MemoryKind kind, bool& host) const noexcept {
  constexpr VkMemoryPropertyFlags seen =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  const bool unified = gpu_.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  std::vector<VkMemoryPropertyFlags> wanted;
  if (kind == MemoryKind::device) {
    if (unified && !staged_) wanted.push_back(local | seen);
    wanted.insert(wanted.end(), {local, 0});
  } else if (kind == MemoryKind::readback) {
    wanted = {seen | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, seen};
  } else {
    wanted = {seen};
  }
  for (const VkMemoryPropertyFlags flags : wanted) {
    for (std::uint32_t i = 0; i < gpu_.memory.memoryTypeCount; ++i) {
      if ((gpu_.memory.memoryTypes[i].propertyFlags & flags) != flags) continue;
      host = (flags & seen) == seen;
      return i;
    }
  }
  return ~0u;
}

Result<Block*> Memory::add_block(VkDeviceSize bytes, std::uint32_t type, bool host) {
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  block->type = type;
  const auto made = [&]() -> Status {
    VkBufferCreateInfo buffer{};
    buffer.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    buffer.size = bytes;
    buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                   VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    ONEPASS_TRY(check(gpu_.api.vkCreateBuffer(gpu_.device, &buffer, nullptr, &block->buffer),
                      "vkCreateBuffer", ErrorCode::out_of_memory));
    VkMemoryRequirements needs{};
    gpu_.api.vkGetBufferMemoryRequirements(gpu_.device, block->buffer, &needs);
    VkMemoryAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.allocationSize = needs.size;
    info.memoryTypeIndex = type;
    ONEPASS_TRY(check(gpu_.api.vkAllocateMemory(gpu_.device, &info, nullptr, &block->memory),
                      "vkAllocateMemory", ErrorCode::out_of_memory));
    ONEPASS_TRY(check(gpu_.api.vkBindBufferMemory(gpu_.device, block->buffer, block->memory, 0),
                      "vkBindBufferMemory", ErrorCode::out_of_memory));
    if (!host) return {};
    void* at = nullptr;
    ONEPASS_TRY(check(gpu_.api.vkMapMemory(gpu_.device, block->memory, 0, VK_WHOLE_SIZE, 0, &at),
                      "vkMapMemory", ErrorCode::out_of_memory));
    block->host = static_cast<std::byte*>(at);
    return {};
  }();
  if (!made) {
    destroy(*block);
    return made.error();
  }
  block->free[0] = bytes;
  blocks_.push_back(std::move(block));
  return blocks_.back().get();
}

void Memory::destroy(Block& block) noexcept {
  if (block.buffer != VK_NULL_HANDLE) {
    gpu_.api.vkDestroyBuffer(gpu_.device, block.buffer, nullptr);
  }
  if (block.memory != VK_NULL_HANDLE) gpu_.api.vkFreeMemory(gpu_.device, block.memory, nullptr);
}

// The smallest gap that fits.
bool Memory::take(Block& block, VkDeviceSize bytes, Piece& piece) noexcept {
  auto best = block.free.end();
  for (auto gap = block.free.begin(); gap != block.free.end(); ++gap) {
    if (gap->second < bytes) continue;
    if (best == block.free.end() || gap->second < best->second) best = gap;
  }
  if (best == block.free.end()) return false;
  const VkDeviceSize offset = best->first, left = best->second - bytes;
  if (left == 0) {
    block.free.erase(best);
  } else {
    auto node = block.free.extract(best);
    node.key() = offset + bytes;
    node.mapped() = left;
    block.free.insert(std::move(node));
  }
  piece = {block.buffer, offset, bytes, block.host ? block.host + offset : nullptr, &block};
  return true;
}

Result<Piece*> Memory::allocate(std::uint64_t bytes, MemoryKind kind) {
  bool host = false;
  const std::uint32_t type = type_of(kind, host);
  if (type == ~0u || bytes > ~std::uint64_t{0} - block_bytes) {
    return fail(ErrorCode::out_of_memory,
                "vulkan: there is no memory for " + std::to_string(bytes) + " bytes");
  }
  const VkDeviceSize size = align_up(std::max<std::uint64_t>(bytes, 1), piece_alignment);
  auto piece = std::make_unique<Piece>();
  const std::lock_guard lock(mutex_);
  bool found = false;
  for (const auto& block : blocks_) {
    if (block->type == type && (block->host != nullptr) == host && take(*block, size, *piece)) {
      found = true;
      break;
    }
  }
  if (!found) {
    // What is large has a block of its own, which goes back with it.
    const VkDeviceSize want = size > block_bytes / 2 ? size : block_bytes;
    ONEPASS_ASSIGN(Block* const block, add_block(want, type, host));
    if (!take(*block, size, *piece)) {
      return fail(ErrorCode::internal, "vulkan: a new block is too small");
    }
  }
  Piece* const handle = piece.get();
  pieces_[handle] = std::move(piece);
  return handle;
}

void Memory::release(Piece* piece) noexcept {
  const std::lock_guard lock(mutex_);
  Block& block = *piece->block;
  auto at = block.free.emplace(piece->offset, piece->bytes).first;
  if (const auto next = std::next(at);
      next != block.free.end() && at->first + at->second == next->first) {
    at->second += next->second;
    block.free.erase(next);
  }
  if (at != block.free.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second == at->first) {
      before->second += at->second;
      block.free.erase(at);
    }
  }
  pieces_.erase(piece);
  if (!block.is_empty()) return;
  // One empty block of the usual size is kept for what comes next.
  const auto is_spare = [&](const auto& b) {
    return b.get() != &block && b->type == block.type && b->bytes == block_bytes && b->is_empty();
  };
  if (block.bytes == block_bytes && std::none_of(blocks_.begin(), blocks_.end(), is_spare)) return;
  destroy(block);
  std::erase_if(blocks_, [&](const auto& b) { return b.get() == &block; });
}

}  // namespace onepass::vulkan
