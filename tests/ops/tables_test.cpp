#include "core/tables.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "kernel_harness.h"
#include "ops/shared/simd16.h"

namespace onepass::test::tables_test {
namespace {

bool has_cpu_kernel(Op op) {
  for (const KernelRow& row : cpu_kernel_rows()) {
    if (row.op == op) return true;
  }
  return false;
}

// Only what close fusions make of ops that have one may be a GPU's alone.
TEST(Tables, EveryOpHasACpuKernel) {
  for (unsigned i = 0; i < static_cast<unsigned>(Op::count_); ++i) {
    const auto op = static_cast<Op>(i);
    bool found = has_cpu_kernel(op);
    for (const FusionRow& row : fusion_rows()) {
      found = found || (row.fused == op && !row.exact && has_cpu_kernel(row.first) &&
                        has_cpu_kernel(row.second));
    }
    EXPECT_TRUE(found) << info(op).name;
  }
}

TEST(Tables, KernelRowsAreCompleteAndDistinct) {
  using Needs = std::uint32_t;
  std::set<std::pair<std::string, Needs>> names;
  std::set<std::tuple<Op, Format, Needs>> keys;
  for (const KernelRow& row : cpu_kernel_rows()) {
    EXPECT_TRUE(row.launch != nullptr && cpu_function(row) != nullptr) << row.name;
    EXPECT_TRUE(names.insert({row.name, row.needs}).second) << row.name;
    EXPECT_TRUE(keys.insert({row.op, row.format, row.needs}).second) << row.name;
    // The first row a machine can run is taken: the one for every machine must be the last.
    EXPECT_TRUE(row.needs == 0 || !keys.contains({row.op, row.format, 0u})) << row.name;
    EXPECT_EQ(row.kind, info(row.op).captured) << row.name;
    EXPECT_EQ(std::string(row.name).rfind(info(row.op).name, 0), 0u) << row.name;
  }
}

// Also what one set may add: its rows would be slower ones of another, silently.
TEST(Tables, EveryInstructionSetHasTheSameKernels) {
  struct Set {
    const char* name;
    bool is_compiled;
    std::uint32_t needs;
  };
  const Set sets[] = {
#define ISA(isa, condition, feature, ...) {#isa, (condition), feature_bits(Feature::feature)},
#include "ops/shared/isa.def"
#undef ISA
  };
  std::map<std::uint32_t, std::set<std::pair<Op, Format>>> by_needs;
  for (const KernelRow& row : cpu_kernel_rows()) by_needs[row.needs].insert({row.op, row.format});
  const Set* best = nullptr;
  for (const Set& set : sets) {
    EXPECT_EQ(by_needs.contains(set.needs), set.is_compiled) << set.name;
    if (!set.is_compiled) continue;
    if (best == nullptr) best = &set;
    for (const auto& key : by_needs[best->needs]) {
      EXPECT_TRUE(by_needs[set.needs].contains(key))
          << set.name << ": " << info(key.first).name << " " << name(key.second);
    }
    if (set.needs != 0) {
      EXPECT_EQ(by_needs[set.needs].size(), by_needs[best->needs].size()) << set.name;
    }
  }
}

TEST(Tables, ATableIsAllRowsOfItsLists) {
  const KernelRow rows[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  const KernelList all(rows), none;
  const auto names = [](std::initializer_list<KernelList> lists) {
    const std::vector<KernelList> kept(lists);
    const KernelTable table(kept);
    std::string text;
    for (const KernelRow& row : table) text += row.name;
    EXPECT_EQ(table.size(), text.size());
    return text;
  };
  EXPECT_EQ(names({}), "");
  EXPECT_EQ(names({none, none}), "");
  EXPECT_EQ(names({all}), "abc");
  EXPECT_EQ(names({none, all.first(2), none, none, all.last(1), none}), "abc");
  EXPECT_EQ(KernelTable().size(), 0u);
  EXPECT_EQ(KernelTable().begin(), KernelTable().end());
}

TEST(Tables, CodeIsOfOneKind) {
  constexpr const char* variants[] = {"more"};
  const KernelRow cuda = gpu_row(Op::add, DType::f32, "add_f32", nullptr, {"add", variants});
  EXPECT_EQ(cpu_function(cuda), nullptr);
  EXPECT_STREQ(symbol_of(cuda, Launch{}), "add");
  EXPECT_STREQ(symbol_of(cuda, Launch{.variant = 1}), "more");
  EXPECT_EQ(symbol_of(cuda, Launch{.variant = 2}), nullptr);
  EXPECT_STREQ(symbol_of(gpu_row(Op::add, DType::f32, "add_f32", nullptr), Launch{}), "add_f32");
  for (const KernelRow& row : {KernelRow{}, KernelRow{.code = SpirvModule{{}, "main"}},
                               KernelRow{.code = MslFunction{"add"}}}) {
    EXPECT_EQ(cpu_function(row), nullptr);
    EXPECT_EQ(symbol_of(row, Launch{}), nullptr);
  }
}

TEST(Tables, UnknownOpsAndTypesHaveHarmlessRows) {
  EXPECT_EQ(info(Op::custom).n_slots, 0);
  EXPECT_EQ(info(Op::custom).params_bytes, 0);
  EXPECT_EQ(info(DType::count_).ggml_id, -1);
  EXPECT_FALSE(storage_bytes(DType::count_, 1).has_value());
}

TEST(Tables, TypesByNameAndNumber) {
  for (int i = 0; i < static_cast<int>(DType::count_); ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(name(type)), type);
    if (info(type).ggml_id >= 0) {
      EXPECT_EQ(dtype_from_ggml_id(static_cast<std::uint32_t>(info(type).ggml_id)), type);
    }
  }
  EXPECT_FALSE(dtype_from_name("q4").has_value());
  EXPECT_FALSE(dtype_from_ggml_id(36).has_value());
  EXPECT_FALSE(dtype_from_ggml_id(0xffffffffu).has_value());
}

TEST(Tables, StorageBytes) {
  EXPECT_EQ(storage_bytes(DType::q8_0, 4096), 4352u);
  EXPECT_EQ(storage_bytes(DType::q4_0, 64), 36u);
  EXPECT_FALSE(storage_bytes(DType::q4_0, 33).has_value());
  EXPECT_FALSE(storage_bytes(DType::f32, ~std::uint64_t{0} / 2).has_value());
  EXPECT_EQ(storage_bytes(DType::bf16, 0), 0u);
}

TEST(Tables, WhatMayBeReordered) {
  for (OpKind kind : {OpKind::matmul, OpKind::matmul_id, OpKind::norm, OpKind::rope,
                      OpKind::elementwise, OpKind::copy, OpKind::gather}) {
    EXPECT_TRUE(is_reorderable(kind));
  }
  for (OpKind kind : {OpKind::sdpa, OpKind::softmax, OpKind::moe_gate, OpKind::other}) {
    EXPECT_FALSE(is_reorderable(kind));
  }
  const std::map<CapturedOpKind, std::pair<const char*, bool>> kinds = {
      {CapturedOpKind::rms_norm, {"RmsNorm", true}}, {CapturedOpKind::elem_mul, {"ElemMul", true}},
      {CapturedOpKind::elem_add, {"ElemAdd", true}}, {CapturedOpKind::sdpa, {"Sdpa", false}},
      {CapturedOpKind::softmax, {"Softmax", false}}, {CapturedOpKind::other, {"Other", true}},
  };
  for (const auto& [kind, want] : kinds) {
    EXPECT_STREQ(name(kind), want.first);
    EXPECT_EQ(is_reorderable(kind), want.second) << want.first;
  }
}

TEST(Tables, GroupsOfAGrid) {
  using Counts = std::array<std::uint32_t, 3>;
  EXPECT_EQ(Grid::threads({100, 1, 65}, {32, 1, 64}).group_counts(), (Counts{4, 1, 2}));
  EXPECT_EQ(Grid::threads({0xffffffffu, 1, 1}, {2, 1, 1}).group_counts(),
            (Counts{0x80000000u, 1, 1}));
  EXPECT_EQ(Grid::groups({100, 1, 65}, {32, 1, 64}).group_counts(), (Counts{100, 1, 65}));
}

TEST(Tables, FirstFusionIsNormAndMul) {
  ASSERT_GE(fusion_rows().size(), 1u);
  const FusionRow& row = fusion_rows()[0];
  EXPECT_EQ(row.fused, Op::rms_norm);
  EXPECT_STREQ(row.name, "norm_mul");
  EXPECT_TRUE(row.exact);
  EXPECT_NE(row.merge, nullptr);
}

}  // namespace
}  // namespace onepass::test::tables_test
