// The encode forms, pending state, capture and annotations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "support/compat_forms.h"

namespace onepass::encoder_test {
namespace {

using compat::Args;
using compat::KernelArg;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a kernel saw, written to the buffer in slot 1.
struct Seen {
  std::uint32_t kind, grid, group, tiles, shared_slots, shared_bytes, blocks, in_bytes;
};

void probe(const KernelArgs& a) noexcept {
  if (a.tile != 0) return;
  auto* seen = compat::buffer_at<Seen>(a, 1);
  seen->kind = static_cast<std::uint32_t>(a.grid->kind);
  seen->grid = a.grid->grid[0];
  seen->group = a.grid->group[0];
  seen->tiles = a.tiles;
  seen->shared_slots = static_cast<std::uint32_t>(a.extra->shared.size());
  seen->shared_bytes = a.launch->shared_bytes;
  seen->blocks = static_cast<std::uint32_t>(a.extra->blocks.size());
  seen->in_bytes = static_cast<std::uint32_t>(a.bytes[0]);
}

using Form = test::EncodeForm;
const compat::Size3 grid = test::form_grid, group = test::form_group;

class EncodeForms : public ::testing::TestWithParam<Form> {};

TEST_P(EncodeForms, GiveTheKernelWhatTheySay) {
  const Form& form = GetParam();
  const Device device = test::open_cpu();
  const KernelId kernel = test::add_kernel(device, "probe", probe);
  const Buffer in = *device.allocate(48), out = *device.allocate(sizeof(Seen));
  compat::CommandEncoder encoder(device);
  form.encode(encoder, kernel, in.view(), out.view());
  ASSERT_TRUE(test::is_ok(encoder.commit_and_wait()));
  Seen seen{};
  ASSERT_TRUE(device.read_as<Seen>(out.view(), std::span(&seen, 1)));
  EXPECT_EQ(seen.kind, static_cast<std::uint32_t>(form.kind));
  EXPECT_EQ(seen.grid, 6u);
  EXPECT_EQ(seen.group, 4u);
  EXPECT_EQ(seen.tiles, form.kind == DispatchKind::threads ? 2u : 6u);
  EXPECT_EQ(seen.shared_slots, form.shared_bytes == 0 ? 0u : 2u);
  EXPECT_EQ(seen.shared_bytes, form.shared_bytes);
  EXPECT_EQ(seen.blocks, form.blocks);
  EXPECT_EQ(seen.in_bytes, 48u);
}

TEST_P(EncodeForms, RecordTheirFieldsWhileCapturing) {
  const Form& form = GetParam();
  const Device device = *Device::open("null");
  const KernelId kernel = test::add_kernel(device, "probe", probe);
  const Buffer in = *device.allocate(48), out = *device.allocate(sizeof(Seen));
  compat::CommandEncoder encoder(device);
  encoder.start_capture();
  form.encode(encoder, kernel, in.view(), out.view());
  const auto node = compat::CapturedDispatch::of(encoder.take_capture().value().nodes().at(0));
  EXPECT_EQ(node.pipeline, kernel);
  EXPECT_EQ(node.dispatch_kind, form.kind);
  EXPECT_EQ(node.threads_per_grid, grid);
  EXPECT_EQ(node.threads_per_threadgroup, group);
  EXPECT_EQ(node.threadgroup_memory.size(), form.shared_bytes == 0 ? 0u : 2u);
  ASSERT_EQ(node.bindings.size(), 2u + form.blocks);
  EXPECT_EQ(node.bindings[0].second.view, in.view());
  if (form.tracked) {
    EXPECT_THAT(node.reads, ElementsAre(MemRange::of(in.view())));
    EXPECT_THAT(node.writes, ElementsAre(MemRange::of(out.view())));
  } else {  // every view counts as read and written
    EXPECT_THAT(node.reads, IsEmpty());
    EXPECT_THAT(node.writes, ElementsAre(MemRange::of(in.view()), MemRange::of(out.view())));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EncodeForms, ::testing::ValuesIn(test::encode_forms()),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

class Encode : public ::testing::Test {
 protected:
  Result<Submission> run() { return encoder_.commit(); }
  ErrorCode code() { return encoder_.commit_and_wait().error().code; }
  std::vector<CapturedNode> nodes() { return encoder_.take_capture().value().nodes(); }
  void give(std::initializer_list<View> views) {
    encoder_.native().encode(test::custom(noop_, views));
  }

  Device device_ = test::open_cpu();
  KernelId noop_ = test::add_kernel(device_, "noop", test::nothing);
  test::Buffers b_{device_};
  compat::CommandEncoder encoder_{device_};
};

struct Affine {
  float scale, shift;
};

TEST_F(Encode, SlotsMayHaveGapsAndBlocksMayBeLarge) {
  const KernelId kernel = test::add_kernel(device_, "affine", [](const KernelArgs& a) noexcept {
    const auto& f = *compat::bytes_at<Affine>(a, 9);
    const auto& table = *compat::bytes_at<std::array<float, 1024>>(a, 30);
    const auto* in = compat::buffer_at<const float>(a, 2);
    auto* out = compat::buffer_at<float>(a, 17);
    for (int i = 0; i < 4; ++i) out[i] = in[i] * f.scale + f.shift + table[1023];
  });
  const Buffer in = test::floats(device_, {1, 2, 3, 4}), out = test::floats(device_, {0, 0, 0, 0});
  std::array<float, 1024> table{};  // exactly 4 KiB
  table[1023] = 100.0f;
  {
    const Affine affine{2.0f, 0.5f};
    encoder_.encode_with_args(
        kernel, {{30, KernelArg::bytes(table)}, {17, out}, {9, KernelArg::bytes(affine)}, {2, in}},
        {1, 1, 1}, {1, 1, 1});
    table[1023] = 0.0f;  // encode made its own copy
  }
  ASSERT_TRUE(test::is_ok(encoder_.commit_and_wait()));
  EXPECT_THAT(test::read_floats(device_, out.view()), ElementsAre(102.5f, 104.5f, 106.5f, 108.5f));
}

TEST_F(Encode, FirstBlockIsAlsoTheKernelsParams) {
  const KernelId kernel = *device_.kernels().add({.name = "params",
                                                  .slots = "o",
                                                  .params_bytes = sizeof(Affine),
                                                  .cpu = [](const KernelArgs& a) noexcept {
                                                    a.ptr<float>(0)[0] =
                                                        a.params_as<Affine>().shift;
                                                  }});
  const Buffer out = test::floats(device_, {0});
  encoder_.encode_with_args(kernel, {{0, out}, {1, KernelArg::bytes(Affine{1.0f, 42.0f})}},
                            {1, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(test::is_ok(encoder_.commit_and_wait()));
  EXPECT_THAT(test::read_floats(device_, out.view()), ElementsAre(42.0f));
}

TEST_F(Encode, ABlockAbove4KiBIsALimit) {
  const std::vector<std::byte> block(4097);
  encoder_.encode_with_args(noop_, {{0, KernelArg::bytes(std::span<const std::byte>(block))}},
                            {1, 1, 1}, {1, 1, 1});
  const Status status = encoder_.commit_and_wait();
  EXPECT_EQ(status.error().code, ErrorCode::limit);
  EXPECT_THAT(status.error().message, HasSubstr("4097"));
}

TEST_F(Encode, ASlotBoundTwiceIsRefused) {
  encoder_.encode(noop_, {{3, b_[0]}, {3, b_[1]}}, {1, 1, 1}, {1, 1, 1});
  EXPECT_EQ(code(), ErrorCode::invalid_argument);
}

TEST_F(Encode, SlotsGoUpTo30) {
  encoder_.encode_threadgroups_with_shared(noop_, {{30, b_[0]}}, {{30, 16}}, {1, 1, 1}, {1, 1, 1});
  EXPECT_TRUE(encoder_.status());
  compat::CommandEncoder views(device_), groups(device_);
  views.encode(noop_, {{31, b_[0]}}, {1, 1, 1}, {1, 1, 1});
  groups.encode_threadgroups_with_shared(noop_, {{0, b_[0]}}, {{31, 16}}, {1, 1, 1}, {1, 1, 1});
  for (const compat::CommandEncoder* encoder : {&views, &groups}) {
    EXPECT_EQ(encoder->status().error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(encoder->status().error().message, HasSubstr("slot 31, expected 0 to 30"));
  }
}

TEST_F(Encode, SeventeenViewsAreRefused) {
  for (const std::size_t n : {std::size_t{17}, std::size_t{300}}) {
    compat::CommandEncoder encoder(device_);
    compat::Buffers views;
    for (std::size_t i = 0; i < n; ++i) views.emplace_back(static_cast<std::uint32_t>(i), b_[0]);
    encoder.encode(noop_, views, {1, 1, 1}, {1, 1, 1});
    EXPECT_EQ(encoder.status().error().code, ErrorCode::invalid_argument);
  }
}

TEST_F(Encode, SharedMemoryBeyondTheDeviceIsALimit) {
  const std::uint32_t half = device_.info().max_shared_bytes / 2 + 1;
  encoder_.encode_threadgroups_with_shared(noop_, {}, {{0, half}, {1, half}}, {1, 1, 1}, {1, 1, 1});
  EXPECT_EQ(code(), ErrorCode::limit);
}

TEST_F(Encode, OffsetsAreAbsoluteAndReachToTheEnd) {
  const Buffer b = *device_.allocate(256);
  const View late = b.view(128, 32);
  encoder_.start_capture();
  const auto add = [&](const KernelArg& a) {
    encoder_.encode_with_args(noop_, {{0, a}}, {1, 1, 1}, {1, 1, 1});
  };
  add(KernelArg::buffer(late));
  add(KernelArg::buffer_with_offset(late, 64));
  add(KernelArg::buffer_with_offset(late, 64, 16));
  const auto list = nodes();
  EXPECT_EQ(list[0].dispatch.views[0], late);
  EXPECT_EQ(list[1].dispatch.views[0], b.view(64, 192));
  EXPECT_EQ(list[2].dispatch.views[0], b.view(64, 16));
  add(KernelArg::buffer_with_offset(late, 257));
  EXPECT_EQ(code(), ErrorCode::invalid_argument);
}

TEST_F(Encode, OffsetsIntoScratchKnowItsSize) {
  compat::GraphSession s = compat::GraphExecutor(device_).begin_recorded();
  const Tensor t = s.scratch(DType::f32, {64});
  s.encoder_mut().encode_with_args(noop_, {{0, KernelArg::buffer_with_offset(t.view, 64)}},
                                   {1, 1, 1}, {1, 1, 1});
  EXPECT_EQ(s.encoder_mut().take_capture()->nodes().at(0).dispatch.views[0].bytes, 192u);
}

TEST_F(Encode, SetPipelineSetBufferDispatchThreadsAreOneEncode) {
  const KernelId kernel = test::add_kernel(device_, "add_one", test::add_one);
  const Buffer in = test::floats(device_, {1, 2, 3}), out = test::floats(device_, {0, 0, 0});
  encoder_.set_pipeline(kernel);
  encoder_.set_buffer(0, in.view());
  encoder_.set_buffer(1, out.view());
  device_.reset_counters();
  encoder_.dispatch_threads({3, 1, 1}, {1, 1, 1});
  encoder_.set_buffer(0, out.view());  // the others stay set
  encoder_.dispatch_threads({3, 1, 1}, {1, 1, 1});
  EXPECT_EQ(device_.counters().dispatches, 2u);
  ASSERT_TRUE(test::is_ok(encoder_.commit_and_wait()));
  EXPECT_THAT(test::read_floats(device_, out.view()), ElementsAre(3, 4, 5));
}

TEST_F(Encode, DispatchThreadsWithoutAPipelineIsAnError) {
  encoder_.dispatch_threads({1, 1, 1}, {1, 1, 1});
  EXPECT_EQ(code(), ErrorCode::not_found);
}

TEST_F(Encode, BuiltInKernelsRunByName) {
  struct {
    std::uint32_t n_lo, n_hi;
    float scalar;
    std::uint32_t b_elements;
  } params{4, 0, 0.0f, 0};
  const KernelId add = *device_.kernels().get("add_f32");
  const Buffer a = test::floats(device_, {1, 2, 3, 4}), out = test::floats(device_, {0, 0, 0, 0});
  encoder_.encode_with_args(add, {{0, a}, {1, a}, {2, out}, {3, KernelArg::bytes(params)}},
                            {4, 1, 1}, {4, 1, 1});
  ASSERT_TRUE(test::is_ok(encoder_.commit_and_wait()));
  EXPECT_THAT(test::read_floats(device_, out.view()), ElementsAre(2, 4, 6, 8));
}

TEST_F(Encode, EmptyCommandBufferSucceeds) {
  EXPECT_TRUE(test::is_ok(encoder_.commit_and_wait()));
  EXPECT_EQ(device_.counters().command_buffers, 1u);
  EXPECT_EQ(device_.counters().syncs, 1u);
}

TEST_F(Encode, OwnsAnEncoderOrStandsForASessions) {
  encoder_.encode(noop_, {{0, b_[0]}}, grid, group);
  EXPECT_EQ(device_.counters().dispatches, 1u);
  EXPECT_EQ(encoder_.native().mem_ranges_len(), 1u);
  EXPECT_EQ(std::as_const(encoder_).native().mem_ranges_len(), 1u);
  GraphSession s = GraphExecutor(device_).begin_recorded();
  compat::CommandEncoder borrowed(s.encoder());
  EXPECT_EQ(&borrowed.native(), &s.encoder());
  EXPECT_EQ(&std::as_const(borrowed).native(), &s.encoder());
}

TEST_F(Encode, TheFirstErrorSticks) {
  encoder_.encode(noop_, {{3, b_[0]}, {3, b_[1]}}, grid, group);
  encoder_.dispatch_threads(grid, group);  // would be not_found
  const Status status = encoder_.status();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(code(), ErrorCode::invalid_argument);
}

TEST_F(Encode, AnEncoderThatIsDroppedRunsNothing) {
  const KernelId kernel = test::add_kernel(device_, "add_one", test::add_one, "io");
  const Buffer in = test::floats(device_, {1}), out = test::floats(device_, {0});
  {
    compat::CommandEncoder(device_).encode(kernel, {{0, in.view()}, {1, out.view()}}, grid, group);
  }
  EXPECT_THAT(test::read_floats(device_, out.view()), ElementsAre(0.0f));
}

TEST_F(Encode, NativeHandlesAreNullOnTheCpu) {
  EXPECT_EQ(encoder_.metal_command_buffer(), nullptr);
  const Submission s = *encoder_.commit();
  EXPECT_EQ(encoder_.metal_command_buffer(), nullptr);
  EXPECT_EQ(s.native_handle(), nullptr);
  EXPECT_EQ(device_.native_handle(), nullptr);
  EXPECT_EQ(device_.native_stream(), nullptr);
  EXPECT_EQ(device_.allocate(64)->native_handle(), nullptr);
}

TEST(NativeHandles, AreWhatTheBackendHas) {
  // Its handles are addresses: its own, of its queue and of completions.
  class Handles final : public FaultBackend {
   public:
    Handles() : FaultBackend(make_cpu_backend({})) {}
    void* native_handle(const Allocation* memory) noexcept override {
      return memory != nullptr ? memory->host : static_cast<void*>(this);
    }
    void* native_stream() noexcept override { return &queue_; }
    void* native_submission(const Completion& submission) noexcept override {
      return const_cast<Completion*>(&submission);
    }
    int queue_ = 0;
  };
  auto owned = std::make_unique<Handles>();
  Handles* const backend = owned.get();
  const Device device = test::open_with(std::move(owned));
  EXPECT_EQ(device.native_handle(), backend);
  EXPECT_EQ(device.native_stream(), &backend->queue_);
  const Buffer buffer = *device.allocate(64);
  EXPECT_EQ(buffer.native_handle(), device.map(buffer.view())->data());
  compat::CommandEncoder first(device), second(device);
  EXPECT_EQ(first.metal_command_buffer(), nullptr);
  const Submission a = *first.commit(), b = *second.commit();
  EXPECT_NE(a.native_handle(), nullptr);
  EXPECT_NE(a.native_handle(), b.native_handle());
  EXPECT_EQ(first.metal_command_buffer(), a.native_handle());
  EXPECT_EQ(second.metal_command_buffer(), b.native_handle());
  EXPECT_EQ(Submission().native_handle(), nullptr);
}

TEST_F(Encode, AsBytesViewsAPlainStruct) {
  const Affine value{1.5f, -2.0f};
  const auto bytes = compat::as_bytes(value);
  ASSERT_EQ(bytes.size(), sizeof value);
  EXPECT_EQ(std::memcmp(bytes.data(), &value, sizeof value), 0);
}

TEST_F(Encode, MemRangesAreCountedAndForgotten) {
  give({b_[0]});
  give({b_[1]});
  EXPECT_EQ(encoder_.mem_ranges_len(), 2u);
  encoder_.force_barrier_and_reset_tracker();
  EXPECT_EQ(encoder_.mem_ranges_len(), 0u);
}

TEST_F(Encode, ReplayGivesTheDispatchAtOnceAlsoWhileCapturing) {
  const KernelId kernel = test::add_kernel(device_, "add_one", test::add_one);
  const Buffer in = test::floats(device_, {1, 2}), out = test::floats(device_, {0, 0});
  encoder_.start_capture();
  encoder_.replay_dispatch(kernel, {{0, {.view = in.view()}}, {1, {.view = out.view()}}}, {},
                           {1, 1, 1}, {1, 1, 1}, DispatchKind::thread_groups);
  EXPECT_EQ(encoder_.take_capture()->len(), 0u);
  ASSERT_TRUE(test::is_ok(encoder_.commit_and_wait()));
  EXPECT_THAT(test::read_floats(device_, out.view()), ElementsAre(2, 3));
}

TEST_F(Encode, ReplayKeepsInlineBytes) {
  const KernelId kernel = test::add_kernel(device_, "store", [](const KernelArgs& a) noexcept {
    *compat::buffer_at<float>(a, 0) = *compat::bytes_at<float>(a, 1);
  });
  const Buffer out = test::floats(device_, {0});
  encoder_.start_capture();
  encoder_.encode_with_args(kernel, {{0, out}, {1, KernelArg::bytes(2.5f)}}, grid, group);
  const auto c = compat::CapturedDispatch::of(nodes()[0]);
  encoder_.replay_dispatch(c.pipeline, c.bindings, c.threadgroup_memory, {1, 1, 1}, {1, 1, 1},
                           c.dispatch_kind);
  ASSERT_TRUE(test::is_ok(encoder_.commit_and_wait()));
  EXPECT_THAT(test::read_floats(device_, out.view()), ElementsAre(2.5f));
}

class Pending : public Encode {
 protected:
  std::vector<MemRange> range(std::size_t i) { return {MemRange::of(b_[i])}; }
};

TEST_F(Pending, AnEncodeTakesKindAndRanges) {
  encoder_.start_capture();
  encoder_.set_op_kind(CapturedOpKind::sdpa);
  encoder_.set_pending_buffer_ranges(range(1), range(2));
  give({b_[0]});
  give({b_[0]});
  const auto list = nodes();
  EXPECT_EQ(list[0].op_kind, CapturedOpKind::sdpa);
  EXPECT_EQ(list[0].reads, range(1));
  EXPECT_EQ(list[0].writes, range(2));
  EXPECT_EQ(list[1].op_kind, CapturedOpKind::other);
  EXPECT_THAT(list[1].reads, IsEmpty());
  EXPECT_EQ(list[1].writes, range(0));
}

TEST_F(Pending, ADirectEncodeTakesThemToo) {
  encoder_.set_op_kind(CapturedOpKind::softmax);
  encoder_.set_pending_buffer_ranges(range(1), range(2));
  give({b_[0]});
  encoder_.start_capture();
  give({b_[0]});
  const auto list = nodes();
  EXPECT_EQ(list[0].op_kind, CapturedOpKind::other);
  EXPECT_EQ(list[0].writes, range(0));
}

TEST_F(Pending, ASecondCallReplacesBothLists) {
  encoder_.start_capture();
  encoder_.set_pending_buffer_ranges(range(1), range(2));
  encoder_.set_pending_buffer_ranges({}, range(3));
  give({b_[0]});
  const auto list = nodes();
  EXPECT_THAT(list[0].reads, IsEmpty());
  EXPECT_EQ(list[0].writes, range(3));
}

TEST_F(Pending, OtherCallsLeaveTheListsAlone) {
  encoder_.set_pending_buffer_ranges(range(1), range(2));
  encoder_.memory_barrier();
  encoder_.force_barrier_and_reset_tracker();
  encoder_.start_capture();
  encoder_.memory_barrier();
  encoder_.take_capture();
  encoder_.replay_dispatch(noop_, {{0, {.view = b_[5]}}}, {}, grid, group, DispatchKind::threads);
  ASSERT_TRUE(encoder_.commit_and_wait());
  ASSERT_TRUE(encoder_.commit_labeled("again"));
  encoder_.start_capture();
  give({b_[0]});
  const auto list = nodes();
  EXPECT_EQ(list[0].reads, range(1));
  EXPECT_EQ(list[0].writes, range(2));
}

TEST_F(Pending, ReplayTakesTheKind) {
  const Device profiled = test::open_cpu({.profile = Profile::dispatches});
  const KernelId noop = test::add_kernel(profiled, "noop", test::nothing);
  compat::CommandEncoder encoder(profiled);
  encoder.set_op_kind(CapturedOpKind::sdpa);
  encoder.replay_dispatch(noop, {}, {}, grid, group, DispatchKind::threads);
  encoder.encode(noop, {}, grid, group);
  ASSERT_TRUE(encoder.commit_and_wait());
  const auto samples = profiled.profile().samples;
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].kind, CapturedOpKind::sdpa);
  EXPECT_EQ(samples[1].kind, CapturedOpKind::other);
}

TEST_F(Pending, TrackedDispatchOverridesRangesSetByHand) {
  encoder_.start_capture();
  encoder_.set_pending_buffer_ranges(range(1), range(2));
  encoder_.dispatch_tracked_threadgroups(noop_, {}, {b_[3]}, {b_[4]}, grid, group);
  const auto list = nodes();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].reads, range(3));
  EXPECT_EQ(list[0].writes, range(4));
}

TEST_F(Pending, ADeclaredKernelNeedsNoRanges) {
  const KernelId declared = test::add_kernel(device_, "declared", test::nothing, "io");
  encoder_.start_capture();
  encoder_.set_pending_buffer_ranges(range(5), range(6));
  encoder_.native().encode(test::custom(declared, {b_[0], b_[1]}));
  const auto list = nodes();
  EXPECT_EQ(list[0].reads, range(0));
  EXPECT_EQ(list[0].writes, range(1));
}

using Capture = Pending;

TEST_F(Capture, StartDropsAnEarlierList) {
  EXPECT_FALSE(encoder_.is_capturing());
  EXPECT_FALSE(encoder_.take_capture().has_value());
  encoder_.start_capture();
  EXPECT_TRUE(encoder_.is_capturing());
  give({b_[0]});
  encoder_.start_capture();
  give({b_[1]});
  const auto list = nodes();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].dispatch.views[0], b_[1]);
  EXPECT_FALSE(encoder_.is_capturing());
}

TEST_F(Capture, BarriersBecomeNodes) {
  encoder_.start_capture();
  encoder_.memory_barrier();
  encoder_.force_barrier_and_reset_tracker();
  const auto list = nodes();
  EXPECT_EQ(list[0].kind, CapturedNode::Kind::barrier);
  EXPECT_EQ(list[1].kind, CapturedNode::Kind::fence);
}

TEST_F(Capture, CommitWhileCapturingIsAnError) {
  encoder_.start_capture();
  give({b_[0]});
  EXPECT_EQ(encoder_.commit().error().code, ErrorCode::invalid_state);
  EXPECT_EQ(nodes().size(), 1u);  // nothing was lost
}

using Annotate = Pending;

TEST_F(Annotate, FillsReadsAndWritesEachOnItsOwn) {
  encoder_.start_capture();
  encoder_.set_pending_buffer_ranges(range(1), {});
  give({b_[0]});
  encoder_.annotate_last_dispatch_if_missing(range(2), range(3));
  encoder_.set_pending_buffer_ranges({}, range(4));
  give({b_[0]});
  encoder_.annotate_last_dispatch_if_missing(range(5), range(6));
  const auto list = nodes();
  EXPECT_EQ(list[0].reads, range(1));
  EXPECT_EQ(list[0].writes, range(3));
  EXPECT_EQ(list[1].reads, range(5));
  EXPECT_EQ(list[1].writes, range(4));
}

TEST_F(Annotate, ReplacesAssumedAccess) {
  encoder_.start_capture();
  give({b_[0], b_[1]});
  encoder_.annotate_last_dispatch_if_missing({}, {});
  give({b_[0], b_[1]});
  encoder_.annotate_last_dispatch_if_missing(range(0), range(1));
  give({b_[0], b_[1]});
  encoder_.annotate_last_dispatch_if_missing(range(0), {});
  encoder_.annotate_last_dispatch_if_missing(range(7), range(1));
  const auto list = nodes();
  EXPECT_EQ(list[0].writes.size(), 2u);
  for (const std::size_t i : {1u, 2u}) {
    EXPECT_EQ(list[i].reads, range(0)) << i;
    EXPECT_EQ(list[i].writes, range(1)) << i;
  }
}

TEST_F(Annotate, DoesNothingBehindABarrierOrWithoutCapture) {
  encoder_.annotate_last_dispatch_if_missing(range(1), range(2));
  encoder_.start_capture();
  encoder_.annotate_last_dispatch_if_missing(range(1), range(2));
  give({b_[0]});
  encoder_.memory_barrier();
  encoder_.annotate_last_dispatch_if_missing(range(1), range(2));
  const auto list = nodes();
  EXPECT_THAT(list[0].reads, IsEmpty());
  EXPECT_EQ(list[0].writes, range(0));
}

}  // namespace
}  // namespace onepass::encoder_test
