// Callers' kernels on a recorded driver: what is loaded and launched, byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/callers_kernel.h"
#include "backends/cuda/cuda.h"
#include "backends/fake_cuda_driver.h"
#include "core/device_state.h"
#include "onepass/ops.h"
#include "support/temp_folder.h"

namespace onepass::cuda_callers_test {
namespace {

using ::testing::ElementsAre;
using testing::FakeDriver;
using testing::FakeNode;
using ::testing::HasSubstr;

constexpr std::uint32_t elements = 1000;
constexpr std::size_t table_bytes = max_block_bytes;

class CudaCallers : public ::testing::Test {
 protected:
  void SetUp() override {
    fake().reset();
    static const cuda::Driver table = FakeDriver::table();
    auto backend = cuda::open_device(table, cuda::kernel_images(), 0, {});
    ASSERT_TRUE(backend);
    auto state = DeviceState::create(std::move(*backend), {});
    ASSERT_TRUE(state);
    device.emplace(std::move(*state));
    x = *device->allocate(4 * elements);
    y = *device->allocate(4 * elements);
  }
  void TearDown() override {
    close();
    fake().reset();
  }
  void close() {
    x = Buffer();
    y = Buffer();
    device.reset();
    EXPECT_EQ(fake().live(), 0u);
  }
  static FakeDriver& fake() { return FakeDriver::get(); }

  Result<KernelId> add(std::string image) {
    KernelDesc desc{.name = "mix", .slots = "io", .params_bytes = sizeof(MixParams)};
    desc.cuda = {.image = std::move(image), .entry = "test_mix"};
    return device->kernels().add(desc);
  }

  // add, mix, mix, mul; block b of dispatch i holds the byte 16 i + b.
  void encode(GraphSession& s, KernelId kernel) {
    const Tensor in = x.tensor(DType::f32, {elements}), out = y.tensor(DType::f32, {elements});
    const Tensor a = s.scratch(DType::f32, {elements}), b = s.scratch(DType::f32, {elements}),
                 c = s.scratch(DType::f32, {elements});
    ops::add(s, {.a = in, .b = in, .out = a});
    for (const int i : {1, 2}) {
      DispatchExtra extra;
      extra.slots[0] = mix_in;
      extra.slots[1] = mix_out;
      const auto filled = [&](int block) {
        return std::vector<std::byte>(table_bytes, static_cast<std::byte>(16 * i + block));
      };
      extra.blocks = {{mix_picks, filled(1)}, {mix_factors, filled(2)}};
      extra.shared = {{mix_picked, mix_group * 4 + 4}, {mix_scaled, mix_group * 4}};
      Dispatch d = make_dispatch(Op::custom);
      d.kernel = kernel;
      d.grid = Grid::threads({elements, 1, 1}, {mix_group, 1, 1});
      d.extra = &extra;
      d.set_params(MixParams{0.5f});
      d.bind(i == 1 ? a.view : b.view, Access::read);
      d.bind(i == 1 ? b.view : c.view, Access::write);
      s.encode(d);
    }
    ops::mul(s, {.a = c, .b = in, .out = out});
  }

