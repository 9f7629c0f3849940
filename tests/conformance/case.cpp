#include "conformance/case.h"

namespace onepass::conformance {

const std::vector<DType>& weight_formats() {
  static const std::vector<DType> formats = [] {
    std::vector<DType> list;
    for (std::size_t i = 0; i < static_cast<std::size_t>(DType::count_); ++i) {
      const auto type = static_cast<DType>(i);
      const bool integers = type == DType::u8 || type == DType::u16 || type == DType::u32 ||
                            type == DType::i32 || type == DType::q8a;
      if (!integers) list.push_back(type);
    }
    return list;
  }();
  return formats;
}

bool takes_q8a(DType format) {
  return is_packed(format) && format != DType::f32_r16 && format != DType::f16_r16 &&
         format != DType::bf16_r16;
}

Bytes step_bytes(const std::vector<StepRow>& rows, const std::vector<StepSlot>& slots,
                 std::uint32_t n_rows) {
  StepHeader header{};
  header.n_rows = n_rows;
  header.max_rows = static_cast<std::uint32_t>(rows.size());
  header.max_slots = static_cast<std::uint32_t>(slots.size());
  Bytes bytes(sizeof(header) + rows.size() * sizeof(StepRow) + slots.size() * sizeof(StepSlot));
  std::byte* at = bytes.data();
  std::memcpy(at, &header, sizeof(header));
  std::memcpy(at += sizeof(header), rows.data(), rows.size() * sizeof(StepRow));
  std::memcpy(at + rows.size() * sizeof(StepRow), slots.data(), slots.size() * sizeof(StepSlot));
  return bytes;
}

Prepared take_row(Prepared p, std::uint32_t row, std::span<const std::size_t> per_row) {
  for (const std::size_t i : per_row) p.operands[i] = row_of(p.operands[i], row);
  return p;
}

}  // namespace onepass::conformance
