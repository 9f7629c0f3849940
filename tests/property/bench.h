// A device with the buffers that random passes use, kept from pass to pass.
//
//   Bench bench;
//   bench.load(graph);                                  // pool buffers, contents
//   bench.start(RunOrder::reverse, seed, poison);       // contents as before the pass
//   GraphSession s = bench.record(graph);
//   s.finish(options);
//   if (!bench.agrees(expected)) ...
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "onepass/ops.h"
#include "onepass/pool.h"
#include "onepass/session.h"
#include "property/order_backend.h"
#include "property/reference.h"
#include "support/full_run.h"
#include "support/program_builder.h"

namespace onepass::property {

using test::count;
using test::full_run;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Bench {
 public:
  // With another backend than its own, wrap gets it and gives what the device is made of.
  using Wrap = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;
  explicit Bench(const Wrap& wrap = {}, const DeviceOptions& options = {});

  OrderBackend& backend() { return *backend_; }
  const Device& device() const { return device_; }
  const GraphExecutor& executor() const { return executor_; }

  void load(const GraphSpec& graph);
  void start(RunOrder order, std::uint64_t seed, std::byte poison);
  // Order and seed only: memory stays as the last pass left it.
  void set_order(RunOrder order, std::uint64_t seed);
  GraphSession record(const GraphSpec& graph);
  // As above, between other dispatches of the session.
  void record_into(GraphSession& session, const GraphSpec& graph);
  bool agrees(const Outcome& expected);
  // Of the graph that was loaded last.
  View view(const Place& place) const;
  const std::vector<View>& views() const { return buffers_; }
  InputLog& log() { return *log_; }
  // Frees one of the first buffers (callers', imports, weights) and makes another of its size.
  // True if that has the same address.
  bool replace(std::uint32_t buffer);
  std::byte* host(std::uint32_t buffer) const { return hosts_[buffer]; }

 private:
  void encode_hash(GraphSession& session, const OpSpec& op);
  KernelId kernel_for(const OpSpec& op);
  Tensor floats(const Place& place, std::uint32_t rows) const;

  std::unique_ptr<InputLog> log_ = std::make_unique<InputLog>();
  std::unique_ptr<Block> host_block_ = std::make_unique<Block>();
  OrderBackend* backend_ = nullptr;
  Device device_;
  GraphExecutor executor_;
  BufferPool pool_;
  std::vector<Buffer> fixed_;  // callers', imports, weights
  std::vector<Buffer> taken_;  // from the pool, for the loaded graph
  std::vector<View> buffers_;  // by the graph's buffer index; of scratch: set by record
  std::vector<std::byte*> hosts_;
  std::vector<Block> initial_;
  const GraphSpec* graph_ = nullptr;
  KernelId plain_hash_;
  std::map<std::string, KernelId> slot_hashes_;
};

// The program as a plan: one dispatch per node over buffers and scratch of the same sizes.
Result<Plan> compile_program(const Device& device, const GraphExecutor& executor,
                             const test::ProgramBuilder& builder);

// Runs `check(bench, seed)` for seeds [0, n) on up to two threads; the first text that is not empty
// ends the run and is returned with its seed.
std::string for_all_graphs(std::uint32_t n,
                           const std::function<std::string(Bench&, std::uint64_t)>& check);

}  // namespace onepass::property
