// What a profiler hears: the test listens in its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

// A program that listens itself defines this variable; the headers must know before they do.
using FindTable = const void* (*)(std::uint32_t);
extern "C" int (*InitializeInjectionNvtx2_fnptr)(FindTable);
#define NVTX_STATIC_INJECTION_IMPL
#include <nvtx3/nvToolsExt.h>

#include "backends/cuda/cuda.h"
#include "backends/fake_cuda_driver.h"
#include "support/recordings.h"

namespace {

std::vector<std::string> heard;
char the_domain;

nvtxDomainHandle_t NVTX_API create(const char* name) {
  heard.push_back(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&the_domain);
}
int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  EXPECT_EQ(static_cast<void*>(domain), &the_domain);
  heard.push_back(std::string("+") + event->message.ascii);
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  heard.push_back("-");
  return 0;
}

int NVTX_API listen(NvtxGetExportTableFunc_t table_of) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

}  // namespace

int (*InitializeInjectionNvtx2_fnptr)(FindTable) = listen;

namespace onepass {
namespace {

using testing::OrderedRecording;

using ::testing::ElementsAre;

constexpr std::array<KernelRow, 1> rows{KernelRow{.name = "hash", .code = CudaSymbol{"hash"}}};
const char image[] = "image";
const std::array<cuda::KernelImage, 1> images{cuda::KernelImage{std::span(rows), image}};

TEST(CudaNvtx, LaunchesAndPassesAreRanges) {
  static const cuda::Driver driver = testing::FakeDriver::table();
  testing::FakeDriver::get().reset();
  ASSERT_TRUE(cuda::nvtx_listens());
  auto opened = cuda::open_device(driver, images, 0, {});
  ASSERT_TRUE(opened) << opened.error().to_string();
  const std::unique_ptr<Backend> backend = std::move(*opened);
  const Allocation memory =
      backend->allocate(8 * testing::cell_bytes, MemoryKind::device, true).value();
  OrderedRecording recording = testing::make_recording(testing::random_program(1, 2, 8, 0.0),
                                                       memory, OrderKind::edges, rows[0]);
  recording.launches[1].label = "second";
  for (const bool replayed : {false, true}) {
    recording.replayed = replayed;
    heard.clear();
    const auto recorded = testing::record(*backend, recording);
    ASSERT_TRUE(recorded) << recorded.error().to_string();
    Completion completion;
    ASSERT_TRUE(backend->submit(**recorded, {}, completion));
    backend->wait(completion);
    if (replayed) {
      EXPECT_THAT(heard, ElementsAre("+pass of 2 launches", "-"));
    } else {
      EXPECT_THAT(heard, ElementsAre("+hash", "-", "+second", "-"));
    }
  }
  backend->release(memory);
}

TEST(CudaNvtx, NestedGroupsAreRangesAroundTheirLaunches) {
  static const cuda::Driver driver = testing::FakeDriver::table();
  testing::FakeDriver::get().reset();
  auto opened = cuda::open_device(driver, images, 0, {});
  ASSERT_TRUE(opened) << opened.error().to_string();
  const std::unique_ptr<Backend> backend = std::move(*opened);
  const Allocation memory =
      backend->allocate(8 * testing::cell_bytes, MemoryKind::device, true).value();
  OrderedRecording recording =
      testing::make_recording(testing::chain_program(6, 1), memory, OrderKind::in_order, rows[0]);
  recording.replayed = false;
  const char* groups[] = {nullptr,       "layer 0/attention", "layer 0/attention",
                          "layer 0/mlp", "layer 01/mlp",      "head"};
  for (std::size_t i = 0; i < 6; ++i) recording.launches[i].group = groups[i];
  const auto recorded = testing::record(*backend, recording);
  ASSERT_TRUE(recorded) << recorded.error().to_string();
  heard.clear();
  Completion completion;
  ASSERT_TRUE(backend->submit(**recorded, {}, completion));
  backend->wait(completion);
  EXPECT_THAT(heard, ElementsAre("+hash", "-",                                 //
                                 "+layer 0", "+attention", "+hash", "-",       //
                                 "+hash", "-",                                 //
                                 "-", "+mlp", "+hash", "-",                    //
                                 "-", "-", "+layer 01", "+mlp", "+hash", "-",  //
                                 "-", "-", "+head", "+hash", "-", "-"));
  backend->release(memory);
}

TEST(CudaNvtx, NoNameIsNoRange) {
  ASSERT_TRUE(cuda::nvtx_listens());
  heard.clear();
  { const cuda::NvtxRange range(nullptr); }
  EXPECT_TRUE(heard.empty());
}

}  // namespace
}  // namespace onepass

#else

TEST(CudaNvtx, WithoutHeadersNobodyListens) { EXPECT_FALSE(onepass::cuda::nvtx_listens()); }

#endif
