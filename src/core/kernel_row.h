// Rows of the op families' kernel tables, what makes them, and a backend's table of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <variant>

#include "core/features.h"
#include "onepass/device.h"
#include "onepass/dispatch.h"
#include "onepass/kernel.h"

namespace onepass {

// A kernel of a CUDA image.
struct CudaSymbol {
  const char* symbol = nullptr;                // entry point of Launch::variant 0
  std::span<const char* const> variants = {};  // entry points of Launch::variant 1, 2, ...
};

// An entry point of a SPIR-V module, for Vulkan.
struct SpirvModule {
  std::span<const std::uint32_t> words;
  const char* entry = nullptr;
};

// A function of a Metal library.
struct MslFunction {
  const char* name = nullptr;
};

// A caller's kernel as its backend has built it.
struct BuiltKernel {
  std::uint64_t handle = 0;  // the backend's; valid as long as the backend
};

// What a device runs for a row; monostate: nothing. Names and words live as long as the process.
using KernelCode =
    std::variant<std::monostate, CpuKernelFn, CudaSymbol, SpirvModule, MslFunction, BuiltKernel>;

// How a launch may begin while the launches before it still run (CUDA's programmatic starts).
struct StartRule {
  bool waits_first = false;  // every block waits before its first dependent access and exit
  // Views (one bit each) that are read before the wait, so nothing in the recording may write them
  // while the edges to this launch are programmatic.
  std::uint32_t reads_early = 0;
};

// Adds the launches that a dispatch becomes where one launch of the row cannot do it, for example
// because a view is larger than the device's max_binding_bytes. An empty list: one launch can.
class LaunchList;
using LowerFn = Status (*)(const DeviceInfo&, const Dispatch&, LaunchList&);

// Whether the row takes a dispatch of its op, format and forms: sizes, alignments, forms that do
// not go together. Asked before a fusion makes such a dispatch.
using AcceptFn = bool (*)(const DeviceInfo&, const Dispatch&);

// bytes: of the output, which the dispatch has no view of yet.
using ConvertFn = bool (*)(const Dispatch& product, Dispatch& conversion, std::uint64_t& bytes);

// One implementation of an op for one format on one backend.
struct KernelRow {
  Op op = Op::custom;
  Format format{};
  std::uint32_t forms = 0;       // bits that it can do
  std::uint32_t forms_must = 0;  // bits without which it is not for
  AcceptFn accepts = nullptr;    // null: whatever fits the above
  DType input = DType::f32;      // of products: what view 0 must hold
  // Makes the dispatch that brings view 0 of a product into `input`; its last view, the output, is
  // bound to scratch by the caller. Null where nothing else than `input` can be handed in.
  ConvertFn convert = nullptr;
  const char* name = "";
  std::uint32_t needs = 0;  // bits of Feature
  LaunchFn launch = nullptr;
  LowerFn lower = nullptr;  // null: always one launch
  KernelCode code = {};
  StartRule start = {};
  std::uint32_t cluster = 1;  // groups along y that are compiled to run together
  void* user = nullptr;       // callers' kernels
  CapturedOpKind kind = CapturedOpKind::other;
};

constexpr bool has_forms(const KernelRow& row, std::uint32_t form) noexcept {
  return (form & ~row.forms) == 0 && (row.forms_must & ~form) == 0;
}

// Null where the row has no code for the CPU.
constexpr CpuKernelFn cpu_function(const KernelRow& row) noexcept {
  const CpuKernelFn* function = std::get_if<CpuKernelFn>(&row.code);
  return function != nullptr ? *function : nullptr;
}

// The entry point of a CUDA kernel; null where the row has no such variant.
constexpr const char* symbol_of(const KernelRow& row, const Launch& launch) noexcept {
  const CudaSymbol* code = std::get_if<CudaSymbol>(&row.code);
  if (code == nullptr) return nullptr;
  if (launch.variant == 0) return code->symbol;
  return launch.variant <= code->variants.size() ? code->variants[launch.variant - 1] : nullptr;
}

// A caller's kernel as its backend has built it; 0 for the library's.
constexpr std::uint64_t built_handle(const KernelRow& row) noexcept {
  const BuiltKernel* built = std::get_if<BuiltKernel>(&row.code);
  return built != nullptr ? built->handle : 0;
}

using KernelList = std::span<const KernelRow>;

// The rows of a backend: lists of rows, walked as one range. Refers to the lists, copies nothing.
class KernelTable {
 public:
  class Iterator {
   public:
    // NOLINTBEGIN(readability-identifier-naming): the standard library's names
    using iterator_category = std::forward_iterator_tag;
    using value_type = KernelRow;
    using difference_type = std::ptrdiff_t;
    using pointer = const KernelRow*;
    using reference = const KernelRow&;
    // NOLINTEND(readability-identifier-naming)

    Iterator() = default;
    reference operator*() const noexcept { return (*list_)[row_]; }
    pointer operator->() const noexcept { return &**this; }
    Iterator& operator++() noexcept {
      ++row_;
      skip_ended();
      return *this;
    }
    Iterator operator++(int) noexcept {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    friend class KernelTable;
    Iterator(const KernelList* list, const KernelList* end) noexcept : list_(list), end_(end) {
      skip_ended();
    }
    void skip_ended() noexcept {
      while (list_ != end_ && row_ == list_->size()) {
        ++list_;
        row_ = 0;
      }
    }

    const KernelList* list_ = nullptr;
    const KernelList* end_ = nullptr;
    std::size_t row_ = 0;
  };

  KernelTable() = default;
  // The lists must outlive the table and all that is got from it.
  explicit KernelTable(std::span<const KernelList> lists) noexcept : lists_(lists) {}

  Iterator begin() const noexcept { return {lists_.data(), lists_.data() + lists_.size()}; }
  Iterator end() const noexcept {
    return {lists_.data() + lists_.size(), lists_.data() + lists_.size()};
  }
  std::span<const KernelList> lists() const noexcept { return lists_; }
  std::size_t size() const noexcept {
    std::size_t n = 0;
    for (const KernelList& list : lists_) n += list.size();
    return n;
  }

 private:
  std::span<const KernelList> lists_;
};

constexpr CapturedOpKind captured_kind(Op op) noexcept {
  switch (op) {
#define OP(name, Params, slots, forms, kind, captured) \
  case Op::name:                                       \
    return CapturedOpKind::captured;
#include "onepass/tables/ops.def"
#undef OP
    default:
      return CapturedOpKind::other;
  }
}

constexpr KernelRow cpu_row(Op op, Format format, const char* name, LaunchFn launch,
                            CpuKernelFn cpu, std::uint32_t needs = 0) noexcept {
  return {.op = op,
          .format = format,
          .name = name,
          .needs = needs,
          .launch = launch,
          .code = cpu,
          .kind = captured_kind(op)};
}

// A CUDA kernel; without a symbol its entry point has the row's name.
constexpr KernelRow gpu_row(Op op, Format format, const char* name, LaunchFn launch,
                            CudaSymbol code = {}) noexcept {
  if (code.symbol == nullptr) code.symbol = name;
  return {.op = op,
          .format = format,
          .name = name,
          .launch = launch,
          .code = code,
          .kind = captured_kind(op)};
}

}  // namespace onepass
