#include "model/file_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/guarded.h"
#include "core/os.h"
#include "core/workspace.h"
#include "quant/blocks.h"
#include "quant/grid_search.h"

namespace onepass::llm {
namespace {

// Values in flight; what one thread takes at a time.
constexpr std::uint64_t step_values = 1u << 20;
constexpr std::uint64_t piece_values = 1u << 13;

// One element or block.
struct Format {
  DType type;
  void (*to_f32)(const std::byte* from, float* to);
  // importance: of each value, or null.
  void (*from_f32)(const float* from, const float* importance, std::byte* to);
};

template <class Block>
void block_to_f32(const std::byte* from, float* to) {
  Block block;
  std::memcpy(&block, from, sizeof(block));
  quant::dequantize(block, to);
}
template <class Block>
void block_from_f32(const float* from, [[maybe_unused]] const float* importance, std::byte* to) {
  Block block;
  if constexpr (requires { typename Block::Grid; }) {
    quant::quantize_grid(from, importance, block, quant::neighbours<typename Block::Grid>());
  } else if constexpr (requires { quant::quantize(from, block, importance); }) {
    quant::quantize(from, block, importance);
  } else {
    quant::quantize(from, block);
  }
  std::memcpy(to, &block, sizeof(block));
}

std::uint32_t load_u16(const std::byte* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}
void store_u16(std::uint32_t bits, std::byte* to) {
  const auto low = static_cast<std::uint16_t>(bits);
  std::memcpy(to, &low, sizeof(low));
}

constexpr Format formats[] = {
    {DType::f32, [](const std::byte* from, float* to) { std::memcpy(to, from, sizeof(float)); },
     [](const float* from, const float*, std::byte* to) { std::memcpy(to, from, sizeof(float)); }},
    {DType::f16, [](const std::byte* from, float* to) { *to = ops::op_f16_to_f32(load_u16(from)); },
     [](const float* from, const float*, std::byte* to) {
       store_u16(ops::op_f32_to_f16(*from), to);
     }},
    {DType::bf16,
     [](const std::byte* from, float* to) { *to = ops::op_bf16_to_f32(load_u16(from)); },
     [](const float* from, const float*, std::byte* to) {
       store_u16(ops::op_f32_to_bf16(*from), to);
     }},
#define BLOCK(format, Block) \
  {DType::format, block_to_f32<quant::Block>, block_from_f32<quant::Block>},
    ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
};

const Format* find(DType type) noexcept {
  for (const Format& f : formats) {
    if (f.type == type) return &f;
  }
  return nullptr;
}

Status check_sizes(DType type, std::uint64_t bytes, std::uint64_t values) {
  const auto expected = has_file_rows(type) ? storage_bytes(type, values) : std::nullopt;
  if (expected && *expected == bytes) return {};
  return fail(ErrorCode::invalid_argument, std::to_string(values) + " values of " + name(type) +
                                               " in " + std::to_string(bytes) + " bytes");
}

// body(first, end) over the pieces of n values, on several threads.
template <class Body>
void in_pieces(std::uint64_t n, std::uint32_t threads, const Body& body) {
  std::atomic<std::uint64_t> next{0};
  const auto work = [&]() noexcept {
    while (true) {
      const std::uint64_t first = next.fetch_add(piece_values, std::memory_order_relaxed);
      if (first >= n) return;
      body(first, std::min(n, first + piece_values));
    }
  };
  const std::uint64_t pieces = (n + piece_values - 1) / piece_values;
  const std::uint64_t wanted = std::min<std::uint64_t>(threads == 0 ? os::core_count() : threads,
                                                       std::max<std::uint64_t>(pieces, 1));
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(wanted));
  try {
    while (others.size() + 1 < wanted) others.emplace_back(work);
  } catch (const std::system_error&) {  // fewer threads do as well
  }
  work();
  for (std::thread& t : others) t.join();
}

// Of value i; its block lies in one row.
const float* importance_at(const Importance& of, std::uint64_t i) noexcept {
  if (of.values.empty()) return nullptr;
  const std::uint64_t matrix = (of.first_row + i / of.cols) / of.matrix_rows;
  return of.values.data() + matrix * of.cols + i % of.cols;
}

}  // namespace

