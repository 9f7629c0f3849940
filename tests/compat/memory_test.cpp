// Buffers, views, the pool, the kernel registry, devices and the map of errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/features.h"
#include "onepass/pool.h"
#include "support/devices.h"

namespace onepass::memory_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Pool : public ::testing::Test {
 protected:
  Device device_ = test::open_cpu();
  BufferPool pool_{device_};
};

TEST_F(Pool, ReleasedMemoryIsReused) {
  Buffer a = *pool_.take(1024);
  EXPECT_EQ(pool_.in_use_count(), 1u);
  const std::uint64_t live = device_.live_bytes();
  ASSERT_TRUE(pool_.release(std::move(a)));
  EXPECT_EQ(pool_.free_count(), 1u);
  EXPECT_EQ(pool_.free_bytes(), 1024u);
  const Buffer b = *pool_.take(1024);
  EXPECT_EQ(pool_.free_count(), 0u);
  EXPECT_EQ(device_.live_bytes(), live);
}

TEST_F(Pool, ReleaseThenResetGivesTheMemoryOnce) {
  Buffer a = *pool_.take(1024);
  ASSERT_TRUE(pool_.release(std::move(a)));
  pool_.reset();
  EXPECT_EQ(pool_.free_count(), 1u);
  const Buffer b = *pool_.take(1024), c = *pool_.take(1024);
  const float one[] = {1.0f}, two[] = {2.0f};
  ASSERT_TRUE(device_.write_as<float>(b.view(), one));
  ASSERT_TRUE(device_.write_as<float>(c.view(), two));
  EXPECT_EQ(test::read_floats(device_, b.view(0, 4))[0], 1.0f);
}

TEST_F(Pool, ForeignAndReturnedBuffersAreRefused) {
  Buffer foreign = *device_.allocate(3000);
  EXPECT_EQ(pool_.release(std::move(foreign)).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pool_.release(Buffer()).error().code, ErrorCode::invalid_argument);
  BufferPool other(device_);
  Buffer theirs = *other.take(1024);
  EXPECT_EQ(pool_.release(std::move(theirs)).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pool_.free_count(), 0u);
  EXPECT_GE(pool_.take(4096)->bytes(), 4096u);
}

TEST_F(Pool, ASecondOwnerKeepsItsMemory) {
  Buffer a = *pool_.take(1024);
  const Buffer held = a.share();
  EXPECT_EQ(pool_.release(std::move(a)).error().code, ErrorCode::invalid_state);
  pool_.reset();
  EXPECT_EQ(pool_.free_count(), 0u);
  EXPECT_EQ(pool_.in_use_count(), 1u);
  EXPECT_TRUE(device_.write(held.view(), {}));
}

TEST_F(Pool, ViewsFromBeforeAreStale) {
  Buffer a = *pool_.take(1024);
  const View old = a.view();
  a.reset();
  pool_.reset();
  const Buffer again = *pool_.take(1024);
  EXPECT_EQ(device_.read(old, {}).error().code, ErrorCode::stale);
  EXPECT_TRUE(device_.read(again.view(), {}));
}

TEST_F(Pool, ResetTakesBackWhatNobodyHolds) {
  pool_.reset();  // harmless when empty
  Buffer kept = *pool_.take(500);
  { const Buffer dropped = *pool_.take(500); }
  EXPECT_EQ(pool_.in_use_count(), 2u);
  pool_.reset();
  EXPECT_EQ(pool_.in_use_count(), 1u);
  EXPECT_EQ(pool_.free_count(), 1u);
  pool_.clear();
  EXPECT_EQ(pool_.free_count(), 0u);
}

TEST_F(Pool, ClassesWasteAtMostAQuarter) {
  for (std::uint64_t n : {257u, 1000u, 1024u, 1025u, 5000u, 100000u, 1000000u}) {
    const std::uint64_t size = BufferPool::class_bytes(n);
    EXPECT_GE(size, n);
    EXPECT_LE(4 * size, 5 * n + 4) << n;
    EXPECT_EQ(BufferPool::class_bytes(size), size);
  }
  EXPECT_EQ(pool_.take(0).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pool_.take(1000)->bytes(), 1000u);  // as asked for
}

