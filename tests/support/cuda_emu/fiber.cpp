#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#ifdef ONEPASS_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// void onepass_emu_switch(void** save, void* load): callee-saved registers live on the stack.
extern "C" void onepass_emu_switch(void** save, void* load);
__asm__(
    ".text\n.globl onepass_emu_switch\n.type onepass_emu_switch, @function\n"
    "onepass_emu_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size onepass_emu_switch, .-onepass_emu_switch\n");
#endif

namespace onepass::emu {
namespace {

// Who was left by the last switch; ASan learns the bounds of a thread's own stack from it.
Fiber* left = nullptr;

}  // namespace

void Fiber::reset(std::byte* stack, std::size_t bytes, void (*entry)()) {
  stack_ = stack;
  bytes_ = bytes;
#ifdef ONEPASS_FIBER_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack, bytes);
  fake_stack_ = nullptr;
#endif
#if defined(__x86_64__)
  // From the top: where a return address of entry would be, entry, six registers.
  auto** top = reinterpret_cast<void**>(stack + bytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  sp_ = top;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
#endif
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  left = &from;
#ifdef ONEPASS_FIBER_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_, to.bytes_);
#endif
#if defined(__x86_64__)
  onepass_emu_switch(&from.sp_, to.sp_);
#else
  swapcontext(&from.context_, &to.context_);
#endif
#ifdef ONEPASS_FIBER_ASAN
  const void* stack = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(from.fake_stack_, &stack, &bytes);
  if (left->stack_ == nullptr) {
    left->stack_ = stack;
    left->bytes_ = bytes;
  }
#endif
}

void Fiber::leave_for(Fiber& to) {
  static Fiber ended;
  ended.stack_ = &ended;
  left = &ended;
#ifdef ONEPASS_FIBER_ASAN
  __sanitizer_start_switch_fiber(nullptr, to.stack_, to.bytes_);
#endif
#if defined(__x86_64__)
  onepass_emu_switch(&ended.sp_, to.sp_);
#else
  swapcontext(&ended.context_, &to.context_);
#endif
  __builtin_unreachable();
}

void Fiber::started() {
#ifdef ONEPASS_FIBER_ASAN
  const void* stack = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &stack, &bytes);
  if (left->stack_ == nullptr) {
    left->stack_ = stack;
    left->bytes_ = bytes;
  }
#endif
}

std::byte* map_stacks(std::size_t count, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t stride = bytes + page;
  void* memory = mmap(nullptr, count * stride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* base = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < count; ++i) mprotect(base + i * stride, page, PROT_NONE);
  return base + page;
}

}  // namespace onepass::emu
