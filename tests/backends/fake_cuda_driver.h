// A CUDA driver that runs nothing and remembers everything: objects alive, graphs with their nodes
// and edges, and the order of work on the streams. Any call can be made to fail.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/args.h"
#include "backends/cuda/driver.h"
#include "onepass/cuda_kernel.h"

namespace onepass::testing {

struct FakeNode {
  enum class Kind { kernel, empty, event } kind = Kind::empty;
  std::string function;
  CUDA_KERNEL_NODE_PARAMS params{};
  CudaArgs args{};
  CudaKernelArgs callers_args{};  // of kernels from images that callers gave
  CUevent event = nullptr;
};
// What streams are ordered by. Kernels are those launched without a graph.
struct FakeStreamOp {
  enum class Kind { kernel, record, wait } kind = Kind::kernel;
  CUstream stream = nullptr;
  CUevent event = nullptr;  // of record and wait
};
struct FakeGraph {
  std::vector<FakeNode> nodes;
  std::set<std::pair<std::size_t, std::size_t>> edges;
  std::set<std::pair<std::size_t, std::size_t>> programmatic;  // those of the edges
  bool twice = false;                                          // an edge was given twice
};

class FakeDriver {
 public:
  static FakeDriver& get() {
    static FakeDriver instance;
    return instance;
  }

  // A clean state whose n-th call from now on (from 0) fails with `error`; calls that give
  // something back or only ask never do.
  void reset(std::uint64_t fail_at = ~std::uint64_t{0}, CUresult error = CUDA_ERROR_INVALID_VALUE) {
    free_all();
    *this = FakeDriver();
    fail_at_ = fail_at;
    error_ = error;
  }
  void fail_next(CUresult error, std::uint64_t calls = 0) {
    fail_at_ = calls_ + calls;
    error_ = error;
  }
  bool failed() const { return calls_ > fail_at_; }
  const std::string& failed_call() const { return failed_call_; }

  // Objects created and not given back, contexts on a thread's stack included.
  std::size_t live() const {
    return device_memory.size() + host_memory.size() + events.size() + graphs.size() +
           execs.size() + static_cast<std::size_t>(contexts + streams + modules + current);
  }
  // Work on the stream waits in a queue: the first n operations are done from now on.
  void complete_all() { completed_ = queued_; }
  void hold() { holding_ = true; }
  void break_device(CUresult error) { broken_ = error; }
  void break_contexts(CUresult error) { push_result_ = error; }

  std::size_t free_bytes() const {
    std::size_t used = 0;
    for (const auto& [address, bytes] : device_memory) used += bytes;
    return memory_limit - std::min(memory_limit, used);
  }

  std::map<CUdeviceptr, std::size_t> device_memory;
  std::size_t memory_limit = std::size_t{1} << 29;
  std::size_t allocations = 0;  // cuMemAlloc, those that failed included
  std::size_t syncs = 0;        // cuStreamSynchronize
  std::size_t waits = 0;        // cuEventSynchronize for what was not done
  std::map<void*, std::size_t> host_memory;
  std::map<CUevent, std::uint64_t> events;  // place in the queue; 0: never recorded
  std::map<CUgraph, FakeGraph> graphs;
  std::map<CUgraphExec, FakeGraph> execs;
  std::vector<FakeGraph> instantiated, launched;
  std::vector<FakeNode> direct;  // launched without a graph
  std::vector<FakeStreamOp> stream_ops;
  std::vector<std::string> stream_work;
  std::vector<const void*> copy_sources;
  int contexts = 0, streams = 0, modules = 0, current = 0;
  std::size_t loads = 0;            // cuModuleLoadData
  int shared_limit = 0;             // by cuFuncSetAttribute
  std::vector<std::string> images;  // text given to cuModuleLoadDataEx
  std::string compiler_log;         // not empty: cuModuleLoadDataEx fails and says this
  std::vector<std::size_t> parameters{sizeof(CudaKernelArgs)};  // of callers' kernels

