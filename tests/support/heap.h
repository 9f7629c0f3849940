// Counts every operator new of the program, and fails the one asked for. A program that links
// heap.cpp has these operators.
#pragma once

#include <cstdint>

namespace onepass::test {

std::uint64_t heap_allocations() noexcept;  // since the program started
std::int64_t heap_live() noexcept;          // allocated and not yet freed

// Bytes asked for and not yet freed, and the most since the last reset.
std::int64_t heap_live_bytes() noexcept;
std::int64_t heap_peak_bytes() noexcept;
void reset_heap_peak() noexcept;

// The n-th operator new from now on throws std::bad_alloc, once; 0 turns it off. Of all threads.
void fail_heap_allocation(std::uint64_t n) noexcept;
bool heap_failure_fired() noexcept;

}  // namespace onepass::test
