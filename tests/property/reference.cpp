#include "property/reference.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/cpu.h"
#include "ops/elementwise/params.h"
#include "ops/norm/params.h"

namespace onepass::property {
namespace {

std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t add_bytes(std::uint64_t h, const std::byte* p, std::uint64_t n) noexcept {
  for (; n >= 8; n -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    h = (std::rotl(h, 23) ^ word) * 0x9fb21c651e98df25u;
  }
  std::uint64_t word = n;
  std::memcpy(&word, p, n);
  return mix(h ^ word * 0x9e3779b97f4a7c15u);
}

const KernelRow& row_of(Op op) {
  for (const KernelRow& row : cpu_kernel_rows()) {
    if (row.op == op && row.format == DType::f32) return row;
  }
  std::abort();
}

}  // namespace

void hash_kernel(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<HashParams>();
  std::uint64_t h = mix(p.id + 1), old = 0;
  for (std::uint32_t v = 0; v < a.n_views; ++v) {
    if ((p.read_mask >> v & 1u) != 0) h = add_bytes(h, a.data[v], a.bytes[v]);
    if ((p.old_mask >> v & 1u) != 0) old = add_bytes(old + 1, a.data[v], a.bytes[v]);
  }
  static_cast<InputLog*>(a.user)->hashes[p.id] = h ^ old;
  for (std::uint32_t v = 0; v < a.n_views; ++v) {
    if ((p.write_mask >> v & 1u) == 0) continue;
    const auto [begin, end] = a.part(a.bytes[v]);
    std::uint64_t word = 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      if (i == begin || i % 8 == 0) {
        word = (mix(h + (i / 8) * 16 + v) & 0x1f1f1f1f1f1f1f1fu) + 0x3030303030303030u;
      }
      a.data[v][i] = static_cast<std::byte>(word >> (8 * (i % 8)));
    }
  }
}

HashParams hash_params(const OpSpec& op) {
  HashParams p{op.id, 0, 0, op.old_mask};
  for (std::uint32_t i = 0; i < op.n; ++i) {
    if (reads(op.access[i])) p.read_mask |= 1u << i;
    if (writes(op.access[i])) p.write_mask |= 1u << i;
  }
  return p;
}

std::vector<Block> initial_memory(const GraphSpec& graph) {
  std::vector<Block> memory(graph.n_memories);
  for (Block& b : memory) b.bytes.fill(std::byte{0});
  Random random(graph.seed ^ 0x5eed);
  for (const BufferSpec& b : graph.buffers) {
    Block& block = memory[b.memory];
    if (b.store == Store::caller || b.store == Store::imported) {
      for (std::byte& byte : block.bytes) byte = static_cast<std::byte>(0x30 + random.next() % 32);
    } else if (b.store == Store::weights) {
      for (std::uint32_t i = 0; i < b.bytes; i += 4) {
        const float value = 0.5f + static_cast<float>(random.in(0, 1023)) / 1024.0f;
        std::memcpy(block.bytes.data() + i, &value, 4);
      }
    }
  }
  return memory;
}

void run_op(const GraphSpec& graph, const OpSpec& op, std::span<Block> memory, InputLog& log) {
  if (!op.is_dispatch()) return;
  std::array<std::byte*, max_views> data{};  // with the slots that ops leave empty
  std::array<std::uint64_t, max_views> bytes{};
  for (std::uint32_t i = 0; i < op.n; ++i) {
    const Place& p = op.places[i];
    data[i] = memory[graph.buffers[p.buffer].memory].bytes.data() + graph.first_byte(p);
    bytes[i] = p.bytes;
  }
  KernelArgs args;
  args.data = data.data();
  args.bytes = bytes.data();
  args.n_views = op.n;
  args.user = &log;
  const auto call = [&](CpuKernelFn kernel, const auto& params, std::uint32_t tiles) {
    args.params = &params;
    args.tiles = tiles;
    for (args.tile = 0; args.tile < tiles; ++args.tile) kernel(args);
  };
  static const CpuKernelFn norm = cpu_function(row_of(Op::rms_norm)),
                           mul = cpu_function(row_of(Op::mul));
  const std::uint32_t dim = op.places[0].bytes / 4 / op.rows;
  ops::RmsNormParams norm_params{0, op.rows, dim, 1e-5f, 1};
  switch (op.type) {
    case OpType::hash:
      call(hash_kernel, hash_params(op), op.tiles);
      break;
    case OpType::rms_norm:
      call(norm, norm_params, 1);
      break;
    case OpType::mul:
      call(mul, ops::ElementwiseParams{op.rows * dim, 0, 0.0f, 0}, 1);
      break;
    case OpType::rms_norm_mul:
      norm_params.form = ops::form_product;
      call(norm, norm_params, 1);
      break;
    case OpType::fence:
    case OpType::barrier:
      break;
  }
}

Outcome run_reference(const GraphSpec& graph, std::uint32_t passes, std::byte poison) {
  Outcome out;
  out.memory = initial_memory(graph);
  out.compared.resize(graph.n_memories);
  for (Block& b : out.compared) b.bytes.fill(std::byte{0});
  for (const BufferSpec& b : graph.buffers) {
    if (b.store == Store::pool || b.store == Store::scratch) {
      out.memory[b.memory].bytes.fill(poison);
    } else {
      const auto from = out.compared[b.memory].bytes.begin() + b.base;
      std::fill(from, from + b.bytes, std::byte{0xff});
    }
  }
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    for (const OpSpec& op : graph.ops) run_op(graph, op, out.memory, out.log);
  }
  for (const OpSpec& op : graph.ops) {
    for (std::uint32_t i = 0; i < op.n; ++i) {
      const BufferSpec& b = graph.buffers[op.places[i].buffer];
      if (!writes(op.access[i]) || b.store == Store::scratch) continue;
      const auto from = out.compared[b.memory].bytes.begin() + graph.first_byte(op.places[i]);
      std::fill(from, from + op.places[i].bytes, std::byte{0xff});
    }
  }
  for (const Place& d : graph.discards) {
    Block& block = out.compared[graph.buffers[d.buffer].memory];
    const auto from = block.bytes.begin() + graph.first_byte(d);
    std::fill(from, from + d.bytes, std::byte{0});
  }
  return out;
}

bool equal_block(const Outcome& expected, std::uint32_t block, const std::byte* got) {
  std::uint64_t different = 0;
  for (std::uint32_t i = 0; i < memory_bytes; i += 8) {
    std::uint64_t a, b, mask;
    std::memcpy(&a, expected.memory[block].bytes.data() + i, 8);
    std::memcpy(&b, got + i, 8);
    std::memcpy(&mask, expected.compared[block].bytes.data() + i, 8);
    different |= (a ^ b) & mask;
  }
  return different == 0;
}

bool equal_outcomes(const Outcome& expected, const Outcome& got) {
  for (std::uint32_t m = 0; m < expected.memory.size(); ++m) {
    if (!equal_block(expected, m, got.memory[m].bytes.data())) return false;
  }
  return expected.log.hashes == got.log.hashes;
}

}  // namespace onepass::property
