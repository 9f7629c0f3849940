#include "core/kernel_desc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace onepass {
namespace {

using ::testing::HasSubstr;

std::string fault(const KernelDesc& desc) {
  const Status status = check(desc);
  if (status) return {};
  EXPECT_EQ(status.error().code, ErrorCode::kernel_build);
  return status.error().message;
}

// A header, a capability, and the compute entry point "main".
std::vector<std::uint32_t> module() {
  return {0x07230203, 0x00010300, 0, 10, 0, 2u << 16 | 17, 1, 5u << 16 | 15, 5, 4, 0x6e69616d, 0};
}

TEST(KernelDesc, SpirvIsWalkedToItsEntryPoint) {
  KernelDesc desc{.name = "own", .spirv = {.words = module(), .entry = "main"}};
  EXPECT_EQ(fault(desc), "");
  desc.spirv.entry = "mai";
  EXPECT_THAT(fault(desc), HasSubstr("no compute entry point 'mai'"));
  desc.spirv.entry = "";
  EXPECT_THAT(fault(desc), HasSubstr("no compute entry point 'own'"));
  desc.name = "main";
  EXPECT_EQ(fault(desc), "");
  desc.spirv.words[8] = 4;  // a fragment shader
  EXPECT_THAT(fault(desc), HasSubstr("no compute entry point"));
}

TEST(KernelDesc, EveryCutSpirvModuleIsRefused) {
  const std::vector<std::uint32_t> whole = module();
  for (std::size_t n = 1; n < whole.size(); ++n) {
    KernelDesc desc{.name = "main"};
    desc.spirv.words.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_NE(fault(desc), "") << n << " words";
  }
  KernelDesc desc{.name = "main", .spirv = {.words = whole}};
  desc.spirv.words[5] = 17;  // an instruction without length
  EXPECT_THAT(fault(desc), HasSubstr("at word 5 has 0 words, 7 are left"));
  desc.spirv.words = whole;
  desc.spirv.words[0] = 0x03022307;
  EXPECT_THAT(fault(desc), HasSubstr("no SPIR-V module"));
}

TEST(KernelDesc, MslNamesItsFunction) {
  KernelDesc desc{.name = "own", .msl = {.source = "kernel void own() {}"}};
  EXPECT_EQ(fault(desc), "");
  desc.msl.entry = "other";
  EXPECT_THAT(fault(desc), HasSubstr("no function 'other'"));
}

}  // namespace
}  // namespace onepass