class Views : public ::testing::Test {
 protected:
  Device device_ = test::open_cpu();
  Buffer buffer_ = test::floats(device_, {0, 1, 2, 3, 4, 5, 6, 7});
};

TEST_F(Views, OffsetsAddUp) {
  const View half = buffer_.view(8, 24);
  const View part = *half.sub(8, 8);
  EXPECT_EQ(part.offset, 16u);
  EXPECT_THAT(test::read_floats(device_, part), ElementsAre(4, 5));
  EXPECT_EQ(half.sub(16, 9).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(half.sub(~std::uint64_t{0}, 2).error().code, ErrorCode::invalid_argument);
}

TEST_F(Views, HostAccessHonoursThem) {
  const View part = buffer_.view(8, 8);
  const float values[] = {20, 30};
  ASSERT_TRUE(device_.write_as<float>(part, values));
  EXPECT_THAT(test::read_floats(device_, buffer_.view()), ElementsAre(0, 1, 20, 30, 4, 5, 6, 7));
  const auto mapped = *device_.map(part);
  ASSERT_EQ(mapped.size(), 8u);
  EXPECT_EQ(reinterpret_cast<const float*>(mapped.data())[1], 30.0f);
  const float three[] = {1, 2, 3};
  EXPECT_EQ(device_.write_as<float>(part, three).error().code, ErrorCode::invalid_argument);
  View beyond = part;
  beyond.offset = 28;
  EXPECT_EQ(device_.write_as<float>(beyond, values).error().code, ErrorCode::invalid_argument);
}

TEST_F(Views, KernelsHonourThemToo) {
  const KernelId kernel = test::add_kernel(device_, "add_one", test::add_one, "io");
  CommandEncoder encoder(device_);
  encoder.encode(test::custom(kernel, {buffer_.view(0, 8), buffer_.view(24, 8)}));
  ASSERT_TRUE(encoder.commit_and_wait());
  EXPECT_THAT(test::read_floats(device_, buffer_.view()), ElementsAre(0, 1, 2, 3, 4, 5, 1, 2));
}

TEST_F(Views, SlicesOfOneBufferDoNotConflict) {
  const KernelId kernel = test::add_kernel(device_, "add_one", test::add_one, "io");
  CommandEncoder encoder(device_);
  device_.reset_counters();
  encoder.encode(test::custom(kernel, {buffer_.view(0, 8), buffer_.view(8, 8)}));
  encoder.encode(test::custom(kernel, {buffer_.view(0, 8), buffer_.view(16, 8)}));
  EXPECT_EQ(device_.counters().barriers, 0u);
}

TEST_F(Views, BeyondTheBufferIsRefusedAtEncode) {
  const KernelId any = test::add_kernel(device_, "any", test::nothing);
  CommandEncoder encoder(device_);
  encoder.encode(test::custom(any, {View{buffer_.id(), 24, 16}}));
  EXPECT_EQ(encoder.status().error().code, ErrorCode::invalid_argument);
}

TEST_F(Views, FreshMemoryIsZero) {
  const Buffer fresh = *device_.allocate(4096);
  for (const float f : test::read_floats(device_, fresh.view())) ASSERT_EQ(f, 0.0f);
  EXPECT_EQ(device_.allocate(0).error().code, ErrorCode::invalid_argument);
}

TEST_F(Views, BufferTensorAndDtype) {
  const Buffer b = *device_.allocate(96);
  const Tensor t = b.tensor(DType::f32, {2, 3, 4});
  EXPECT_EQ(b.bytes(), 96u);
  EXPECT_EQ(t.shape.elements(), 24u);
  EXPECT_EQ(t.view, b.view());
  const std::pair<DType, std::uint32_t> types[] = {
      {DType::f32, 4}, {DType::f16, 2}, {DType::bf16, 2}, {DType::u8, 1},
      {DType::u16, 2}, {DType::u32, 4}, {DType::i32, 4}};
  for (const auto& [type, bytes] : types) {
    EXPECT_EQ(info(type).block_bytes, bytes);
    EXPECT_EQ(dtype_from_name(name(type)), type);
  }
}

class Registry : public ::testing::Test {
 protected:
  Device device_ = test::open_cpu();
  KernelRegistry& kernels_ = device_.kernels();
};

TEST_F(Registry, BuildsOnFirstUseAndCaches) {
  EXPECT_FALSE(kernels_.is_cached("rms_norm_f32"));
  const KernelId a = *kernels_.get("rms_norm_f32");
  EXPECT_TRUE(kernels_.is_cached("rms_norm_f32"));
  EXPECT_EQ(kernels_.cached_count(), 1u);
  EXPECT_EQ(*kernels_.get("rms_norm_f32"), a);
  EXPECT_EQ(kernels_.cached_count(), 1u);
  EXPECT_EQ(kernels_.label(a), "rms_norm_f32");
}

TEST_F(Registry, UnknownNamesAreNotFound) {
  const Error e = kernels_.get("no_such_kernel").error();
  EXPECT_EQ(e.code, ErrorCode::not_found);
  EXPECT_THAT(e.message, HasSubstr("no_such_kernel"));
}

TEST_F(Registry, SpecializationsDoNotDependOnOrder) {
  test::add_kernel(device_, "tile", test::nothing);
  const SpecValue ab[] = {{0, 4}, {1, 8}}, ba[] = {{1, 8}, {0, 4}}, twice[] = {{0, 1}, {0, 2}};
  const KernelId a = *kernels_.get("tile", ab);
  EXPECT_EQ(*kernels_.get("tile", ba), a);
  EXPECT_EQ(kernels_.label(a), "tile|0:i4|1:i8");
  EXPECT_EQ(kernels_.get("tile", twice).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(kernels_.is_cached("tile"));  // the plain one was not asked for
}

TEST_F(Registry, ReplacingDropsEveryBuildOfThatName) {
  const auto returns = [](float v) -> CpuKernelFn {
    return v == 1.0f ? CpuKernelFn([](const KernelArgs& a) noexcept { *a.ptr<float>(0) = 1; })
                     : CpuKernelFn([](const KernelArgs& a) noexcept { *a.ptr<float>(0) = 2; });
  };
  const SpecValue spec[] = {{0, 1}};
  test::add_kernel(device_, "k", returns(1.0f), "o");
  test::add_kernel(device_, "k2", test::nothing);
  const KernelId old_plain = *kernels_.get("k"), old_spec = *kernels_.get("k", spec);
  ASSERT_TRUE(kernels_.get("k2"));
  test::add_kernel(device_, "k", returns(2.0f), "o");
  EXPECT_FALSE(kernels_.is_cached("k"));
  EXPECT_FALSE(kernels_.is_cached("k|0:i1"));
  EXPECT_TRUE(kernels_.is_cached("k2"));
  EXPECT_NE(*kernels_.get("k", spec), old_spec);

  const Buffer out = test::floats(device_, {0});
  const auto run = [&](KernelId id) {
    CommandEncoder encoder(device_);
    encoder.encode(test::custom(id, {out.view()}));
    EXPECT_TRUE(encoder.commit_and_wait());
    return test::read_floats(device_, out.view())[0];
  };
  EXPECT_EQ(run(*kernels_.get("k")), 2.0f);
  EXPECT_EQ(run(old_plain), 1.0f);  // what was recorded stays
}

TEST_F(Registry, PrewarmBuildsAList) {
  const std::string_view names[] = {"add_f32", "mul_f32"};
  ASSERT_TRUE(kernels_.prewarm(names));
  EXPECT_EQ(kernels_.cached_count(), 2u);
  const std::string_view bad[] = {"add_f32", "nope"};
  EXPECT_EQ(kernels_.prewarm(bad).error().code, ErrorCode::not_found);
}

TEST_F(Registry, EveryBuiltInNameBuilds) {
  const std::size_t built_in = kernels_.source_count();
  EXPECT_GT(built_in, 20u);
  for (const KernelRow& row : cpu_kernel_rows()) EXPECT_TRUE(kernels_.get(row.name)) << row.name;
  test::add_kernel(device_, "own", test::nothing);
  EXPECT_EQ(kernels_.source_count(), built_in + 1);
}

TEST_F(Registry, BadDescriptionsAreRefused) {
  const auto code = [&](const KernelDesc& d) { return kernels_.add(d).error().code; };
  EXPECT_EQ(code({.name = "", .cpu = test::nothing}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.name = "a|b", .cpu = test::nothing}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.name = "a", .slots = "iz", .cpu = test::nothing}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.name = "add_f32", .cpu = test::nothing}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.name = "a", .params_bytes = 113, .cpu = test::nothing}),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code({.name = "a"}), ErrorCode::kernel_build);
}