  // The argument of dispatch i, with the offsets of the written ABI.
  static void check_arguments(const FakeNode& node, int i, const void* in, const void* out) {
    EXPECT_EQ(node.function, "test_mix");
    EXPECT_EQ(node.params.gridDimX, 16u);
    EXPECT_EQ(node.params.gridDimY, 1u);
    EXPECT_EQ(node.params.blockDimX, mix_group);
    EXPECT_EQ(node.params.sharedMemBytes, 272u + 256u);
    std::array<unsigned char, 928> want{};
    const auto put = [&](std::size_t at, auto value) {
      std::memcpy(want.data() + at, &value, sizeof value);
    };
    const CudaKernelArgs& got = node.callers_args;
    put(0, 0.5f);
    const auto put_slot = [&](unsigned slot, const void* address, std::uint64_t bytes) {
      put(112 + 8 * slot, address);
      put(360 + 8 * slot, bytes);
    };
    put_slot(mix_in, in, 4 * elements);
    put_slot(mix_out, out, 4 * elements);
    // Where the blocks are is the backend's choice; what is there is not.
    put_slot(mix_picks, got.slots[mix_picks], table_bytes);
    put_slot(mix_factors, got.slots[mix_factors], table_bytes);
    put(656, elements);
    put(660, 1u);
    put(664, 1u);
    put(668, mix_group);
    put(672, 1u);
    put(676, 1u);
    put(680 + 4 * mix_picked, 0u);
    put(680 + 4 * mix_scaled, 272u);
    put(804 + 4 * mix_picked, mix_group * 4 + 4);
    put(804 + 4 * mix_scaled, mix_group * 4);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&got);
    for (std::size_t at = 0; at < want.size(); ++at) {
      ASSERT_EQ(bytes[at], want[at]) << "byte " << at;
    }
    for (const auto& [slot, block] : {std::pair{mix_picks, 1}, std::pair{mix_factors, 2}}) {
      const auto address = reinterpret_cast<std::uintptr_t>(got.slots[slot]);
      EXPECT_EQ(address % 16, 0u);
      const std::vector<unsigned char> filled(table_bytes,
                                              static_cast<unsigned char>(16 * i + block));
      ASSERT_NE(address, 0u);
      EXPECT_EQ(std::memcmp(got.slots[slot], filled.data(), table_bytes), 0);
    }
  }

  static void check_pass(std::span<const FakeNode> nodes) {
    ASSERT_EQ(nodes.size(), 4u);
    EXPECT_EQ(nodes[0].function, "add_f32");
    EXPECT_EQ(nodes[3].function, "mul_f32");
    const void* between = nodes[1].callers_args.slots[mix_out];
    EXPECT_NE(between, nullptr);
    check_arguments(nodes[1], 1, nodes[0].args.views[2], between);
    check_arguments(nodes[2], 2, between, nodes[3].args.views[0]);
  }

  void check_session_and_plan(KernelId kernel) {
    const GraphExecutor executor(*device);
    GraphSession s = executor.begin_recorded();
    encode(s, kernel);
    ASSERT_TRUE(s.finish({.fuse = false}));
    check_pass(fake().direct);
    GraphSession recorded = executor.begin_recorded();
    encode(recorded, kernel);
    PlanOptions options;
    options.fuse = false;
    auto plan = recorded.compile(options);
    ASSERT_TRUE(plan) << plan.error().to_string();
    for (std::size_t run = 1; run <= 2; ++run) {
      ASSERT_TRUE(plan->run());
      ASSERT_EQ(fake().launched.size(), run);
      check_pass(fake().launched.back().nodes);
    }
  }

  std::optional<Device> device;
  Buffer x, y;
};

TEST_F(CudaCallers, ArgumentsAreThoseOfTheWrittenAbi) {
  const auto kernel = add("PTX");
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  EXPECT_THAT(fake().images, ElementsAre("PTX"));
  check_session_and_plan(*kernel);
}

TEST_F(CudaCallers, WithoutExtraArgumentsViewsAreSlots) {
  const KernelId kernel = *add("PTX");
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = kernel;
  d.grid = Grid::groups({3, 2, 1}, {32, 4, 1});
  d.set_params(MixParams{1.0f});
  d.bind(x.view(8, 16), Access::read);
  d.bind(y.view(), Access::write);
  GraphSession s = GraphExecutor(*device).begin();
  s.encode(d);
  ASSERT_TRUE(s.finish());
  ASSERT_EQ(fake().direct.size(), 1u);
  const CudaKernelArgs& args = fake().direct[0].callers_args;
  EXPECT_EQ(args.bytes[0], 16u);
  EXPECT_EQ(args.bytes[1], 4 * elements);
  EXPECT_NE(args.slots[0], nullptr);
  EXPECT_EQ(args.slots[2], nullptr);
  EXPECT_THAT(args.threads, ElementsAre(96u, 8u, 1u));
  EXPECT_THAT(args.group, ElementsAre(32u, 4u, 1u));
}

TEST_F(CudaCallers, CodeThatDoesNotBuildBringsTheCompilersLog) {
  fake().compiler_log = "ptxas application ptx input, line 3; fatal : Unknown symbol 'q'";
  const auto kernel = add("nonsense");
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::kernel_build);
  EXPECT_THAT(kernel.error().message, HasSubstr("line 3; fatal : Unknown symbol 'q'"));
  EXPECT_THAT(kernel.error().message, HasSubstr("'mix'"));
  fake().compiler_log.clear();
  EXPECT_TRUE(add("PTX"));
}

