#include "backends/vulkan/spirv.h"

namespace onepass::vulkan {
namespace {

// Of the SPIR-V specification.
constexpr std::uint32_t magic = 0x07230203, no_contraction = 42;
constexpr std::size_t header_words = 5;
enum Opcode : std::uint32_t {
  op_type_first = 19,  // OpTypeVoid: types come after all decorations
  op_type_last = 39,
  op_decorate = 71,
  op_f_negate = 127,
  op_f_add = 129,
  op_f_sub = 131,
  op_f_mul = 133,
  op_f_div = 136,
  op_f_rem = 140,
  op_f_mod = 141,
  op_vector_times_scalar = 142,
  op_dot = 148,
};

bool is_arithmetic(std::uint32_t op) {
  return op == op_f_negate || op == op_f_add || op == op_f_sub || op == op_f_mul ||
         op == op_f_div || op == op_f_rem || op == op_f_mod ||
         (op >= op_vector_times_scalar && op <= op_dot);
}

}  // namespace

std::vector<std::uint32_t> without_contraction(std::span<const std::uint32_t> words) {
  if (words.size() < header_words || words[0] != magic) return {};
  std::vector<std::uint32_t> decorations;
  std::size_t first_type = 0;
  for (std::size_t at = header_words; at < words.size();) {
    const std::uint32_t op = words[at] & 0xffff, length = words[at] >> 16;
    if (length == 0 || length > words.size() - at) return {};
    if (first_type == 0 && op >= op_type_first && op <= op_type_last) first_type = at;
    if (is_arithmetic(op) && length >= 3) {
      decorations.insert(decorations.end(),
                         {3u << 16 | op_decorate, words[at + 2], no_contraction});
    }
    at += length;
  }
  std::vector<std::uint32_t> out;
  out.reserve(words.size() + decorations.size());
  const auto types = words.begin() + static_cast<std::ptrdiff_t>(first_type);
  out.assign(words.begin(), types);
  out.insert(out.end(), decorations.begin(), decorations.end());
  out.insert(out.end(), types, words.end());
  return out;
}

}  // namespace onepass::vulkan