TEST(AncestorErrors, HaveCodes) {
  using E = compat::MlxError;
  using C = ErrorCode;
  const std::pair<E, C> map[] = {{E::device_not_found, C::not_found},
                                 {E::command_buffer_error, C::submission_failed},
                                 {E::shader_compilation_error, C::kernel_build},
                                 {E::buffer_allocation_error, C::out_of_memory},
                                 {E::residency_set_error, C::unsupported},
                                 {E::invalid_argument, C::invalid_argument},
                                 {E::kernel_not_found, C::not_found},
                                 {E::io_error, C::io},
                                 {E::safetensors_error, C::parse},
                                 {E::quant_config_error, C::parse},
                                 {E::unsupported_dtype, C::unsupported},
                                 {E::gguf_parse_error, C::parse}};
  std::set<E> seen;
  for (const auto& [error, code] : map) {
    EXPECT_EQ(compat::error_code(error), code);
    EXPECT_EQ(make_error(code, "x").is_transient(), error == E::command_buffer_error);
    seen.insert(error);
  }
  EXPECT_EQ(seen.size(), 12u);
}

TEST(AncestorErrors, AreRaisedWhereTheAncestorsWere) {
  using E = compat::MlxError;
  EXPECT_EQ(Device::open("gpu").error().code, compat::error_code(E::device_not_found));
  test::FaultDevice d;
  d.fault->arm({.call = BackendCall::allocate});
  EXPECT_EQ(d.device.allocate(64).error().code, compat::error_code(E::buffer_allocation_error));
  EXPECT_EQ(d.device.kernels().get("x").error().code, compat::error_code(E::kernel_not_found));
  EXPECT_EQ(d.device.kernels().add({.name = "x"}).error().code,
            compat::error_code(E::shader_compilation_error));
  EXPECT_EQ(d.device.allocate(0).error().code, compat::error_code(E::invalid_argument));
}

