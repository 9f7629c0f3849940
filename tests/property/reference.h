// Runs a random pass on plain memory, one dispatch after the other, without the library's graph.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "onepass/kernel.h"
#include "property/random_graph.h"

namespace onepass::property {

// What each hash dispatch read, by its id.
struct InputLog {
  std::array<std::uint64_t, 160> hashes{};
};

struct HashParams {
  std::uint32_t id;
  std::uint32_t read_mask, write_mask, old_mask;  // bits of operands
};

// Every output byte depends on the id and on every input byte. Bytes are such that four of them,
// at any alignment, are a positive float of moderate size. user: an InputLog.
void hash_kernel(const KernelArgs& args) noexcept;
HashParams hash_params(const OpSpec& op);

struct alignas(64) Block {
  std::array<std::byte, memory_bytes> bytes;
};

// Contents before the pass: random for callers' memory, floats for weights, zero elsewhere.
std::vector<Block> initial_memory(const GraphSpec& graph);

struct Outcome {
  std::vector<Block> memory;
  std::vector<Block> compared;  // 0xff: the byte is specified and visible after the pass
  InputLog log;
};

// `passes` passes over the same memory; scratch and pool memory holds `poison` at first.
Outcome run_reference(const GraphSpec& graph, std::uint32_t passes = 1,
                      std::byte poison = std::byte{0});
// One dispatch on this memory.
void run_op(const GraphSpec& graph, const OpSpec& op, std::span<Block> memory, InputLog& log);

// True where `got` agrees in every byte of `block` that expected.compared names.
bool equal_block(const Outcome& expected, std::uint32_t block, const std::byte* got);
// True where every compared byte and every logged hash agree.
bool equal_outcomes(const Outcome& expected, const Outcome& got);

}  // namespace onepass::property
