// An append-only array of trivial records: growing is the only thing it checks.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

namespace onepass {

template <class T>
class Tape {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  // Room for n more, uninitialised; they do not count until commit(). Valid until the next call.
  T* room(std::size_t n) {
    if (n > capacity_ - size_) grow(n);
    return data() + size_;
  }
  void commit(std::size_t n) noexcept { size_ += n; }
  void push_back(const T& value) {
    std::memcpy(static_cast<void*>(room(1)), &value, sizeof(T));
    ++size_;
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  void truncate(std::size_t n) noexcept { size_ = n; }
  void clear() noexcept { size_ = 0; }
  T* data() noexcept { return reinterpret_cast<T*>(memory_.get()); }
  const T* data() const noexcept { return reinterpret_cast<const T*>(memory_.get()); }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T& back() noexcept { return data()[size_ - 1]; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  std::span<const T> span() const noexcept { return {data(), size_}; }

 private:
  void grow(std::size_t n) {
    std::size_t capacity = capacity_ < 64 ? 64 : capacity_ * 2;
    while (capacity - size_ < n) capacity *= 2;
    std::unique_ptr<Slot[]> memory(new Slot[capacity]);  // uninitialised
    if (size_ != 0) std::memcpy(static_cast<void*>(memory.get()), memory_.get(), size_ * sizeof(T));
    memory_ = std::move(memory);
    capacity_ = capacity;
  }

  struct alignas(T) Slot {
    std::byte bytes[sizeof(T)];
  };
  std::unique_ptr<Slot[]> memory_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace onepass
