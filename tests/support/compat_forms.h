// The ancestor's ways to encode a dispatch and to finish a session, for tests on every device.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <vector>

#include "support/devices.h"
#include "support/float64.h"

namespace onepass::test {

// An encode form over the views in slots 0 and 1; those with a block give the number 7 in slot 2.
struct EncodeForm {
  const char* name;
  DispatchKind kind;
  std::uint32_t shared_bytes, blocks;
  bool tracked;
  std::function<void(compat::CommandEncoder&, KernelId, View in, View out)> encode;
};

inline constexpr compat::Size3 form_grid{6, 1, 1}, form_group{4, 1, 1};
// Each piece takes whole 16 bytes: 112, 32.
inline const compat::SharedMemory form_shared{{0, 100}, {3, 28}};

inline const std::vector<EncodeForm>& encode_forms() {
  static const std::vector<EncodeForm> list{
      {"encode", DispatchKind::threads, 0, 0, false,
       [](auto& e, KernelId k, View i, View o) {
         e.encode(k, {{0, i}, {1, o}}, form_grid, form_group);
       }},
      {"encode_threadgroups", DispatchKind::thread_groups, 0, 0, false,
       [](auto& e, KernelId k, View i, View o) {
         e.encode_threadgroups(k, {{0, i}, {1, o}}, form_grid, form_group);
       }},
      {"encode_threadgroups_with_shared", DispatchKind::thread_groups, 144, 0, false,
       [](auto& e, KernelId k, View i, View o) {
         e.encode_threadgroups_with_shared(k, {{0, i}, {1, o}}, form_shared, form_grid, form_group);
       }},
      {"encode_with_args", DispatchKind::threads, 0, 1, false,
       [](auto& e, KernelId k, View i, View o) {
         e.encode_with_args(k, {{0, i}, {1, o}, {2, compat::KernelArg::bytes(7u)}}, form_grid,
                            form_group);
       }},
      {"encode_threadgroups_with_args", DispatchKind::thread_groups, 0, 1, false,
       [](auto& e, KernelId k, View i, View o) {
         e.encode_threadgroups_with_args(k, {{0, i}, {1, o}, {2, compat::KernelArg::bytes(7u)}},
                                         form_grid, form_group);
       }},
      {"encode_threadgroups_with_args_and_shared", DispatchKind::thread_groups, 144, 1, false,
       [](auto& e, KernelId k, View i, View o) {
         e.encode_threadgroups_with_args_and_shared(
             k, {{0, i}, {1, o}, {2, compat::KernelArg::bytes(7u)}}, form_shared, form_grid,
             form_group);
       }},
      {"dispatch_tracked_threadgroups_with_args", DispatchKind::thread_groups, 0, 1, true,
       [](auto& e, KernelId k, View i, View o) {
         e.dispatch_tracked_threadgroups_with_args(
             k, {{0, i}, {1, o}, {2, compat::KernelArg::bytes(7u)}}, {i}, {o}, form_grid,
             form_group);
       }},
      {"dispatch_tracked_threadgroups_with_args_and_shared", DispatchKind::thread_groups, 144, 1,
       true,
       [](auto& e, KernelId k, View i, View o) {
         e.dispatch_tracked_threadgroups_with_args_and_shared(
             k, {{0, i}, {1, o}, {2, compat::KernelArg::bytes(7u)}}, form_shared, {i}, {o},
             form_grid, form_group);
       }},
      {"dispatch_tracked_threadgroups", DispatchKind::thread_groups, 0, 0, true,
       [](auto& e, KernelId k, View i, View o) {
         e.dispatch_tracked_threadgroups(k, {{0, i}, {1, o}}, {i}, {o}, form_grid, form_group);
       }},
      {"dispatch_tracked_threadgroups_with_shared", DispatchKind::thread_groups, 144, 0, true,
       [](auto& e, KernelId k, View i, View o) {
         e.dispatch_tracked_threadgroups_with_shared(k, {{0, i}, {1, o}}, form_shared, {i}, {o},
                                                     form_grid, form_group);
       }},
      {"dispatch_tracked_threads_with_args", DispatchKind::threads, 0, 1, true,
       [](auto& e, KernelId k, View i, View o) {
         e.dispatch_tracked_threads_with_args(k,
                                              {{0, i}, {1, o}, {2, compat::KernelArg::bytes(7u)}},
                                              {i}, {o}, form_grid, form_group);
       }},
  };
  return list;
}

// A way to finish a session and the passes that it names.
struct FinishForm {
  const char* name;
  bool fuses, reorders;
  std::uint32_t command_buffers;
  std::function<Result<FinishReport>(compat::GraphSession&, std::chrono::steady_clock::time_point)>
      finish;
};

inline const std::vector<FinishForm>& finish_forms() {
  static const std::vector<FinishForm> list{
      {"finish", false, false, 1, [](auto& s, auto) { return s.finish(); }},
      {"finish_with_timing", false, false, 1,
       [](auto& s, auto begin) { return s.finish_with_timing(begin); }},
      {"finish_with_fusion", true, false, 1, [](auto& s, auto) { return s.finish_with_fusion(); }},
      {"finish_with_fusion_and_timing", true, false, 1,
       [](auto& s, auto begin) { return s.finish_with_fusion_and_timing(begin); }},
      {"finish_with_fusion_and_reorder", true, true, 1,
       [](auto& s, auto) { return s.finish_with_fusion_and_reorder(); }},
      {"finish_with_fusion_reorder_and_timing", true, true, 1,
       [](auto& s, auto begin) { return s.finish_with_fusion_reorder_and_timing(begin); }},
      {"finish_optimized", true, true, 2, [](auto& s, auto) { return s.finish_optimized(); }},
      {"finish_optimized_with_timing", true, true, 2,
       [](auto& s, auto begin) { return s.finish_optimized_with_timing(begin); }},
  };
  return list;
}

inline constexpr std::uint32_t links = 100;

// Two chains of additions, recorded one after the other, and a norm with a product that fuse.
class Program {
  static constexpr std::uint32_t rows = 3, dim = 5;