TEST_F(CudaCallers, EveryFailedCallIsAnErrorAndLeaksNothing) {
  const auto use = [&]() -> Status {
    ONEPASS_ASSIGN(const KernelId kernel, add("PTX"));
    GraphSession s = GraphExecutor(*device).begin();
    encode(s, kernel);
    ONEPASS_TRY(s.finish());
    return {};
  };
  std::set<std::string> seen;
  for (std::uint64_t calls = 0;; ++calls) {
    close();
    SetUp();
    fake().fail_next(CUDA_ERROR_INVALID_VALUE, calls);
    const Status status = use();
    const bool failed = fake().failed();
    if (failed) seen.insert(fake().failed_call());
    // Without its end event a submission is waited for instead.
    if (failed && fake().failed_call() != "cuEventRecord") {
      EXPECT_FALSE(status) << fake().failed_call();
    }
    if (!failed) break;
  }
  for (const char* call : {"cuModuleLoadDataEx", "cuModuleGetFunction", "cuMemcpyHtoDAsync"}) {
    EXPECT_TRUE(seen.count(call)) << call;
  }
}

TEST_F(CudaCallers, OtherParametersAreRefused) {
  using Sizes = std::vector<std::size_t>;
  for (const Sizes& sizes : {Sizes{}, Sizes{416}, Sizes{sizeof(CudaKernelArgs), 4}}) {
    fake().parameters = sizes;
    const auto kernel = add("PTX");
    ASSERT_FALSE(kernel);
    EXPECT_EQ(kernel.error().code, ErrorCode::kernel_build);
    EXPECT_THAT(kernel.error().message, HasSubstr("onepass::CudaKernelArgs of 928"));
  }
}

TEST_F(CudaCallers, AGridBeyondTheCardsIsALimit) {
  const KernelId kernel = *add("PTX");
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = kernel;
  d.grid = Grid::groups({1, 65536, 1}, {32, 1, 1});
  d.set_params(MixParams{});
  d.bind(x.view(), Access::read);
  d.bind(y.view(), Access::write);
  GraphSession s = GraphExecutor(*device).begin();
  s.encode(d);
  const auto report = s.finish();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::limit);
  EXPECT_THAT(report.error().message, HasSubstr("65536 groups in dimension 1"));
}

#ifdef ONEPASS_TEST_NVCC
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(CudaCallers, TheCompilersPtxOfTheSameSourceFits) {
  const test::TempFolder folder;
  const std::string nvcc = ONEPASS_TEST_NVCC, source = ONEPASS_SOURCE_DIR;
  const std::string ptx = (folder.path() / "kernel.ptx").string();
  const auto run = [&](const std::string& command) {
    const std::string log = (folder.path() / "log").string();
    EXPECT_EQ(std::system((command + " > " + log + " 2>&1").c_str()), 0) << text_of(log);
  };
  for (const char* file :
       {"/examples/snippets/cuda_kernel.cu", "/tests/backends/callers_kernel.cu"}) {
    run(nvcc + " -ptx -arch=compute_80 -I " + source + "/include -I " + source + "/tests -o " +
        ptx + " " + source + file);
    for (const char* arch : {"sm_80", "sm_90"}) {
      run(nvcc.substr(0, nvcc.rfind('/')) + "/ptxas -arch=" + arch + " -o " +
          (folder.path() / "kernel.cubin").string() + " " + ptx);
    }
  }
  const std::string text = text_of(ptx);
  EXPECT_THAT(text, HasSubstr(".visible .entry test_mix("));
  EXPECT_THAT(text, HasSubstr(".param .align 16 .b8 test_mix_param_0[928]"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("test_mix_param_1")));
  const auto kernel = add(text);
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  EXPECT_THAT(fake().images, ElementsAre(text));
  check_session_and_plan(*kernel);
}
#endif

}  // namespace
}  // namespace onepass::cuda_callers_test
