#include "support/heap.h"

#if defined(__APPLE__)
#include <malloc/malloc.h>
#else
#include <malloc.h>
#endif

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace onepass::test {
namespace {

std::atomic<std::uint64_t> allocations{0};
std::atomic<std::int64_t> live{0};
std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};
std::atomic<std::uint64_t> countdown{0};
std::atomic<bool> fired{false};

bool must_fail() noexcept {
  std::uint64_t left = countdown.load(std::memory_order_relaxed);
  while (left != 0) {
    if (countdown.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
      if (left != 1) return false;
      fired.store(true, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

std::int64_t size_of(void* p) noexcept {
#if defined(__APPLE__)
  return static_cast<std::int64_t>(malloc_size(p));
#else
  return static_cast<std::int64_t>(malloc_usable_size(p));
#endif
}

void count(void* p) noexcept {
  live.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t bytes = size_of(p);
  const std::int64_t now = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (must_fail()) return nullptr;
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(bytes == 0 ? 1 : bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p != nullptr) count(p);
  return p;
}

void give(void* p) noexcept {
  if (p != nullptr) {
    live.fetch_sub(1, std::memory_order_relaxed);
    live_bytes.fetch_sub(size_of(p), std::memory_order_relaxed);
  }
  std::free(p);
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* p = take(bytes, alignment)) return p;
  throw std::bad_alloc();
}

}  // namespace

std::uint64_t heap_allocations() noexcept { return allocations.load(std::memory_order_relaxed); }
std::int64_t heap_live() noexcept { return live.load(std::memory_order_relaxed); }
std::int64_t heap_live_bytes() noexcept { return live_bytes.load(std::memory_order_relaxed); }
std::int64_t heap_peak_bytes() noexcept { return peak_bytes.load(std::memory_order_relaxed); }
void reset_heap_peak() noexcept {
  peak_bytes.store(live_bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
}
void fail_heap_allocation(std::uint64_t n) noexcept {
  fired.store(false, std::memory_order_relaxed);
  countdown.store(n, std::memory_order_relaxed);
}
bool heap_failure_fired() noexcept { return fired.load(std::memory_order_relaxed); }

}  // namespace onepass::test

namespace t = onepass::test;

void* operator new(std::size_t n) { return t::take_or_throw(n, 0); }
void* operator new[](std::size_t n) { return t::take_or_throw(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) {
  return t::take_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return t::take_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return t::take(n, 0); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return t::take(n, 0); }
void operator delete(void* p) noexcept { t::give(p); }
void operator delete[](void* p) noexcept { t::give(p); }
void operator delete(void* p, std::size_t) noexcept { t::give(p); }
void operator delete[](void* p, std::size_t) noexcept { t::give(p); }
void operator delete(void* p, std::align_val_t) noexcept { t::give(p); }
void operator delete[](void* p, std::align_val_t) noexcept { t::give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { t::give(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { t::give(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { t::give(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { t::give(p); }
