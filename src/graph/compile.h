// The one way from a recorded list to what a device runs.
//
//   fuse -> lower -> hazards -> order of the launches -> memory -> recording, order, proof
//
// A plan is one part that is replayed; a pass that runs once is one part or two.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/tables.h"
#include "graph/fuse.h"
#include "graph/hazards.h"
#include "graph/lower.h"
#include "graph/nodes.h"
#include "graph/order.h"
#include "graph/schedule.h"

namespace onepass::graph {

struct CompileOptions {
  bool fuse = true;
  bool close_fusions = false;
  Policy policy = Policy::exact;
  // Barriers from the bytes. Without it those that were recorded count (policy recorded only), with
  // `check` also where bytes demand one.
  bool recompute = true;
  bool check = true;
  bool alias = true;
  bool validate = true;
  bool replayed = false;  // many submissions: the device gets the dependencies, not only levels
  BoundView step{};       // StepState bytes that submissions write
};

struct PlacedMemory {
  std::vector<std::shared_ptr<ArenaBlock>> blocks;
  std::vector<BoundView> workspace;  // per Lowered::workspace
  std::vector<PhysicalRange> workspace_ranges;
  BoundView persistent;
  std::uint64_t arena_bytes = 0, unaliased_bytes = 0;
};

// Consecutive launches of the order, ready to be submitted.
struct Part {
  std::shared_ptr<RecordedPass> pass;
  Dependencies dependencies;  // of a replayed part
  std::uint32_t levels = 0;
  std::array<std::uint32_t, 8> group_sizes{};  // bin i: levels of i + 1 dispatches; last: 8 or more
  std::uint64_t validate_ns = 0, record_ns = 0;

  std::uint32_t barriers() const noexcept { return levels == 0 ? 0 : levels - 1; }
};

class Compilation {
 public:
  // Up to memory. The list is rewritten by fusing, and its scratch gets its place; `arena`, where
  // given, is used for it and grown where it is too small. The list must outlive the compilation.
  static Result<Compilation> of(NodeList& recorded, const CompileOptions& options,
                                std::shared_ptr<ArenaBlock>* arena = nullptr);

  // The recorded list, fused.
  NodeList& list() const noexcept { return *list_; }
  const FuseReport& fused() const noexcept { return fused_; }
  const Dag& dag() const noexcept { return dag_; }
  const PlacedMemory& memory() const noexcept { return memory_; }
  std::uint64_t persistent_bytes() const noexcept { return lowered_.persistent_bytes; }
  std::uint32_t moved() const noexcept { return moved_count(lowered_.program(), order_); }

  // Launches and fences in their order.
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(order_.size()); }
  // The position behind the first n dispatches; size() where no dispatch would be left.
  std::uint32_t behind(std::uint64_t n) const noexcept;
  // May be called for several parts at once, from several threads.
  Result<Part> part(std::uint32_t begin, std::uint32_t end) const;

  std::uint64_t fuse_ns = 0, lower_ns = 0, order_ns = 0, memory_ns = 0;

 private:
  Compilation(NodeList& list, const CompileOptions& options) noexcept
      : list_(&list), options_(options) {}
  Status place(std::shared_ptr<ArenaBlock>* arena);
  Status check_closure(HazardWorkspace& workspace) const;
  Groups groups(std::span<const std::uint32_t> order) const;
  Groups groups_between_barriers(std::span<const std::uint32_t> order) const;
  bool is_made_here(const Range& range) const noexcept;
  BoundView bind(const View& view) const noexcept;
  void fill(std::span<const std::uint32_t> order, Recording& out) const;
  Dependencies dependencies_of(std::span<const std::uint32_t> order) const;

  NodeList* list_;
  CompileOptions options_;
  FuseReport fused_;
  Lowered lowered_;
  Dag dag_;  // empty where nothing needs it
  std::vector<std::uint32_t> order_;
  PlacedMemory memory_;
};

// Submits a pass that runs once, in a command buffer that was opened for it. The buffers that the
// list holds are the submission's from now on; after an error they are the list's again.
Result<Submission> submit_once(Part& part, NodeList& list, std::string_view label);

}  // namespace onepass::graph