TEST(Options, DefaultsHaveNoSurprises) {
  const Device plain = *Device::open("null");
  EXPECT_EQ(plain.options().barriers, Barriers::automatic);
  EXPECT_EQ(plain.options().retain, Retain::submission);
  EXPECT_EQ(plain.options().profile, Profile::none);
  EXPECT_FALSE(plain.options().serial);
  EXPECT_FALSE(plain.options().time_barriers);
  // Features are known from the start.
  DeviceInfo info = plain.info();
  info.features = feature_bits(Feature::f16);
  EXPECT_EQ(feature_names(info), std::vector<std::string>{"f16"});
}

TEST(Options, TheEnvironmentChangesNothing) {
  for (const char* name :
       {"HF2Q_FORCE_SERIAL_DISPATCH", "HF2Q_AUTO_BARRIER", "MLX_PROFILE_CB", "MLX_PROFILE_DISPATCH",
        "MLX_PROFILE_BARRIERS", "MLX_UNRETAINED_REFS", "HF2Q_NO_RESIDENCY"}) {
    setenv(name, "1", 1);
  }
  const Device device = *Device::open("null");
  EXPECT_FALSE(device.options().serial);
  EXPECT_EQ(device.options().profile, Profile::none);
  EXPECT_EQ(device.options().retain, Retain::submission);
  EXPECT_FALSE(device.options().time_barriers);
  CommandEncoder encoder(device);
  ASSERT_TRUE(encoder.commit_and_wait("x"));
  EXPECT_TRUE(device.profile().submissions.empty());
}

TEST(Options, CommandBuffersAreBoundedAndTyped) {
  const Device device = *Device::open("null", {.command_buffers = 2});
  const KernelId noop = test::add_kernel(device, "noop", test::nothing);
  CommandEncoder a(device), b(device), c(device);
  for (CommandEncoder* e : {&a, &b, &c}) e->encode(test::custom(noop, {}));
  EXPECT_TRUE(a.status());
  EXPECT_EQ(c.status().error().code, ErrorCode::limit);
  ASSERT_TRUE(a.commit_and_wait());
  CommandEncoder d(device);
  d.encode(test::custom(noop, {}));
  EXPECT_TRUE(d.commit_and_wait());
}

}  // namespace
}  // namespace onepass::memory_test