  static cuda::Driver table();

 private:
  friend struct FakeCalls;

  void free_all() {
    for (const auto& [memory, bytes] : host_memory) std::free(memory);
    for (const auto& [address, bytes] : device_memory) std::free(reinterpret_cast<void*>(address));
  }
  bool fails(const char* call) {
    if (calls_++ != fail_at_) return false;
    failed_call_ = call;
    return true;
  }
  std::uint64_t enqueue(const char* what) {
    stream_work.emplace_back(what);
    ++queued_;
    if (!holding_) completed_ = queued_;
    return queued_;
  }
  template <class T>
  T make() {
    return reinterpret_cast<T>(next_ += 256);
  }

  std::uint64_t calls_ = 0, fail_at_ = ~std::uint64_t{0};
  CUresult error_ = CUDA_ERROR_INVALID_VALUE, broken_ = CUDA_SUCCESS, push_result_ = CUDA_SUCCESS;
  std::string failed_call_;
  std::uintptr_t next_ = 0x1000;
  std::uint64_t queued_ = 0, completed_ = 0;
  bool holding_ = false;
  std::map<CUfunction, std::string> functions_;
  std::set<CUmodule> callers_modules_;
  std::set<CUfunction> callers_functions_;
};

struct FakeCalls {
  static FakeDriver& f() { return FakeDriver::get(); }
#define ONEPASS_FAKE_MAY_FAIL(name) \
  if (f().fails(name)) return f().error_

  static CUresult init(unsigned) { return CUDA_SUCCESS; }
  static CUresult error_name(CUresult, const char** out) {
    *out = "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
  }
  static CUresult error_string(CUresult, const char** out) {
    *out = "made up";
    return CUDA_SUCCESS;
  }

  static CUresult device_count(int* out) {
    ONEPASS_FAKE_MAY_FAIL("cuDeviceGetCount");
    *out = 2;
    return CUDA_SUCCESS;
  }
  static CUresult device_get(CUdevice* out, int index) {
    ONEPASS_FAKE_MAY_FAIL("cuDeviceGet");
    *out = index;
    return CUDA_SUCCESS;
  }
  static CUresult device_name(char* out, int bytes, CUdevice) {
    ONEPASS_FAKE_MAY_FAIL("cuDeviceGetName");
    std::strncpy(out, "Fake", static_cast<std::size_t>(bytes));
    return CUDA_SUCCESS;
  }
  static CUresult device_uuid(CUuuid* out, CUdevice device) {
    ONEPASS_FAKE_MAY_FAIL("cuDeviceGetUuid");
    for (std::size_t i = 0; i < sizeof out->bytes; ++i) {
      out->bytes[i] = static_cast<char>(0xF0 + static_cast<int>(i) - 16 * device);
    }
    return CUDA_SUCCESS;
  }
  static CUresult total_mem(std::size_t* out, CUdevice) {
    ONEPASS_FAKE_MAY_FAIL("cuDeviceTotalMem");
    *out = std::size_t{1} << 30;
    return CUDA_SUCCESS;
  }
  static CUresult attribute(int* out, CUdevice_attribute which, CUdevice) {
    ONEPASS_FAKE_MAY_FAIL("cuDeviceGetAttribute");
    switch (which) {
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *out = 132;
        break;
      case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = 1024;
        break;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *out = 232448;
        break;
      case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *out = 32;
        break;
      default:
        *out = 9;
    }
    return CUDA_SUCCESS;
  }
  static CUresult retain(CUcontext* out, CUdevice) {
    ONEPASS_FAKE_MAY_FAIL("cuDevicePrimaryCtxRetain");
    ++f().contexts;
    *out = f().make<CUcontext>();
    return CUDA_SUCCESS;
  }
  static CUresult release(CUdevice) {
    --f().contexts;
    return CUDA_SUCCESS;
  }
  static CUresult push(CUcontext) {
    if (f().push_result_ != CUDA_SUCCESS) return f().push_result_;
    ++f().current;
    return CUDA_SUCCESS;
  }
  static CUresult pop(CUcontext*) {
    --f().current;
    return CUDA_SUCCESS;
  }

