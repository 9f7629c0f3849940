#include "core/tables.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "core/backend.h"
#include "onepass/dtype.h"
#include "ops/attention/params.h"
#include "ops/elementwise/params.h"
#include "ops/embed/params.h"
#include "ops/kv_cache/params.h"
#include "ops/matmul/params.h"
#include "ops/moe/params.h"
#include "ops/move/params.h"
#include "ops/norm/params.h"
#include "ops/quantize/params.h"
#include "ops/rope/params.h"
#include "ops/sample/params.h"
#include "ops/shared/forms.h"
#include "ops/shared/fusions.h"
#include "ops/softmax/params.h"

namespace onepass {
namespace {

using namespace ops;  // forms of tables/ops.def, functions of tables/fusions.def

consteval std::uint8_t slot_count(std::string_view slots) {
  return static_cast<std::uint8_t>(slots.size());
}

constexpr OpInfo op_table[] = {
#define OP(name, Params, slots, forms, kind, captured)                  \
  {#name,   slots,        slot_count(slots),       sizeof(ops::Params), \
   (forms), OpKind::kind, CapturedOpKind::captured},
#include "onepass/tables/ops.def"
#undef OP
};
constexpr OpInfo custom_op{"custom", "", 0, 0, 0, OpKind::other, CapturedOpKind::other};
static_assert(std::size(op_table) == static_cast<std::size_t>(Op::count_));

constexpr DTypeInfo dtype_table[] = {
#define FORMAT(name, ggml_id, elements, bytes) {#name, ggml_id, elements, bytes},
#define PACKED_ONLY(name, elements, bytes) {#name, -1, elements, bytes},
#include "onepass/tables/formats.def"
};
constexpr DTypeInfo no_dtype{"none", -1, 1, 0};
static_assert(std::size(dtype_table) == static_cast<std::size_t>(DType::count_));

constexpr FormatInfo no_format{"none", 1, 0, 0, 0};
using FormatTable = std::array<std::array<FormatInfo, static_cast<std::size_t>(Layout::count_)>,
                               static_cast<std::size_t>(DType::count_)>;
consteval FormatTable make_format_table() {
  FormatTable table;
  const auto set = [&](Format f, FormatInfo row) {
    table[static_cast<std::size_t>(f.type)][static_cast<std::size_t>(f.layout)] = row;
  };
  for (auto& layouts : table) layouts.fill(no_format);
#define FORMAT(name, ggml_id, elements, bytes) set(formats::name, {#name, elements, bytes, 1, 0});
#define LAYOUT(type, layout, elements, bytes, Form) \
  set(formats::type##_##layout, {#type "_" #layout, elements, bytes, 16, 0});
#define SCALED_LAYOUT(type, layout, elements, bytes, Form) \
  set(formats::type##_##layout, {#type "_" #layout, elements, bytes, 16, 4});
#include "onepass/tables/formats.def"
  return table;
}
constexpr FormatTable format_table = make_format_table();

constexpr FusionRow fusion_table[] = {
#define CHAIN(name, first, second, fused, in_place, exact, merge) \
  {#name, FusionKind::chain, Op::first, Op::second, Op::fused, in_place, exact, merge},
#define CHAIN_KEEPING(name, first, second, fused, in_place, exact, merge) \
  {#name, FusionKind::chain_keeping, Op::first, Op::second, Op::fused, in_place, exact, merge},
#define PAIR(name, first, second, fused, in_place, exact, merge) \
  {#name, FusionKind::pair, Op::first, Op::second, Op::fused, in_place, exact, merge},
#define SAME(op) {"same_" #op, FusionKind::same, Op::op, Op::op, Op::op, "", true, nullptr},
#include "onepass/tables/fusions.def"
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
    for (const char c : std::string_view(row.in_place)) {
      const auto slot = static_cast<unsigned>(c >= 'a' ? c - 'a' + 10 : c - '0');
      if (slot >= fused.n_slots || fused.slots[slot] != 'i') return false;
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
  return type < DType::count_ ? dtype_table[static_cast<std::size_t>(type)] : no_dtype;
}

const FormatInfo& info(Format f) noexcept {
  if (f.type >= DType::count_ || f.layout >= Layout::count_) return no_format;
  return format_table[static_cast<std::size_t>(f.type)][static_cast<std::size_t>(f.layout)];
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(dtype_table); ++i) {
    if (name == dtype_table[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_ggml_id(std::uint32_t id) noexcept {
  for (std::size_t i = 0; i < std::size(dtype_table); ++i) {
    const int row_id = dtype_table[i].ggml_id;
    if (row_id >= 0 && static_cast<std::uint32_t>(row_id) == id) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> storage_bytes(Format format, std::uint64_t n) noexcept {
  if (is_packed(format)) return std::nullopt;
  return storage_bytes(format, 1, n);
}

std::optional<std::uint64_t> storage_bytes(Format format, std::uint64_t rows,
                                           std::uint64_t cols) noexcept {
  const FormatInfo& t = info(format);
  if (t.group_rows == 0 || rows > std::numeric_limits<std::uint64_t>::max() - t.group_rows) {
    return std::nullopt;
  }
  // Asked for every tensor of every op: no division where it can be spared.
  const std::uint64_t blocks = t.block_elements == 1 ? cols : cols / t.block_elements;
  if (blocks * t.block_elements != cols) return std::nullopt;
  const std::uint64_t groups = t.group_rows == 1 ? rows : (rows + t.group_rows - 1) / t.group_rows;
  std::uint64_t row_bytes = 0, bytes = 0;
  if (__builtin_mul_overflow(blocks, std::uint64_t{t.block_bytes}, &row_bytes) ||
      __builtin_add_overflow(row_bytes, std::uint64_t{t.row_scale_bytes}, &row_bytes) ||
      __builtin_mul_overflow(groups * t.group_rows, row_bytes, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

std::span<const FusionRow> fusion_rows() noexcept { return fusion_table; }

std::string kernel_text(const RecordedLaunch& l) {
  if (l.is_fence()) return "fence";
  std::uint32_t form = 0;
  if (info(l.kernel->op).forms != 0) std::memcpy(&form, l.params.data(), sizeof(form));
  return l.kernel->name + form_text(form);
}

std::string form_text(std::uint32_t form) {
  const bool gate = (form & form_parts) != 0 && (form & form_product) != 0;
  const std::pair<bool, const char*> names[] = {{(form & form_normed) != 0, "norm"},
                                                {(form & form_sum) != 0, "sum"},
                                                {(form & form_parts) != 0 && !gate, "parts"},
                                                {(form & form_bias) != 0, "bias"},
                                                {gate, "gate"},
                                                {(form & form_product) != 0 && !gate, "mul"},
                                                {(form & form_residual) != 0, "add"},
                                                {(form & form_quantized) != 0, "q8a"}};
  std::string text;
  for (const auto& [is_there, name] : names) {
    if (is_there) text += std::string("+") + name;
  }
  return text;
}

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
