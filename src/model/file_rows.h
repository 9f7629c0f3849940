// Rows of weights between the formats of files and f32.
//
//   ONEPASS_TRY(rows_to_f32(DType::q8_0, bytes, values));
//   ONEPASS_TRY(rows_from_f32(DType::q4_k, values, 0, bytes));   // 0: on all cores
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "onepass/dtype.h"
#include "onepass/result.h"

namespace onepass::llm {

// f32, f16, bf16 and every block format of GGUF files.
bool has_file_rows(DType type) noexcept;

// Whole rows, one after the other: their number does not matter. Sizes must fit.
Status rows_to_f32(DType type, std::span<const std::byte> bytes, std::span<float> out);
// What an error of a value counts, by its column: the mean square of what it is multiplied with.
// values: `cols` for each matrix of a tensor, one after the other; none: not known.
struct Importance {
  std::span<const float> values{};
  std::uint64_t cols = 0, matrix_rows = 0;
  std::uint64_t first_row = 0;  // of the tensor, where the rows at hand begin
};
// Numbers that are not finite, or too large for the type, are an error of code parse. The bytes do
// not depend on the number of threads; 0: one for each core.
Status rows_from_f32(DType type, std::span<const float> values, std::uint32_t threads,
                     std::span<std::byte> out, const Importance& importance = {});

// A matrix on its way from one file to another, a few rows at a time.
struct RowStream {
  std::uint64_t rows = 0, cols = 0;
  std::uint64_t multiple = 1;  // rows that are read together
  std::uint32_t threads = 0;
  std::span<const float> importance{};  // as of Importance
  std::uint64_t matrix_rows = 0;        // of each matrix, where there is importance
  // Rows first .. first + out.size() / cols of the source.
  std::function<Status(std::uint64_t first, std::span<float> out)> read;
};
// The rows as `type`, piece by piece.
Status convert_rows(const RowStream& from, DType type,
                    const std::function<Status(std::span<const std::byte>)>& write);
// The same for callers that store the values themselves.
Status for_each_rows(const RowStream& from,
                     const std::function<Status(std::uint64_t first, std::span<float>)>& body);

}  // namespace onepass::llm
