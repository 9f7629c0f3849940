#include "property/bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "core/device_state.h"
#include "ops/norm/params.h"

namespace onepass::property {
namespace {

Device open_device(const Bench::Wrap& wrap, const DeviceOptions& options, OrderBackend*& order) {
  auto own = std::make_unique<OrderBackend>();
  order = own.get();
  std::unique_ptr<Backend> backend = std::move(own);
  if (wrap) backend = wrap(std::move(backend));
  Result<std::shared_ptr<DeviceState>> state = DeviceState::create(std::move(backend), options);
  return Device(std::move(*state));
}

// Tiles as the dispatch's grid says: the default launch.
Grid tiles_grid(std::uint32_t tiles) { return Grid::groups({tiles, 1, 1}, {1, 1, 1}); }

}  // namespace

Bench::Bench(const Wrap& wrap, const DeviceOptions& options)
    : device_(open_device(wrap, options, backend_)), executor_(device_), pool_(device_) {
  for (std::uint32_t i = 0; i < n_caller_buffers; ++i) fixed_.push_back(*device_.allocate(256));
  const std::span<std::byte> host(host_block_->bytes);
  fixed_.push_back(*device_.import_host(host.subspan(0, 256)));
  fixed_.push_back(*device_.import_host(host.subspan(import_base, 256)));
  fixed_.push_back(*device_.allocate(128));
  plain_hash_ = *device_.kernels().add(
      {.name = "hash", .cpu = hash_kernel, .user = log_.get(), .kind = CapturedOpKind::elem_add});
}

void Bench::load(const GraphSpec& graph) {
  graph_ = &graph;
  initial_ = initial_memory(graph);
  taken_.clear();
  pool_.reset();
  buffers_.resize(graph.buffers.size());
  hosts_.assign(graph.buffers.size(), nullptr);
  for (std::uint32_t i = 0; i < graph.buffers.size(); ++i) {
    if (graph.buffers[i].store == Store::scratch) continue;
    if (graph.buffers[i].store == Store::pool) {
      taken_.push_back(*pool_.take(graph.buffers[i].bytes));
      buffers_[i] = taken_.back().view();
    } else {
      buffers_[i] = fixed_[i].view();
    }
    hosts_[i] = device_.map(buffers_[i])->data();
  }
  // Immutable for good, so its contents are written around the API.
  std::memcpy(hosts_[weights_buffer], initial_[graph.buffers[weights_buffer].memory].bytes.data(),
              128);
  (void)fixed_[weights_buffer].set_immutable();
}

void Bench::start(RunOrder order, std::uint64_t seed, std::byte poison) {
  set_order(order, seed);
  log_->hashes.fill(0);
  for (std::uint32_t i = 0; i < graph_->buffers.size(); ++i) {
    const BufferSpec& b = graph_->buffers[i];
    if (b.store == Store::caller) {
      std::memcpy(hosts_[i], initial_[b.memory].bytes.data(), b.bytes);
    } else if (b.store == Store::imported && b.base == 0) {
      *host_block_ = initial_[b.memory];
    } else if (b.store == Store::pool) {
      std::memset(hosts_[i], static_cast<int>(poison), b.bytes);
    }
  }
  backend_->poison(poison);
}

void Bench::set_order(RunOrder order, std::uint64_t seed) {
  backend_->set_order(order);
  backend_->reseed(seed);
}

bool Bench::replace(std::uint32_t i) {
  const std::byte* const before = device_.map(fixed_[i].view())->data();
  const std::uint64_t bytes = fixed_[i].bytes();
  fixed_[i].reset();
  (void)device_.fence();  // gives the memory back
  if (i >= n_caller_buffers && i < weights_buffer) {
    const std::span<std::byte> host(host_block_->bytes);
    fixed_[i] = *device_.import_host(host.subspan(i == n_caller_buffers ? 0 : import_base, bytes));
  } else {
    fixed_[i] = *device_.allocate(bytes);
  }
  return device_.map(fixed_[i].view())->data() == before;
}

View Bench::view(const Place& p) const {
  return View{buffers_[p.buffer].buffer, buffers_[p.buffer].offset + p.offset, p.bytes};
}

Tensor Bench::floats(const Place& p, std::uint32_t rows) const {
  return tensor(view(p), DType::f32, {rows, p.bytes / 4 / rows});
}

KernelId Bench::kernel_for(const OpSpec& op) {
  if (op.declare != Declare::slots) return plain_hash_;
  std::string slots;
  for (std::uint32_t i = 0; i < op.n; ++i) {
    slots += op.access[i] == Access::read ? 'i' : op.access[i] == Access::write ? 'o' : 'x';
  }
  KernelId& id = slot_hashes_[slots];
  if (!id) {
    id = *device_.kernels().add({.name = "hash_" + slots,
                                 .slots = slots,
                                 .params_bytes = sizeof(HashParams),
                                 .cpu = hash_kernel,
                                 .user = log_.get(),
                                 .kind = CapturedOpKind::other});
  }
  return id;
}

void Bench::encode_hash(GraphSession& session, const OpSpec& op) {
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = kernel_for(op);
  d.grid = tiles_grid(op.tiles);
  d.set_params(hash_params(op));
  std::array<View, max_operands> read, written;
  std::size_t n_read = 0, n_written = 0;
  for (std::uint32_t i = 0; i < op.n; ++i) {
    const View v = view(op.places[i]);
    d.bind(v, op.access[i]);
    if (reads(op.access[i])) read[n_read++] = v;
    if (writes(op.access[i])) written[n_written++] = v;
  }
  if (op.declare == Declare::between) {
    session.barrier_between({read.data(), n_read}, {written.data(), n_written});
  }
  session.encode(d);
}

GraphSession Bench::record(const GraphSpec& graph) {
  GraphSession session = executor_.begin_recorded();
  record_into(session, graph);
  return session;
}

void Bench::record_into(GraphSession& session, const GraphSpec& graph) {
  for (std::uint32_t i = 0; i < graph.buffers.size(); ++i) {
    const BufferSpec& b = graph.buffers[i];
    if (b.store == Store::scratch) buffers_[i] = session.scratch(DType::f32, {b.bytes / 4}).view;
  }
  for (const Place& d : graph.discards) session.discard(view(d));
  for (const OpSpec& op : graph.ops) {
    switch (op.type) {
      case OpType::hash:
        encode_hash(session, op);
        break;
      case OpType::rms_norm: {
        const Tensor weight = floats(op.places[1], 1);
        ops::rms_norm(session, {.x = floats(op.places[0], op.rows),
                                .weight = tensor(weight.view, DType::f32, {weight.shape.last()}),
                                .out = floats(op.places[2], op.rows)});
        break;
      }
      case OpType::mul:
        ops::mul(session, {.a = floats(op.places[0], op.rows),
                           .b = floats(op.places[1], op.rows),
                           .out = floats(op.places[2], op.rows)});
        break;
      case OpType::rms_norm_mul: {
        Dispatch d = make_dispatch(Op::rms_norm);
        d.set_params(ops::RmsNormParams{ops::form_product, op.rows,
                                        op.places[0].bytes / 4 / op.rows, 1e-5f, 1});
        for (std::uint32_t i = 0; i < op.n; ++i) d.bind(view(op.places[i]));
        session.encode(d);
        break;
      }
      case OpType::fence:
        session.barrier();
        break;
      case OpType::barrier:
        session.encoder().memory_barrier();
        break;
    }
  }
}

bool Bench::agrees(const Outcome& expected) {
  if (log_->hashes != expected.log.hashes) return false;
  Block block;
  for (std::uint32_t i = 0; i < graph_->buffers.size(); ++i) {
    const BufferSpec& b = graph_->buffers[i];
    if (b.store == Store::scratch || (b.store == Store::imported && b.base != 0)) continue;
    if (b.store == Store::imported) {
      block = *host_block_;
    } else {
      block = expected.memory[b.memory];
      std::memcpy(block.bytes.data(), hosts_[i], b.bytes);
    }
    if (!equal_block(expected, b.memory, block.bytes.data())) return false;
  }
  return backend_->guards_intact();
}

Result<Plan> compile_program(const Device& device, const GraphExecutor& executor,
                             const test::ProgramBuilder& builder) {
  ONEPASS_ASSIGN(const KernelId kernel,
                 device.kernels().add({.name = "touch", .cpu = hash_kernel}));
  const graph::Program program = builder.program();
  std::vector<View> regions(builder.n_regions());
  std::vector<Buffer> buffers;
  GraphSession session = executor.begin_recorded();
  for (const graph::ScratchItem& item : builder.items()) {
    regions[item.region] =
        session.scratch(DType::f32, {static_cast<std::uint32_t>(item.bytes / 4)}).view;
  }
  for (std::uint32_t r = 0; r < regions.size(); ++r) {
    if (regions[r].buffer) continue;
    ONEPASS_ASSIGN(Buffer buffer, device.allocate(builder.region_bytes()[r]));
    regions[r] = buffer.view();
    buffers.push_back(std::move(buffer));
  }
  for (std::uint32_t node = 0; node < program.size(); ++node) {
    Dispatch d = make_dispatch(Op::custom);
    d.kernel = kernel;
    for (const graph::Range& r : program.ranges_of(node)) {
      ONEPASS_ASSIGN(const View v, regions[r.region].sub(r.lo, r.hi - r.lo));
      d.bind(v, r.write ? Access::write : Access::read);
    }
    session.encode(d);
  }
  return session.compile();
}

std::string for_all_graphs(std::uint32_t n,
                           const std::function<std::string(Bench&, std::uint64_t)>& check) {
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::string failure;
  const auto work = [&] {
    Bench bench;
    for (std::uint64_t seed = next++; seed < n && !stop; seed = next++) {
      std::string text = check(bench, seed);
      if (text.empty()) continue;
      stop = true;
      const std::lock_guard lock(mutex);
      if (failure.empty()) failure = "graph " + std::to_string(seed) + ": " + text;
    }
  };
  std::vector<std::thread> threads;
  const unsigned n_threads = std::min(2u, std::max(1u, std::thread::hardware_concurrency()));
  for (unsigned i = 1; i < n_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  return failure;
}

}  // namespace onepass::property
