#include "conformance/case.h"

namespace onepass::conformance {

const std::vector<Format>& weight_formats() {
  static const std::vector<Format> all = [] {
    std::vector<Format> list;
#define FORMAT(name, ggml_id, elements, bytes) \
  if ((ggml_id) >= 0 && DType::name != DType::i32) list.push_back(formats::name);
#include "onepass/tables/formats.def"
#define LAYOUT(type, layout, elements, bytes, Form) list.push_back(formats::type##_##layout);
#include "onepass/tables/formats.def"
    return list;
  }();
  return all;
}

bool takes_q8a(Format format) {
  return is_packed(format) && format != formats::f32_r16 && format != formats::f16_r16 &&
         format != formats::bf16_r16;
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
