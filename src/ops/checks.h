// Checks of an op's arguments. The first failure goes to the session with the place of the call;
// later ones are dropped.
//
//   Checks c(s, "softmax", here);
//   const View x = c.tensor("x", a.x, row_types);
//   if (c.failed()) return;
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "onepass/ops.h"

namespace onepass::ops {

// A set of formats, one bit per type: of rows, and of packed layouts.
struct TypeSet {
  std::array<std::uint64_t, 2> rows{}, packed{};

  constexpr bool has(Format f) const noexcept {
    const auto i = static_cast<unsigned>(f.type);
    return f.type < DType::count_ && ((is_packed(f) ? packed : rows)[i / 64] >> i % 64 & 1u) != 0;
  }
  friend constexpr TypeSet operator|(TypeSet a, const TypeSet& b) noexcept {
    for (unsigned i = 0; i < 2; ++i) a.rows[i] |= b.rows[i], a.packed[i] |= b.packed[i];
    return a;
  }
};
static_assert(static_cast<unsigned>(DType::count_) <= 128);
template <class... T>
constexpr TypeSet types(T... list) noexcept {
  TypeSet set;
  for (const unsigned i : {static_cast<unsigned>(list)...}) {
    set.rows[i / 64] |= std::uint64_t{1} << i % 64;
  }
  return set;
}
inline constexpr TypeSet row_types = types(DType::f32, DType::f16, DType::bf16);
inline constexpr TypeSet weight_types = row_types | types(DType::q4_0, DType::q8_0);
// Single elements; blocks of a GGUF file; everything whose rows are apart; packed weights.
inline constexpr TypeSet plain_types = TypeSet{}
#define FORMAT(name, ggml_id, elements, bytes) | ((elements) == 1 ? types(DType::name) : TypeSet{})
#include "onepass/tables/formats.def"
;
inline constexpr TypeSet block_types = TypeSet{}
#define FORMAT(name, ggml_id, elements, bytes) \
  | ((elements) > 1 && (ggml_id) >= 0 ? types(DType::name) : TypeSet{})
#include "onepass/tables/formats.def"
;
inline constexpr TypeSet unpacked_types = plain_types | block_types | types(DType::q8a);
inline constexpr TypeSet packed_types = TypeSet{}
#define LAYOUT(type, layout, elements, bytes, Form) \
  | TypeSet { {}, types(DType::type).rows }
#include "onepass/tables/formats.def"
;

class Checks {
 public:
  Checks(GraphSession& session, const char* op, Here here) noexcept
      : session_(session), op_(op), here_(here) {}

  bool failed() const noexcept { return failed_; }

  // Parts of the message: strings and unsigned numbers.
  template <class... Parts>
  void fail(ErrorCode code, const Parts&... parts) noexcept {
    if (std::exchange(failed_, true)) return;
    try {
      std::string text = std::string(op_) + ": ";
      (append(text, parts), ...);
      session_.fail(make_error(code, std::move(text), here_.file, here_.line));
    } catch (const std::bad_alloc&) {
      session_.fail(Error{
          ErrorCode::out_of_memory, "out of memory", here_.file, here_.line, Error::no_offset, {}});
    }
  }
  template <class... Parts>
  void require(bool condition, const Parts&... parts) noexcept {
    if (!condition) fail(ErrorCode::invalid_argument, parts...);
  }

  // A tensor that must be there, with no empty dimension, one of the types, whole blocks per row,
  // an aligned start and a view that holds it. Returns exactly its bytes.
  View tensor(const char* what, const Tensor& t, TypeSet type_set) noexcept;
  // Raw memory of at least `need` bytes. Returns exactly that many, or all with whole = true.
  View memory(const char* what, const View& view, std::uint64_t need, bool whole = false) noexcept;
  // A StepState with at least one row; its view as it is.
  View step(const char* what, const View& view) noexcept;

  void same_type(const char* a_what, const Tensor& a, const char* b_what, const Tensor& b) noexcept;
  void same_shape(const char* a_what, const Tensor& a, const char* b_what,
                  const Tensor& b) noexcept;
  void rank(const char* what, const Tensor& t, std::uint32_t expected) noexcept;
  // MLX affine weights: quant/affine.h has their bits and groups, scales and biases are alike.
  struct Affine {
    const Tensor &weight, &scales, &biases;
    std::uint32_t bits, group_size;
  };
  struct AffineViews {
    View weight, scales, biases;
  };
  AffineViews affine(const Affine& a) noexcept;
  // Their rows are of as many values as the columns of `what`. After affine() found nothing wrong.
  void affine_rows(const Affine& a, const char* what, std::uint32_t columns) noexcept;
  // The output may not touch this input.
  void disjoint(const View& out, const char* in_what, const View& in) noexcept;
  // The output may be exactly this input or not touch it.
  void disjoint_or_same(const View& out, const char* in_what, const View& in) noexcept;
  // A count that must fit the kernels' 32 bits.
  std::uint32_t u32(const char* what, std::uint64_t count) noexcept;

 private:
  static void append(std::string& text, std::string_view part) { text += part; }
  static void append(std::string& text, std::uint64_t part) { text += std::to_string(part); }
  static void append(std::string& text, const Shape& part);

  GraphSession& session_;
  const char* op_;
  Here here_;
  bool failed_ = false;
};

// A dispatch of the op with the place of its call.
inline Dispatch dispatch(Op op, Format format, Here here) noexcept {
  Dispatch d = make_dispatch(op, format);
  d.file = here.file;
  d.line = here.line;
  return d;
}

inline bool overlap(const View& a, const View& b) noexcept {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace onepass::ops
