// The one unit of work: an op asked for, with exact byte ranges.
//
//   onepass::Dispatch d = onepass::make_dispatch(onepass::Op::custom);
//   d.kernel = square;  // built-in ops are asked for by onepass/ops.h
//   d.bind(x.view, onepass::Access::read_write);
//   session.encode(d);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "onepass/buffer.h"

namespace onepass {

inline constexpr std::size_t max_views = 16;
inline constexpr std::size_t max_params_bytes = 112;  // 128 less the backend's 16

enum class Op : std::uint16_t {
#define OP(name, Params, slots, forms, kind, captured) name,
#include "onepass/tables/ops.def"
#undef OP
  count_,
  custom = 0xffff,  // a kernel of the caller's, named by Dispatch::kernel
};

// What kind of work an op is. The two lists are the ancestor's; reports use the second.
enum class OpKind : std::uint8_t {
  matmul,
  matmul_id,
  norm,
  rope,
  elementwise,
  copy,
  gather,
  sdpa,
  softmax,
  moe_gate,
  other,
};
enum class CapturedOpKind : std::uint8_t { rms_norm, elem_mul, elem_add, sdpa, softmax, other };

bool is_reorderable(OpKind kind) noexcept;
bool is_reorderable(CapturedOpKind kind) noexcept;
const char* name(CapturedOpKind kind) noexcept;  // "RmsNorm", "ElemMul", ...

struct OpInfo {
  const char* name;
  const char* slots;  // one of i, o, x per view
  std::uint8_t n_slots;
  std::uint16_t params_bytes;
  std::uint32_t forms;  // bits it may be asked for with; then the first parameter says which
  OpKind kind;
  CapturedOpKind captured;
};
const OpInfo& info(Op op) noexcept;

enum class Access : std::uint8_t { none = 0, read = 1, write = 2, read_write = 3 };
constexpr bool reads(Access a) noexcept { return (static_cast<unsigned>(a) & 1u) != 0; }
constexpr bool writes(Access a) noexcept { return (static_cast<unsigned>(a) & 2u) != 0; }

enum class DispatchKind : std::uint8_t { threads, thread_groups };

// How often a caller's own kernel runs. For kind threads, grid counts threads and the last group
// of each dimension may be partial.
struct Grid {
  DispatchKind kind = DispatchKind::thread_groups;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> group{1, 1, 1};

  static Grid threads(std::array<std::uint32_t, 3> n, std::array<std::uint32_t, 3> group) {
    return Grid{DispatchKind::threads, n, group};
  }
  static Grid groups(std::array<std::uint32_t, 3> n, std::array<std::uint32_t, 3> group) {
    return Grid{DispatchKind::thread_groups, n, group};
  }
  std::array<std::uint32_t, 3> group_counts() const noexcept;
};

// Index into the device's kernel registry. 0 names none.
struct KernelId {
  std::uint32_t index = 0;
  explicit operator bool() const noexcept { return index != 0; }
  friend bool operator==(const KernelId&, const KernelId&) = default;
};

struct DispatchExtra;  // slot numbers, inline blocks and group memory of callers' kernels

struct Dispatch {
  Op op = Op::custom;
  Format format;             // of the elements or the weights: which rows of the op fit
  DType input = DType::f32;  // of products: what view 0 holds; compiling brings it into the form
                             // that the device's kernel takes
  std::uint8_t n_views = 0;
  std::uint8_t params_bytes = 0;
  KernelId kernel;              // Op::custom only
  const char* label = nullptr;  // not owned: a literal, or from GraphSession::intern
  const char* group = nullptr;  // as label: the groups it stands in, "layer 3/attention"
  const char* file = "";        // the call that asked, for error texts
  int line = 0;
  Grid grid;  // Op::custom only; built-in ops get theirs from lower
  const DispatchExtra* extra = nullptr;
  std::array<Access, max_views> access;
  std::array<View, max_views> views;
  std::array<std::byte, max_params_bytes> params;

  // Uninitialised beyond n_views and params_bytes: a Dispatch is made for every op of a pass.
  Dispatch() noexcept {}

  // Appends a view; its access is the op table's for that slot. Too many views are reported by
  // encode.
  void bind(const View& view) noexcept {
    const OpInfo& op_info = info(op);
    const char slot = n_views < op_info.n_slots ? op_info.slots[n_views] : 'x';
    bind(view, slot == 'i' ? Access::read : slot == 'o' ? Access::write : Access::read_write);
  }
  void bind(const View& view, Access view_access) noexcept {
    if (n_views < max_views) {
      views[n_views] = view;
      access[n_views] = view_access;
    }
    if (n_views <= max_views) ++n_views;
  }
  template <class P>
  void set_params(const P& p) noexcept {
    static_assert(std::is_trivially_copyable_v<P> && sizeof(P) <= max_params_bytes);
    std::memcpy(params.data(), &p, sizeof(P));
    params_bytes = static_cast<std::uint8_t>(sizeof(P));
  }
  template <class P>
  P params_as() const noexcept {
    P p;
    std::memcpy(&p, params.data(), sizeof(P));
    return p;
  }
};
static_assert(std::is_trivially_copyable_v<Dispatch>);

// What it does beside its op.
inline std::uint32_t form_of(const Dispatch& d) noexcept {
  if (info(d.op).forms == 0 || d.params_bytes < sizeof(std::uint32_t)) return 0;
  std::uint32_t form;
  std::memcpy(&form, d.params.data(), sizeof(form));
  return form;
}

inline Dispatch make_dispatch(Op op, Format format = DType::f32) noexcept {
  Dispatch d;
  d.op = op;
  d.format = format;
  return d;
}

}  // namespace onepass
