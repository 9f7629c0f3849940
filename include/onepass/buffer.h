// Memory: Buffer owns, View points, Tensor adds dtype and shape.
//
//   ONEPASS_ASSIGN(const onepass::Buffer b, device.allocate(4096));
//   const onepass::View half = b.view(0, 2048);
//   ONEPASS_ASSIGN(const onepass::View quarter, half.sub(1024, 1024));  // offsets add up
//   const onepass::Tensor t = onepass::tensor(half, onepass::DType::f32, {16, 32});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include "onepass/dtype.h"
#include "onepass/result.h"

namespace onepass {

class DeviceState;

// Names a place in the device's buffer table. The generation changes when the buffer is freed, so
// an id that outlived its buffer is recognised.
struct BufferId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  // 0: names nothing

  explicit operator bool() const noexcept { return generation != 0; }
  friend bool operator==(const BufferId&, const BufferId&) = default;
};

// A byte range of a buffer. Trivially copyable; holds nothing alive.
struct View {
  BufferId buffer;
  std::uint64_t offset = 0;  // bytes from the start of the buffer
  std::uint64_t bytes = 0;

  // Relative to this view; an error when it does not fit.
  Result<View> sub(std::uint64_t sub_offset, std::uint64_t sub_bytes) const;
  bool empty() const noexcept { return bytes == 0; }
  friend bool operator==(const View&, const View&) = default;
};
static_assert(sizeof(View) == 24);

// Up to four dimensions, row-major, the last one contiguous. Rank 0 has one element.
struct Shape {
  std::array<std::uint32_t, 4> dims{1, 1, 1, 1};
  std::uint32_t rank = 0;

  Shape() = default;
  Shape(std::initializer_list<std::uint32_t> list);
  std::uint64_t elements() const noexcept;
  std::uint32_t operator[](std::size_t i) const noexcept { return dims[i]; }
  std::uint32_t last() const noexcept { return rank == 0 ? 1 : dims[rank - 1]; }
  std::uint64_t rows() const noexcept { return last() == 0 ? 0 : elements() / last(); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// Bytes of a tensor; the last two dimensions of a packed format are padded together. nullopt when
// the last dimension is no multiple of the block or the product overflows.
std::optional<std::uint64_t> storage_bytes(Format format, const Shape& shape) noexcept;

struct Tensor {
  View view;
  DType dtype = DType::f32;
  Shape shape;
  Layout layout = Layout::rows;

  Format format() const noexcept { return {dtype, layout}; }
  explicit operator bool() const noexcept { return bool(view.buffer); }
};

// The view as a tensor. Sizes are checked by the ops that use it.
inline Tensor tensor(View view, Format format, Shape shape) {
  return Tensor{view, format.type, shape, format.layout};
}

enum class MemoryKind : std::uint8_t { device, upload, readback };

// Owns one reference to device memory; freed with the last reference, after the last submitted
// pass has completed. Move-only; share() makes a second owner of the same memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  explicit operator bool() const noexcept { return bool(id_); }
  BufferId id() const noexcept { return id_; }
  std::uint64_t bytes() const noexcept { return bytes_; }  // as asked for

  View view() const noexcept { return View{id_, 0, bytes_}; }
  // Clamped to the buffer; use View::sub for a checked form.
  View view(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  Tensor tensor(Format format, Shape shape, std::uint64_t offset = 0) const;
  Buffer share() const;

  // Weights: kernels may only read it from now on, and hazards skip it.
  Status set_immutable();
  // The backend's own handle (CUdeviceptr, VkBuffer, id<MTLBuffer>); null on the CPU.
  void* native_handle() const noexcept;
  // Frees now rather than in the destructor.
  void reset() noexcept;

 private:
  friend class DeviceState;
  friend class BufferPool;
  void forget() noexcept { id_ = {}; }  // its reference was taken over under another id
  Buffer(std::shared_ptr<DeviceState> device, BufferId id, std::uint64_t bytes) noexcept;

  std::shared_ptr<DeviceState> device_;
  BufferId id_;
  std::uint64_t bytes_ = 0;
};

}  // namespace onepass
