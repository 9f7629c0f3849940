#include "core/tables.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "onepass/dtype.h"
#include "ops/attention/fusions.h"
#include "ops/attention/params.h"
#include "ops/elementwise/params.h"
#include "ops/embed/params.h"
#include "ops/kv_cache/params.h"
#include "ops/matmul/fusions.h"
#include "ops/matmul/params.h"
#include "ops/moe/params.h"
#include "ops/move/params.h"
#include "ops/norm/fusions.h"
#include "ops/norm/params.h"
#include "ops/quantize/params.h"
#include "ops/rope/fusions.h"
#include "ops/rope/params.h"
#include "ops/sample/params.h"
#include "ops/softmax/params.h"

namespace onepass {
namespace {

consteval std::uint8_t slot_count(std::string_view slots) {
  return static_cast<std::uint8_t>(slots.size());
}

constexpr OpInfo op_table[] = {
#define OP(name, Params, slots, kind, captured) \
  {#name, slots, slot_count(slots), sizeof(ops::Params), OpKind::kind, CapturedOpKind::captured},
#include "onepass/tables/ops.def"
#undef OP
};
constexpr OpInfo custom_op{"custom", "", 0, 0, OpKind::other, CapturedOpKind::other};
static_assert(std::size(op_table) == static_cast<std::size_t>(Op::count_));

constexpr DTypeInfo format_table[] = {
#define FORMAT(name, ggml_id, elements, bytes, rows) {#name, ggml_id, elements, bytes, rows},
#include "onepass/tables/formats.def"
#undef FORMAT
};
constexpr DTypeInfo no_format{"none", -1, 1, 0, 1};
static_assert(std::size(format_table) == static_cast<std::size_t>(DType::count_));

constexpr FusionRow fusion_table[] = {
#define CHAIN(first, second, fused, in_place, exact, merge) \
  {#fused, FusionKind::chain, Op::first, Op::second, Op::fused, in_place, exact, merge},
#define CHAIN_KEEPING(first, second, fused, in_place, exact, merge) \
  {#fused, FusionKind::chain_keeping, Op::first, Op::second, Op::fused, in_place, exact, merge},
#define PAIR(first, second, fused, in_place, exact, merge) \
  {#fused, FusionKind::pair, Op::first, Op::second, Op::fused, in_place, exact, merge},
#define SAME(op) {"same_" #op, FusionKind::same, Op::op, Op::op, Op::op, "", true, nullptr},
#include "onepass/tables/fusions.def"
#undef CHAIN
#undef PAIR
#undef SAME
};

consteval bool ops_are_sound() {
  for (const OpInfo& op : op_table) {
    const std::string_view slots = op.slots;
    if (slots.empty() || slots.size() > max_views) return false;
    if (slots.find_first_not_of("iox") != slots.npos) return false;
    if (slots.find_first_of("ox") == slots.npos) return false;
    if (op.params_bytes > max_params_bytes || op.params_bytes % 4 != 0) return false;
  }
  return true;
}
static_assert(ops_are_sound(),
              "ops.def: slot letters i, o, x, at most 16, one written; params of "
              "4-byte scalars, at most 112 bytes");

consteval bool fusions_are_sound() {
  for (const FusionRow& row : fusion_table) {
    const OpInfo& fused = op_table[static_cast<std::size_t>(row.fused)];
    for (char c : std::string_view(row.in_place)) {
      if (c < '0' || c >= '0' + fused.n_slots || fused.slots[c - '0'] != 'i') return false;
    }
  }
  return true;
}
static_assert(fusions_are_sound(), "fusions.def: in_place names no input");

}  // namespace

const OpInfo& info(Op op) noexcept {
  return op < Op::count_ ? op_table[static_cast<std::size_t>(op)] : custom_op;
}

const DTypeInfo& info(DType type) noexcept {
  return type < DType::count_ ? format_table[static_cast<std::size_t>(type)] : no_format;
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(format_table); ++i) {
    if (name == format_table[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_ggml_id(std::uint32_t id) noexcept {
  for (std::size_t i = 0; i < std::size(format_table); ++i) {
    const int row_id = format_table[i].ggml_id;
    if (row_id >= 0 && static_cast<std::uint32_t>(row_id) == id) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> storage_bytes(DType type, std::uint64_t n) noexcept {
  if (is_packed(type)) return std::nullopt;
  return storage_bytes(type, 1, n);
}

std::optional<std::uint64_t> storage_bytes(DType type, std::uint64_t rows,
                                           std::uint64_t cols) noexcept {
  constexpr std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  if (type >= DType::count_) return std::nullopt;
  const DTypeInfo& t = info(type);
  if (cols % t.block_elements != 0 || rows > top - t.group_rows) return std::nullopt;
  const std::uint64_t padded = (rows + t.group_rows - 1) / t.group_rows * t.group_rows;
  const std::uint64_t blocks = cols / t.block_elements;
  if (blocks > top / t.block_bytes) return std::nullopt;
  const std::uint64_t row_bytes = blocks * t.block_bytes;
  if (row_bytes != 0 && padded > top / row_bytes) return std::nullopt;
  return padded * row_bytes;
}

std::span<const FusionRow> fusion_rows() noexcept { return fusion_table; }

bool is_reorderable(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::matmul:
    case OpKind::matmul_id:
    case OpKind::norm:
    case OpKind::rope:
    case OpKind::elementwise:
    case OpKind::copy:
    case OpKind::gather:
      return true;
    case OpKind::sdpa:
    case OpKind::softmax:
    case OpKind::moe_gate:
    case OpKind::other:
      return false;
  }
  return false;
}

bool is_reorderable(CapturedOpKind kind) noexcept {
  return kind != CapturedOpKind::sdpa && kind != CapturedOpKind::softmax;
}

const char* name(CapturedOpKind kind) noexcept {
  switch (kind) {
    case CapturedOpKind::rms_norm:
      return "RmsNorm";
    case CapturedOpKind::elem_mul:
      return "ElemMul";
    case CapturedOpKind::elem_add:
      return "ElemAdd";
    case CapturedOpKind::sdpa:
      return "Sdpa";
    case CapturedOpKind::softmax:
      return "Softmax";
    case CapturedOpKind::other:
      break;
  }
  return "Other";
}

std::array<std::uint32_t, 3> Grid::group_counts() const noexcept {
  if (kind == DispatchKind::thread_groups) return grid;
  std::array<std::uint32_t, 3> counts{};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::uint32_t size = std::max(group[i], 1u);
    counts[i] = grid[i] / size + (grid[i] % size != 0 ? 1u : 0u);
  }
  return counts;
}

}  // namespace onepass
