// Random passes as plain data: buffers, operands with access, dispatches. The library records
// them, the reference runs them one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "onepass/dispatch.h"
#include "support/random_program.h"

namespace onepass::property {

using test::Random;

enum class Store : std::uint8_t {
  caller,
  imported,  // two windows of one host block overlap
  weights,   // immutable
  pool,      // undefined until written
  scratch,   // undefined until written, not compared afterwards
};

inline constexpr std::uint32_t memory_bytes = 320;  // of every block of the reference

struct BufferSpec {
  Store store = Store::caller;
  std::uint32_t bytes = 0;
  std::uint32_t memory = 0;  // block of the reference
  std::uint32_t base = 0;    // within the block
};

struct Place {
  std::uint32_t buffer = 0, offset = 0, bytes = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

enum class OpType : std::uint8_t {
  hash,          // the caller's own kernel
  rms_norm,      // x, weight, out
  mul,           // a, b, out
  rms_norm_mul,  // x, weight, out, factor; only made by mutants
  fence,
  barrier,  // a recorded one, which passes may drop
};

// How a hash dispatch says what it touches.
enum class Declare : std::uint8_t { bind, slots, between };

inline constexpr std::uint32_t max_operands = 4;

struct OpSpec {
  OpType type = OpType::hash;
  Declare declare = Declare::bind;
  std::uint32_t id = 0;
  std::uint32_t tiles = 1;
  std::uint32_t rows = 1;
  std::uint32_t n = 0;
  std::array<Place, max_operands> places{};
  std::array<Access, max_operands> access{};
  std::uint32_t old_mask = 0;  // operands whose bytes before the write are logged, too

  bool is_dispatch() const { return type != OpType::fence && type != OpType::barrier; }
  void add(const Place& place, Access a) {
    places[n] = place;
    access[n++] = a;
  }
};

struct GraphSpec {
  std::vector<BufferSpec> buffers;
  std::vector<OpSpec> ops;
  std::vector<Place> discards;
  std::uint64_t seed = 0;
  std::uint32_t n_memories = 0;

  std::uint32_t first_byte(const Place& p) const { return buffers[p.buffer].base + p.offset; }
  bool same_memory(const Place& a, const Place& b) const {
    return buffers[a.buffer].memory == buffers[b.buffer].memory;
  }
  bool overlap(const Place& a, const Place& b) const {
    return a.bytes > 0 && b.bytes > 0 && same_memory(a, b) &&
           first_byte(a) < first_byte(b) + b.bytes && first_byte(b) < first_byte(a) + a.bytes;
  }
  bool is_immutable(const Place& p) const { return buffers[p.buffer].store == Store::weights; }
};

// Fixed places in every graph: the first buffers are the caller's, then the two imports, then the
// weights.
inline constexpr std::uint32_t n_caller_buffers = 4;
inline constexpr std::uint32_t n_imports = 2;
inline constexpr std::uint32_t import_base = 64;  // of the second import in the host block
inline constexpr std::uint32_t weights_buffer = n_caller_buffers + n_imports;

struct GraphOptions {
  std::uint32_t min_ops = 8, max_ops = 64;
  std::uint32_t fence_percent = 3, barrier_percent = 3, pair_percent = 20;
  std::uint32_t max_scratch = 8;
  bool imports = true, pool = true;
};

GraphSpec random_graph(std::uint64_t seed, const GraphOptions& options = {});

}  // namespace onepass::property
