// A stack with a function running on it, switched by hand. Sanitizers are told.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ONEPASS_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONEPASS_FIBER_ASAN 1
#endif
#endif

namespace onepass::emu {

class Fiber {
 public:
  // The stack of the thread that calls switch_to first.
  Fiber() = default;

  // Starts over: the next switch calls entry, which must not return.
  void reset(std::byte* stack, std::size_t bytes, void (*entry)());
  // Saves the running fiber in `from` and goes on with `to`.
  static void switch_to(Fiber& from, Fiber& to);
  // As switch_to, of a fiber that ends.
  [[noreturn]] static void leave_for(Fiber& to);
  // The first thing entry does.
  static void started();

 private:
#if defined(__x86_64__)
  void* sp_ = nullptr;
#else
  ucontext_t context_{};
#endif
  const void* stack_ = nullptr;  // null: a thread's own
  std::size_t bytes_ = 0;
#ifdef ONEPASS_FIBER_ASAN
  void* fake_stack_ = nullptr;
#endif
};

// `count` stacks with an unmapped page below each. Null: no memory.
std::byte* map_stacks(std::size_t count, std::size_t bytes);

}  // namespace onepass::emu
