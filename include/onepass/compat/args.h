// What the ancestor's encode forms take, its counters and its errors.
//
//   const auto tail = compat::KernelArg::buffer_with_offset(x.view, 4096);
//   const compat::Args args{{0, tail}, {3, compat::KernelArg::bytes(n)}};  // slots may have gaps
//   encoder.encode_threadgroups_with_args(kernel, args, {4, 1, 1}, {1, 1, 1});
//   const std::uint64_t dispatches = compat::dispatch_count();  // of all devices
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "onepass/onepass.hpp"

namespace onepass::compat {

using MlxBuffer = onepass::Buffer;
using onepass::CapturedNode;
using onepass::CapturedOpKind;
using onepass::ComputeGraph;
using onepass::ConflictTracker;
using onepass::DispatchKind;
using onepass::DType;
using onepass::is_reorderable;
using onepass::MemRange;
using onepass::name;
using onepass::OpKind;
using Pipeline = KernelId;
using Size3 = std::array<std::uint32_t, 3>;

// The ancestor's errors and the codes that stand for them.
enum class MlxError : std::uint8_t {
  device_not_found,
  command_buffer_error,
  shader_compilation_error,
  buffer_allocation_error,
  residency_set_error,  // never raised: no backend has residency sets
  invalid_argument,
  kernel_not_found,
  io_error,
  safetensors_error,
  quant_config_error,
  unsupported_dtype,
  gguf_parse_error,
};

constexpr ErrorCode error_code(MlxError error) noexcept {
  switch (error) {
    case MlxError::device_not_found:
    case MlxError::kernel_not_found:
      return ErrorCode::not_found;
    case MlxError::command_buffer_error:
      return ErrorCode::submission_failed;
    case MlxError::shader_compilation_error:
      return ErrorCode::kernel_build;
    case MlxError::buffer_allocation_error:
      return ErrorCode::out_of_memory;
    case MlxError::residency_set_error:
    case MlxError::unsupported_dtype:
      return ErrorCode::unsupported;
    case MlxError::invalid_argument:
      return ErrorCode::invalid_argument;
    case MlxError::io_error:
      return ErrorCode::io;
    case MlxError::safetensors_error:
    case MlxError::quant_config_error:
    case MlxError::gguf_parse_error:
      return ErrorCode::parse;
  }
  return ErrorCode::internal;
}

// Totals of the process since reset_counters(); Device::counters() has those of one device.
inline void reset_counters() noexcept { reset_process_counters(); }
inline std::uint64_t sync_count() noexcept { return process_counters().syncs; }
inline std::uint64_t dispatch_count() noexcept { return process_counters().dispatches; }
inline std::uint64_t cmd_buf_count() noexcept { return process_counters().command_buffers; }
inline std::uint64_t barrier_count() noexcept { return process_counters().barriers; }
inline std::uint64_t barrier_total_ns() noexcept { return process_counters().barrier_ns; }
inline std::uint64_t auto_barrier_count() noexcept { return process_counters().automatic_barriers; }
inline std::uint64_t auto_barrier_concurrent_count() noexcept {
  return process_counters().elided_barriers;
}

// A plain value as bytes; valid as long as the value.
template <class T>
std::span<const std::byte> as_bytes(const T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

// What is bound to a slot of a dispatch.
struct KernelArg {
  enum class Kind : std::uint8_t { buffer, buffer_with_offset, bytes };
  Kind kind = Kind::buffer;
  View view{};
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> range_bytes{};
  std::span<const std::byte> data{};

  KernelArg(const View& v) : view(v) {}
  KernelArg(const onepass::Buffer& b) : view(b.view()) {}

  static KernelArg buffer(const View& v) { return KernelArg(v); }
  // `offset` counts from the start of the allocation, whatever the view; without a length the range
  // goes to the end of the allocation.
  static KernelArg buffer_with_offset(const View& v, std::uint64_t offset,
                                      std::optional<std::uint64_t> range_bytes = std::nullopt) {
    KernelArg a(v);
    a.kind = Kind::buffer_with_offset;
    a.offset = offset;
    a.range_bytes = range_bytes;
    return a;
  }
  // At most 4 KiB, copied by encode. The first block of at most 112 bytes is also the kernel's
  // params.
  static KernelArg bytes(std::span<const std::byte> data) {
    KernelArg a{View{}};
    a.kind = Kind::bytes;
    a.data = data;
    return a;
  }
  template <class T>
  requires std::is_trivially_copyable_v<T> &&(!std::is_convertible_v<T, View>)&&(
      !std::is_convertible_v<const T&, std::span<const std::byte>>)static KernelArg
      bytes(const T& value) {
    return bytes(compat::as_bytes(value));
  }
};

using Args = std::vector<std::pair<std::uint32_t, KernelArg>>;  // slot, argument
using Buffers = std::vector<std::pair<std::uint32_t, View>>;    // slot, view
using SharedMemory = std::vector<DispatchExtra::Shared>;        // slot, bytes
using Views = std::vector<View>;

// A binding as a captured node holds it; bytes are the node's own copy.
struct RecordedBinding {
  enum class Kind : std::uint8_t { buffer, bytes };
  Kind kind = Kind::buffer;
  View view{};  // buffer and offset
  std::vector<std::byte> bytes{};
};

// The nine fields of a captured dispatch. The pipeline of a built-in op is 0: its op is in the
// node's dispatch.
struct CapturedDispatch {
  Pipeline pipeline;
  std::vector<std::pair<std::uint32_t, RecordedBinding>> bindings;  // by slot
  Size3 threads_per_grid{1, 1, 1};  // threads or groups, by dispatch_kind
  Size3 threads_per_threadgroup{1, 1, 1};
  SharedMemory threadgroup_memory;
  DispatchKind dispatch_kind = DispatchKind::thread_groups;
  CapturedOpKind op_kind = CapturedOpKind::other;
  std::vector<MemRange> reads, writes;

  static CapturedDispatch of(const CapturedNode& node) {
    CapturedDispatch c;
    const Dispatch& d = node.dispatch;
    c.pipeline = d.kernel;
    c.threads_per_grid = d.grid.grid;
    c.threads_per_threadgroup = d.grid.group;
    c.dispatch_kind = d.grid.kind;
    c.op_kind = node.op_kind;
    c.reads = node.reads;
    c.writes = node.writes;
    for (std::uint32_t i = 0; i < d.n_views; ++i) {
      const std::uint32_t slot = node.extra ? node.extra->slots[i] : i;
      c.bindings.emplace_back(slot, RecordedBinding{.view = d.views[i]});
    }
    if (node.extra) {
      c.threadgroup_memory = node.extra->shared;
      for (const DispatchExtra::Block& b : node.extra->blocks) {
        c.bindings.emplace_back(
            b.slot, RecordedBinding{.kind = RecordedBinding::Kind::bytes, .bytes = b.bytes});
      }
    }
    std::sort(c.bindings.begin(), c.bindings.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return c;
  }
};

// Kernel side: the view in a slot, or null; the inline block in a slot, or null.
template <class T>
T* buffer_at(const KernelArgs& a, std::uint32_t slot) noexcept {
  return a.view_at<T>(slot);
}
template <class T>
const T* bytes_at(const KernelArgs& a, std::uint32_t slot) noexcept {
  return a.block_at<T>(slot);
}

// Device time in seconds.
struct GpuTime {
  double start_s = 0.0, end_s = 0.0;
};

}  // namespace onepass::compat
