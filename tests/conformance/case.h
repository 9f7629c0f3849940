// A conformance case: one op with its operands, written once, run on every device.
//
//   Case c{.family = "norm", .name = "rms_norm f32 rows3 dim65", .op = Op::rms_norm, ...};
//   Prepared p = c.prepare({});            // operands, the call, and what must come out
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "conformance/numbers.h"
#include "onepass/ops.h"
#include "onepass/step_state.h"

namespace onepass::conformance {

// Half-open, in bytes of an operand.
struct Range {
  std::size_t begin, end;
};

enum class Role { in, out, in_out };

// Memory of its own with a red zone before and behind the view.
struct Operand {
  Role role = Role::in;
  Format dtype;
  Shape shape;
  Bytes bytes{};                         // contents; of an output only the size counts
  std::size_t offset = 0;                // of the view behind the red zone
  std::optional<std::size_t> same_as{};  // the very view of this earlier operand
  std::vector<Range> dead{};             // never to be read: filled with poison
};

// What an operand holds afterwards.
//
// Error model. A sum of n products in f32, in any order with n / 16 + 16 or fewer additions on the
// way of a term and a few roundings per term (conversion of a weight, scaling), is off by at most
// c u sum |x_k| |w_k|, with u = 2^-24, c = n / 16 + 48 and |w_k| the sum of the magnitudes a weight
// is made of (|scale q| + |bias|). Where a kernel takes its input quantized to 8 bits, x_k is off
// by at most half a step of its block of 32, so the result by sum |w_k| step_k / 2: `quantization`.
// The same input quantized by the reference leaves only the first term: `want_quantized`. Functions
// add their derivative times the error of the argument; a store to 16 bits adds half a unit.
struct Expect {
  std::size_t operand = 0;
  Doubles want{}, bound{};         // by element
  Doubles quantization{};          // added to bound
  Doubles want_quantized{};        // within bound alone
  std::optional<Bytes> exact{};    // instead of numbers
  std::vector<Range> untouched{};  // keeps what it held before
};

using Tensors = std::span<const Tensor>;

struct Prepared {
  std::vector<Operand> operands{};
  std::function<void(GraphSession&, Tensors)> encode{};
  // quantized: the device's kernel takes view 0 as q8a.
  std::function<std::vector<Expect>(bool quantized)> expect{};

  std::size_t add(Operand o) {
    operands.push_back(std::move(o));
    return operands.size() - 1;
  }
};

struct Case {
  std::string family;
  std::string name;
  Op op;
  Format format;
  // More than 1: prepare(row) makes the case of this row alone; its outputs are the row's bits.
  std::uint32_t rows = 1;
  // Not 0: the kernel is reached by fusing; recorded there are this many dispatches and one to
  // quantize x where the kernel wants that. Direct, the separate ones must give the same bits.
  std::uint32_t fused = 0;
  std::function<Prepared(std::optional<std::uint32_t> row)> prepare;
  bool close = false;      // fused by a row that is not exact, so in plans only
  std::uint32_t form = 0;  // of the fused dispatch
};

enum class Set { ci, full };

// Row r of a [rows, ...] operand.
inline Operand row_of(Operand o, std::uint32_t r) {
  const std::size_t stride = o.bytes.size() / o.shape[0];
  if (!o.bytes.empty()) {
    o.bytes = Bytes(o.bytes.begin() + static_cast<std::ptrdiff_t>(r * stride),
                    o.bytes.begin() + static_cast<std::ptrdiff_t>((r + 1) * stride));
  }
  o.shape.dims[0] = 1;
  o.dead.clear();
  return o;
}

inline Operand input(Format type, Shape shape, Bytes bytes, std::size_t offset = 0) {
  return Operand{Role::in, type, shape, std::move(bytes), offset};
}
inline Operand output(Format type, Shape shape, std::size_t offset = 0) {
  return Operand{Role::out, type, shape, Bytes(storage_bytes(type, shape).value_or(0)), offset};
}
inline Operand in_place(const std::vector<Operand>& operands, std::size_t of) {
  Operand o = operands[of];
  o.role = Role::in_out;
  o.same_as = of;
  return o;
}

// "m2 n33"-style names.
template <class... Parts>
std::string label(const Parts&... parts) {
  std::string text;
  const auto append = [&text](const auto& part) {
    using Part = std::decay_t<decltype(part)>;
    if constexpr (std::is_floating_point_v<Part>) {
      char digits[32];
      std::snprintf(digits, sizeof(digits), "%.7g", static_cast<double>(part));
      text += digits;
    } else if constexpr (std::is_integral_v<Part>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (append(parts), ...);
  return text;
}

// Adds cases until there are `count` of them with different names; make(random, i) draws one.
template <class Make>
void draw(std::vector<Case>& cases, std::string_view seed, std::size_t count, const Make& make) {
  std::set<std::string> names;
  for (std::size_t i = 0; names.size() < count && i < 20 * count; ++i) {
    Random random(label(seed, i));
    Case c = make(random, i);
    if (names.insert(c.name).second) cases.push_back(std::move(c));
  }
}

// Starts of views, in bytes: elements or blocks of the type are aligned there, nothing more.
inline std::size_t odd_offset(Format type, std::size_t variant) {
  constexpr std::size_t steps[] = {0, 1, 3, 16, 37};
  return steps[variant % 5] * (info(type).block_elements > 1 ? 2 : info(type).block_bytes);
}

inline const std::vector<DType>& float_types() {
  static const std::vector<DType> types{DType::f32, DType::f16, DType::bf16};
  return types;
}

// Every format of weights.
const std::vector<Format>& weight_formats();
// Formats whose kernels take x as q8a on the CPU.
bool takes_q8a(Format format);

// Bytes of a StepState.
Bytes step_bytes(const std::vector<StepRow>& rows, const std::vector<StepSlot>& slots,
                 std::uint32_t n_rows);

// The case of one row alone: operands in `per_row` are cut, the others stay.
Prepared take_row(Prepared p, std::uint32_t row, std::span<const std::size_t> per_row);

// The families.
void add_elementwise(Set set, std::vector<Case>& cases);
void add_norm(Set set, std::vector<Case>& cases);
void add_softmax(Set set, std::vector<Case>& cases);
void add_rope(Set set, std::vector<Case>& cases);
void add_matmul(Set set, std::vector<Case>& cases);
void add_attention(Set set, std::vector<Case>& cases);
void add_decode(Set set, std::vector<Case>& cases);
void add_kv(Set set, std::vector<Case>& cases);
void add_move(Set set, std::vector<Case>& cases);
void add_moe(Set set, std::vector<Case>& cases);
void add_quantize(Set set, std::vector<Case>& cases);
void add_fused(Set set, std::vector<Case>& cases);
void add_embed(Set set, std::vector<Case>& cases);
void add_sample(Set set, std::vector<Case>& cases);

}  // namespace onepass::conformance
