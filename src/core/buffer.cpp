#include "onepass/buffer.h"

#include <limits>

#include "core/device_state.h"
#include "core/guarded.h"

namespace onepass {

Result<View> View::sub(std::uint64_t sub_offset, std::uint64_t sub_bytes) const try {
  if (sub_offset > bytes || sub_bytes > bytes - sub_offset) {
    return fail(ErrorCode::invalid_argument,
                "view: bytes [" + std::to_string(sub_offset) + ", +" + std::to_string(sub_bytes) +
                    ") do not fit in a view of " + std::to_string(bytes) + " bytes");
  }
  return View{buffer, offset + sub_offset, sub_bytes};
} catch (const std::bad_alloc&) {
  return host_out_of_memory();
}

Shape::Shape(std::initializer_list<std::uint32_t> list) {
  for (const std::uint32_t d : list) {
    if (rank < dims.size()) dims[rank] = d;
    ++rank;  // a rank above four is refused by every op
  }
}

std::uint64_t Shape::elements() const noexcept {
  std::uint64_t n = 1;
  for (const std::uint32_t d : dims) {
    if (d != 0 && n > std::numeric_limits<std::uint64_t>::max() / d) {
      return std::numeric_limits<std::uint64_t>::max();  // larger than any buffer
    }
    n *= d;
  }
  return n;
}

Buffer::Buffer(std::shared_ptr<DeviceState> device, BufferId id, std::uint64_t bytes) noexcept
    : device_(std::move(device)), id_(id), bytes_(bytes) {}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::move(other.device_)),
      id_(std::exchange(other.id_, {})),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    device_ = std::move(other.device_);
    id_ = std::exchange(other.id_, {});
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Buffer::~Buffer() { reset(); }

void Buffer::reset() noexcept {
  if (id_) device_->release(id_);
  id_ = {};
  bytes_ = 0;
  device_.reset();
}

View Buffer::view(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  const std::uint64_t begin = offset < bytes_ ? offset : bytes_;
  const std::uint64_t left = bytes_ - begin;
  return View{id_, begin, bytes < left ? bytes : left};
}

Tensor Buffer::tensor(Format format, Shape shape, std::uint64_t offset) const {
  const std::uint64_t need =
      storage_bytes(format, shape).value_or(std::numeric_limits<std::uint64_t>::max());
  return onepass::tensor(view(offset, need), format, shape);
}

std::optional<std::uint64_t> storage_bytes(Format format, const Shape& shape) noexcept {
  if (shape.rank > shape.dims.size()) return std::nullopt;
  if (!is_packed(format)) return storage_bytes(format, shape.elements());
  const std::uint64_t rows = shape.rank < 2 ? 1 : shape[shape.rank - 2];
  const std::optional<std::uint64_t> matrix = storage_bytes(format, rows, shape.last());
  std::uint64_t n = 1;
  for (std::size_t i = 0; i + 2 < shape.rank; ++i) n *= shape[i];
  if (!matrix || (*matrix != 0 && n > std::numeric_limits<std::uint64_t>::max() / *matrix)) {
    return std::nullopt;
  }
  return n * *matrix;
}

Buffer Buffer::share() const {
  if (!id_ || !device_->retain(id_)) return {};
  return Buffer(device_, id_, bytes_);
}

Status Buffer::set_immutable() try {
  if (!id_) return fail(ErrorCode::invalid_argument, "set_immutable: the buffer is empty");
  return device_->set_immutable(id_);
} catch (const std::bad_alloc&) {
  return host_out_of_memory();
}

void* Buffer::native_handle() const noexcept {
  if (!id_) return nullptr;
  const BufferFacts facts = device_->facts(id_);
  return device_->backend().native_handle(&facts.memory);
}

}  // namespace onepass
