#include "ops/checks.h"

#include <limits>
#include <optional>

#include "ops/launch.h"
#include "quant/affine.h"

namespace onepass::ops {
namespace {

std::string type_names(const TypeSet& set) {
  const bool packed = set.packed != decltype(set.packed){};
  std::string text, last;
  for (unsigned i = 0; i < static_cast<unsigned>(DType::count_); ++i) {
    const auto type = static_cast<DType>(i);
    if (!set.has(type)) continue;
    if (!last.empty()) text += (text.empty() ? "" : ", ") + last;
    last = name(type);
  }
  if (!text.empty()) text += packed ? ", " : " or ";
  text += last;
  if (packed) text += " or packed weights";
  return text;
}

// Bytes at which an element or block of the format may start.
std::uint64_t alignment(Format format) noexcept {
  const FormatInfo& t = info(format);
  return t.block_elements > 1 ? 2 : t.block_bytes;
}

}  // namespace

void Checks::append(std::string& text, const Shape& part) {
  text += '[';
  for (std::size_t i = 0; i < part.rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(part[i]);
  }
  text += ']';
}

View Checks::tensor(const char* what, const Tensor& t, TypeSet type_set) noexcept {
  if (!t) {
    fail(ErrorCode::invalid_argument, what, " is missing");
    return {};
  }
  const Format format = t.format();
  if (!type_set.has(format) || info(format).group_rows == 0) {
    const char* got = info(format).group_rows != 0 ? name(format) : "no dtype";
    std::string expected;
    try {
      expected = type_names(type_set);
    } catch (const std::bad_alloc&) {
    }
    fail(ErrorCode::unsupported, what, " is ", got, ", expected ", expected);
    return {};
  }
  if (t.shape.rank == 0 || t.shape.rank > 4) {
    fail(ErrorCode::invalid_argument, what, " has ", t.shape.rank, " dimensions, expected 1 to 4");
    return {};
  }
  for (std::size_t i = 0; i < t.shape.rank; ++i) {
    if (t.shape[i] == 0) {
      fail(ErrorCode::invalid_argument, what, " is empty: ", t.shape);
      return {};
    }
  }
  const std::uint32_t block = info(format).block_elements;
  if (t.shape.last() % block != 0) {
    fail(ErrorCode::invalid_argument, what, " has rows of ", t.shape.last(), " elements, ",
         name(format), " needs a multiple of ", block);
    return {};
  }
  const std::uint64_t need =
      storage_bytes(format, t.shape).value_or(std::numeric_limits<std::uint64_t>::max());
  if (t.view.bytes < need) {
    fail(ErrorCode::invalid_argument, what, " ", t.shape, " of ", name(format), " needs ", need,
         " bytes, its view has ", t.view.bytes);
    return {};
  }
  if (t.view.offset % alignment(format) != 0) {
    fail(ErrorCode::invalid_argument, what, " starts at byte ", t.view.offset, ", ", name(format),
         " needs a multiple of ", alignment(format));
    return {};
  }
  return View{t.view.buffer, t.view.offset, need};
}

View Checks::memory(const char* what, const View& view, std::uint64_t need, bool whole) noexcept {
  if (!view.buffer) {
    fail(ErrorCode::invalid_argument, what, " is missing");
    return {};
  }
  if (view.bytes < need || view.offset % 4 != 0) {
    fail(ErrorCode::invalid_argument, what, " has ", view.bytes, " bytes at byte ", view.offset,
         ", expected at least ", need, " at a multiple of 4");
    return {};
  }
  return View{view.buffer, view.offset, whole ? view.bytes : need};
}

View Checks::step(const char* what, const View& view) noexcept {
  return memory(what, view, StepState::size_bytes(1, 1), true);
}

void Checks::same_type(const char* a_what, const Tensor& a, const char* b_what,
                       const Tensor& b) noexcept {
  if (failed_ || a.format() == b.format()) return;
  fail(ErrorCode::invalid_argument, a_what, " is ", name(a.format()), ", ", b_what, " is ",
       name(b.format()));
}

void Checks::same_shape(const char* a_what, const Tensor& a, const char* b_what,
                        const Tensor& b) noexcept {
  require(a.shape == b.shape, a_what, " is ", a.shape, ", ", b_what, " is ", b.shape);
}

void Checks::rank(const char* what, const Tensor& t, std::uint32_t expected) noexcept {
  require(t.shape.rank == expected, what, " has ", t.shape.rank, " dimensions, expected ",
          expected);
}

Checks::AffineViews Checks::affine(const Affine& a) noexcept {
  const AffineViews views{tensor("weight", a.weight, types(DType::u32)),
                          tensor("scales", a.scales, row_types),
                          tensor("biases", a.biases, row_types)};
  same_type("scales", a.scales, "biases", a.biases);
  same_shape("scales", a.scales, "biases", a.biases);
  rank("weight", a.weight, 2);
  rank("scales", a.scales, 2);
  require(quant::is_affine_bits(a.bits), "bits is ", a.bits, ", expected ",
          quant::affine_bits_names);
  require(quant::is_affine_group(a.group_size), "group_size is ", a.group_size, ", expected ",
          quant::affine_group_names);
  return views;
}

void Checks::affine_rows(const Affine& a, const char* what, std::uint32_t columns) noexcept {
  const std::uint64_t words = std::uint64_t{columns} * a.bits / 32;
  const Shape groups{a.weight.shape[0], columns / a.group_size};
  require(columns % a.group_size == 0, what, " has ", columns,
          " columns, expected a multiple of group_size ", a.group_size);
  require(a.weight.shape[1] == words, "weight has ", a.weight.shape[1], " words per row, ", columns,
          " values of ", a.bits, " bits need ", words);
  require(a.scales.shape == groups, "scales is ", a.scales.shape, ", expected ", groups);
}

void Checks::disjoint(const View& out, const char* in_what, const View& in) noexcept {
  require(failed_ || !overlap(out, in), "out overlaps ", in_what);
}

void Checks::disjoint_or_same(const View& out, const char* in_what, const View& in) noexcept {
  require(failed_ || out == in || !overlap(out, in), "out overlaps ", in_what,
          " without being the same memory");
}

std::uint32_t Checks::u32(const char* what, std::uint64_t count) noexcept {
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    fail(ErrorCode::unsupported, what, " is ", count, ", at most ",
         std::numeric_limits<std::uint32_t>::max());
  }
  return static_cast<std::uint32_t>(count);
}

}  // namespace onepass::ops