bool has_file_rows(DType type) noexcept { return find(type) != nullptr; }

Status rows_to_f32(DType type, std::span<const std::byte> bytes, std::span<float> out) {
  return guarded([&]() -> Status {
    ONEPASS_TRY(check_sizes(type, bytes.size(), out.size()));
    const Format& f = *find(type);
    const std::size_t elements = info(type).block_elements, size = info(type).block_bytes;
    for (std::size_t i = 0; i < out.size() / elements; ++i) {
      f.to_f32(bytes.data() + i * size, out.data() + i * elements);
    }
    return {};
  });
}

Status rows_from_f32(DType type, std::span<const float> values, std::uint32_t threads,
                     std::span<std::byte> out, const Importance& importance) {
  return guarded([&]() -> Status {
    ONEPASS_TRY(check_sizes(type, out.size(), values.size()));
    const Format& f = *find(type);
    const std::uint64_t elements = info(type).block_elements, size = info(type).block_bytes;
    // Scales are f16 too, and at most the largest value.
    const float most = type == DType::f32 || type == DType::bf16 ? 3.3895e38f : 65504.0f;
    std::atomic<std::uint64_t> bad{values.size()};
    in_pieces(values.size(), threads, [&](std::uint64_t first, std::uint64_t end) {
      for (std::uint64_t i = first; i < end; ++i) {
        if (!(std::fabs(values[static_cast<std::size_t>(i)]) <= most)) {
          bad.store(i, std::memory_order_relaxed);
          return;
        }
      }
      static_assert(piece_values % quant::max_block_elements == 0);
      for (std::uint64_t i = first; i < end; i += elements) {
        f.from_f32(values.data() + i, importance_at(importance, i),
                   out.data() + i / elements * size);
      }
    });
    if (const std::uint64_t i = bad.load(); i < values.size()) {
      return fail(ErrorCode::parse, "value " + std::to_string(values[static_cast<std::size_t>(i)]) +
                                        " does not fit " + name(type));
    }
    return {};
  });
}

Status for_each_rows(const RowStream& from,
                     const std::function<Status(std::uint64_t first, std::span<float>)>& body) {
  return guarded([&]() -> Status {
    const std::uint64_t multiple = std::max<std::uint64_t>(from.multiple, 1);
    const std::uint64_t step =
        std::max<std::uint64_t>(1, step_values / from.cols / multiple) * multiple;
    std::vector<float> values;
    for (std::uint64_t r = 0; r < from.rows; r += step) {
      const std::uint64_t n = std::min(step, from.rows - r);
      values.resize(static_cast<std::size_t>(n * from.cols));
      ONEPASS_TRY(from.read(r, values));
      ONEPASS_TRY(body(r, values));
    }
    return {};
  });
}

Status convert_rows(const RowStream& from, DType type,
                    const std::function<Status(std::span<const std::byte>)>& write) {
  return guarded([&]() -> Status {
    Workspace memory;
    return for_each_rows(from, [&](std::uint64_t first, std::span<float> values) -> Status {
      const auto size = storage_bytes(type, values.size());
      if (!size) {
        return fail(ErrorCode::invalid_argument, "rows of " + std::to_string(from.cols) +
                                                     " values are no whole blocks of " +
                                                     name(type));
      }
      const std::span<std::byte> bytes = memory.take(static_cast<std::size_t>(*size));
      ONEPASS_TRY(rows_from_f32(type, values, from.threads, bytes,
                                {from.importance, from.cols, from.matrix_rows, first}));
      return write(bytes);
    });
  });
}

}  // namespace onepass::llm