 public:
  explicit Program(const Device& device)
      : device_(device),
        x_(floats(device, {1, 2, 3, 4, 5, -1, 2, -3, 4, -5, 0.5f, 0, 1, 0, 2})),
        scale_(floats(device, std::vector<float>(rows * dim, 0.25f))),
        weight_(floats(device, {1, 2, 3, 4, 5})),
        normed_(*device.allocate(rows * dim * 4)) {
    for (Buffer& b : ends_) b = *device.allocate(4);
  }

  void record(compat::GraphSession& s) {
    const Tensor x = x_.tensor(DType::f32, {rows, dim});
    const Tensor t = s.scratch(DType::f32, {rows, dim});
    s.rms_norm(x, weight_.tensor(DType::f32, {dim}), t, 1e-6f, rows, dim);
    s.elementwise_mul(t.view, scale_.view(), normed_.view(), rows * dim, DType::f32);
    for (Buffer& end : ends_) {
      const View one = x_.view(0, 4);
      for (std::uint32_t i = 0; i < links; ++i) {
        s.elementwise_add(i == 0 ? one : end.view(), one, end.view(), 1, DType::f32);
      }
    }
  }
  static constexpr std::uint32_t dispatches = 2 + 2 * links;

  void expect_results() {
    for (const Buffer& end : ends_) {
      EXPECT_EQ(read_floats(device_, end.view()), std::vector<float>{links + 1});
    }
    const std::vector<float> as_floats = read_floats(device_, x_.view());
    std::vector<double> expected(as_floats.begin(), as_floats.end()), scale(dim);
    for (std::uint32_t c = 0; c < dim; ++c) scale[c] = (c + 1) * 0.25;
    rms_norm(expected, scale, 1e-6);
    const std::vector<float> got = read_floats(device_, normed_.view());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
  }
  std::vector<float> normed() { return read_floats(device_, normed_.view()); }

 private:
  Device device_;
  Buffer x_, scale_, weight_, normed_;
  std::array<Buffer, 2> ends_;
};

}  // namespace onepass::test