  static CUresult stream_create(CUstream* out, unsigned) {
    ONEPASS_FAKE_MAY_FAIL("cuStreamCreate");
    ++f().streams;
    *out = f().make<CUstream>();
    return CUDA_SUCCESS;
  }
  static CUresult stream_destroy(CUstream) {
    --f().streams;
    return CUDA_SUCCESS;
  }
  static CUresult stream_wait(CUstream stream, CUevent event, unsigned) {
    ONEPASS_FAKE_MAY_FAIL("cuStreamWaitEvent");
    f().stream_ops.push_back({FakeStreamOp::Kind::wait, stream, event});
    return CUDA_SUCCESS;
  }
  static CUresult stream_sync(CUstream) {
    ++f().syncs;
    f().complete_all();
    return f().broken_;
  }

  static CUresult event_create(CUevent* out, unsigned) {
    ONEPASS_FAKE_MAY_FAIL("cuEventCreate");
    *out = f().make<CUevent>();
    f().events[*out] = 0;
    return CUDA_SUCCESS;
  }
  static CUresult event_destroy(CUevent event) {
    return f().events.erase(event) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  static CUresult event_record(CUevent event, CUstream stream) {
    ONEPASS_FAKE_MAY_FAIL("cuEventRecord");
    f().stream_ops.push_back({FakeStreamOp::Kind::record, stream, event});
    f().events.at(event) = f().enqueue("event");
    return CUDA_SUCCESS;
  }
  static CUresult event_query(CUevent event) {
    if (f().broken_ != CUDA_SUCCESS) return f().broken_;
    return f().events.at(event) <= f().completed_ ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  static CUresult event_sync(CUevent event) {
    if (f().broken_ != CUDA_SUCCESS) return f().broken_;
    ONEPASS_FAKE_MAY_FAIL("cuEventSynchronize");
    if (f().events.at(event) > f().completed_) ++f().waits;
    f().completed_ = std::max(f().completed_, f().events.at(event));
    return CUDA_SUCCESS;
  }
  // A microsecond per operation of the queue.
  static CUresult elapsed(float* ms, CUevent from, CUevent to) {
    const std::uint64_t a = f().events.at(from), b = f().events.at(to);
    if (a == 0 || b == 0) return CUDA_ERROR_INVALID_HANDLE;
    *ms = 0.001f * (static_cast<float>(b) - static_cast<float>(a));
    return CUDA_SUCCESS;
  }

  static CUresult mem_alloc(CUdeviceptr* out, std::size_t bytes) {
    ONEPASS_FAKE_MAY_FAIL("cuMemAlloc");
    ++f().allocations;
    if (bytes > f().free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
    // Aligned as the driver's. The pages of what is never touched do not exist.
    void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = reinterpret_cast<CUdeviceptr>(memory);
    f().device_memory[*out] = bytes;
    return CUDA_SUCCESS;
  }
  static CUresult mem_info(std::size_t* free_bytes, std::size_t* total) {
    *free_bytes = f().free_bytes();
    *total = f().memory_limit;
    return CUDA_SUCCESS;
  }
  static CUresult mem_free(CUdeviceptr address) {
    if (f().device_memory.erase(address) != 1) return CUDA_ERROR_INVALID_VALUE;
    std::free(reinterpret_cast<void*>(address));
    return CUDA_SUCCESS;
  }
  static CUresult host_alloc(void** out, std::size_t bytes, unsigned) {
    ONEPASS_FAKE_MAY_FAIL("cuMemHostAlloc");
    *out = std::malloc(bytes);
    f().host_memory[*out] = bytes;
    return CUDA_SUCCESS;
  }
  static CUresult host_free(void* memory) {
    if (f().host_memory.erase(memory) != 1) return CUDA_ERROR_INVALID_VALUE;
    std::free(memory);
    return CUDA_SUCCESS;
  }
  static CUresult host_pointer(CUdeviceptr* out, void* memory, unsigned) {
    ONEPASS_FAKE_MAY_FAIL("cuMemHostGetDevicePointer");
    *out = reinterpret_cast<CUdeviceptr>(memory);
    return CUDA_SUCCESS;
  }
  static CUresult copy_in(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
    ONEPASS_FAKE_MAY_FAIL("cuMemcpyHtoDAsync");
    f().enqueue("copy in");
    f().copy_sources.push_back(from);
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return CUDA_SUCCESS;
  }
  static CUresult copy_out(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
    ONEPASS_FAKE_MAY_FAIL("cuMemcpyDtoHAsync");
    f().enqueue("copy out");
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return CUDA_SUCCESS;
  }
  static CUresult memset_d8(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
    ONEPASS_FAKE_MAY_FAIL("cuMemsetD8Async");
    f().enqueue("memset");
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return CUDA_SUCCESS;
  }

  static CUresult module_load(CUmodule* out, const void*) {
    ONEPASS_FAKE_MAY_FAIL("cuModuleLoadData");
    ++f().loads;
    ++f().modules;
    *out = f().make<CUmodule>();
    return CUDA_SUCCESS;
  }
  static CUresult module_load_ex(CUmodule* out, const void* image, unsigned n,
                                 CUjit_option* options, void** values) {
    ONEPASS_FAKE_MAY_FAIL("cuModuleLoadDataEx");
    if (!f().compiler_log.empty()) {
      char* log = nullptr;
      std::size_t size = 0;
      for (unsigned i = 0; i < n; ++i) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = static_cast<char*>(values[i]);
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
          size = reinterpret_cast<std::size_t>(values[i]);
        }
      }
      if (log) std::strncpy(log, f().compiler_log.c_str(), size);
      return CUDA_ERROR_INVALID_PTX;
    }
    ++f().modules;
    *out = f().make<CUmodule>();
    f().callers_modules_.insert(*out);
    f().images.emplace_back(static_cast<const char*>(image));
    return CUDA_SUCCESS;
  }
  static CUresult module_unload(CUmodule) {
    --f().modules;
    return CUDA_SUCCESS;
  }
  static CUresult get_function(CUfunction* out, CUmodule module, const char* name) {
    ONEPASS_FAKE_MAY_FAIL("cuModuleGetFunction");
    *out = f().make<CUfunction>();
    f().functions_[*out] = name;
    if (f().callers_modules_.count(module)) f().callers_functions_.insert(*out);
    return CUDA_SUCCESS;
  }
  static CUresult parameter(CUfunction, std::size_t i, std::size_t* offset, std::size_t* bytes) {
    if (i >= f().parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    *bytes = f().parameters[i];
    return CUDA_SUCCESS;
  }
  // The driver copies as many bytes as the kernel has parameters.
  static void copy_arguments(FakeNode& node, CUfunction function, void** params) {
    node.function = f().functions_.at(function);
    if (f().callers_functions_.count(function)) {
      std::memcpy(&node.callers_args, params[0], sizeof node.callers_args);
    } else {
      std::memcpy(&node.args, params[0], sizeof node.args);
    }
  }
  static CUresult set_attribute(CUfunction, CUfunction_attribute, int value) {
    ONEPASS_FAKE_MAY_FAIL("cuFuncSetAttribute");
    f().shared_limit = value;
    return CUDA_SUCCESS;
  }

  static CUresult launch_kernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                CUstream stream, void** params, void**) {
    ONEPASS_FAKE_MAY_FAIL("cuLaunchKernel");
    FakeNode node;
    node.kind = FakeNode::Kind::kernel;
    copy_arguments(node, function, params);
    node.params.gridDimX = gx;
    node.params.gridDimY = gy;
    node.params.gridDimZ = gz;
    node.params.blockDimX = bx;
    node.params.blockDimY = by;
    node.params.blockDimZ = bz;
    node.params.sharedMemBytes = shared;
    f().direct.push_back(std::move(node));
    f().stream_ops.push_back({FakeStreamOp::Kind::kernel, stream, nullptr});
    f().enqueue("kernel");
    return CUDA_SUCCESS;
  }

  static CUresult graph_create(CUgraph* out, unsigned) {
    ONEPASS_FAKE_MAY_FAIL("cuGraphCreate");
    *out = f().make<CUgraph>();
    f().graphs[*out];
    return CUDA_SUCCESS;
  }
  static CUresult graph_destroy(CUgraph graph) {
    return f().graphs.erase(graph) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  static CUresult add_node(CUgraphNode* out, CUgraph graph, FakeNode node) {
    std::vector<FakeNode>& nodes = f().graphs.at(graph).nodes;
    nodes.push_back(std::move(node));
    *out = reinterpret_cast<CUgraphNode>(nodes.size());  // 1 and up
    return CUDA_SUCCESS;
  }
  static CUresult add_kernel(CUgraphNode* out, CUgraph graph, const CUgraphNode*, std::size_t,
                             const CUDA_KERNEL_NODE_PARAMS* params) {
    ONEPASS_FAKE_MAY_FAIL("cuGraphAddKernelNode");
    FakeNode node;
    node.kind = FakeNode::Kind::kernel;
    copy_arguments(node, params->func, params->kernelParams);
    node.params = *params;
    return add_node(out, graph, std::move(node));
  }
  static CUresult add_empty(CUgraphNode* out, CUgraph graph, const CUgraphNode*, std::size_t) {
    ONEPASS_FAKE_MAY_FAIL("cuGraphAddEmptyNode");
    return add_node(out, graph, FakeNode{});
  }
  static CUresult add_event(CUgraphNode* out, CUgraph graph, const CUgraphNode*, std::size_t,
                            CUevent event) {
    ONEPASS_FAKE_MAY_FAIL("cuGraphAddEventRecordNode");
    FakeNode node;
    node.kind = FakeNode::Kind::event;
    node.event = event;
    return add_node(out, graph, std::move(node));
  }
  static CUresult add_dependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, std::size_t n) {
    ONEPASS_FAKE_MAY_FAIL("cuGraphAddDependencies");
    FakeGraph& g = f().graphs.at(graph);
    for (std::size_t i = 0; i < n; ++i) {
      const std::pair edge{reinterpret_cast<std::size_t>(from[i]) - 1,
                           reinterpret_cast<std::size_t>(to[i]) - 1};
      g.twice = g.twice || !g.edges.insert(edge).second;
      if (!data || data[i].type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) continue;
      if (data[i].type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || data[i].to_port != 0 ||
          data[i].from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
          g.nodes[edge.first].kind != FakeNode::Kind::kernel ||
          g.nodes[edge.second].kind != FakeNode::Kind::kernel) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      g.programmatic.insert(edge);
    }
    return CUDA_SUCCESS;
  }
  static CUresult instantiate(CUgraphExec* out, CUgraph graph, unsigned long long) {
    ONEPASS_FAKE_MAY_FAIL("cuGraphInstantiate");
    *out = f().make<CUgraphExec>();
    f().execs[*out] = f().graphs.at(graph);
    f().instantiated.push_back(f().graphs.at(graph));
    return CUDA_SUCCESS;
  }
  static CUresult exec_destroy(CUgraphExec exec) {
    return f().execs.erase(exec) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  static CUresult upload(CUgraphExec, CUstream) {
    ONEPASS_FAKE_MAY_FAIL("cuGraphUpload");
    return CUDA_SUCCESS;
  }
  static CUresult launch(CUgraphExec exec, CUstream) {
    ONEPASS_FAKE_MAY_FAIL("cuGraphLaunch");
    const FakeGraph& graph = f().execs.at(exec);
    f().enqueue("graph");
    for (const FakeNode& node : graph.nodes) {
      if (node.kind == FakeNode::Kind::event) f().events.at(node.event) = f().enqueue("node event");
      if (node.kind == FakeNode::Kind::kernel) f().enqueue("kernel");
    }
    f().launched.push_back(graph);
    return CUDA_SUCCESS;
  }
#undef ONEPASS_FAKE_MAY_FAIL
};

inline cuda::Driver FakeDriver::table() {
  cuda::Driver d;
  d.cuInit = FakeCalls::init;
  d.cuGetErrorName = FakeCalls::error_name;
  d.cuGetErrorString = FakeCalls::error_string;
  d.cuDeviceGetCount = FakeCalls::device_count;
  d.cuDeviceGet = FakeCalls::device_get;
  d.cuDeviceGetName = FakeCalls::device_name;
  d.cuDeviceGetUuid = FakeCalls::device_uuid;
  d.cuDeviceTotalMem = FakeCalls::total_mem;
  d.cuDeviceGetAttribute = FakeCalls::attribute;
  d.cuDevicePrimaryCtxRetain = FakeCalls::retain;
  d.cuDevicePrimaryCtxRelease = FakeCalls::release;
  d.cuCtxPushCurrent = FakeCalls::push;
  d.cuCtxPopCurrent = FakeCalls::pop;
  d.cuStreamCreate = FakeCalls::stream_create;
  d.cuStreamDestroy = FakeCalls::stream_destroy;
  d.cuStreamSynchronize = FakeCalls::stream_sync;
  d.cuStreamWaitEvent = FakeCalls::stream_wait;
  d.cuEventCreate = FakeCalls::event_create;
  d.cuEventDestroy = FakeCalls::event_destroy;
  d.cuEventRecord = FakeCalls::event_record;
  d.cuEventQuery = FakeCalls::event_query;
  d.cuEventSynchronize = FakeCalls::event_sync;
  d.cuEventElapsedTime = FakeCalls::elapsed;
  d.cuMemGetInfo = FakeCalls::mem_info;
  d.cuMemAlloc = FakeCalls::mem_alloc;
  d.cuMemFree = FakeCalls::mem_free;
  d.cuMemHostAlloc = FakeCalls::host_alloc;
  d.cuMemFreeHost = FakeCalls::host_free;
  d.cuMemHostGetDevicePointer = FakeCalls::host_pointer;
  d.cuMemcpyHtoDAsync = FakeCalls::copy_in;
  d.cuMemcpyDtoHAsync = FakeCalls::copy_out;
  d.cuMemsetD8Async = FakeCalls::memset_d8;
  d.cuModuleLoadData = FakeCalls::module_load;
  d.cuModuleLoadDataEx = FakeCalls::module_load_ex;
  d.cuFuncGetParamInfo = FakeCalls::parameter;
  d.cuModuleUnload = FakeCalls::module_unload;
  d.cuModuleGetFunction = FakeCalls::get_function;
  d.cuFuncSetAttribute = FakeCalls::set_attribute;
  d.cuLaunchKernel = FakeCalls::launch_kernel;
  d.cuGraphCreate = FakeCalls::graph_create;
  d.cuGraphDestroy = FakeCalls::graph_destroy;
  d.cuGraphAddKernelNode = FakeCalls::add_kernel;
  d.cuGraphAddEmptyNode = FakeCalls::add_empty;
  d.cuGraphAddEventRecordNode = FakeCalls::add_event;
  d.cuGraphAddDependencies = FakeCalls::add_dependencies;
  d.cuGraphInstantiate = FakeCalls::instantiate;
  d.cuGraphExecDestroy = FakeCalls::exec_destroy;
  d.cuGraphUpload = FakeCalls::upload;
  d.cuGraphLaunch = FakeCalls::launch;
  return d;
}

}  // namespace onepass::testing
