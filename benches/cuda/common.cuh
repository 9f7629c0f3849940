// Shared by the programs of this folder: error checks, graphs built node by node, timing, threads
// and reproducible random numbers that host and device compute alike.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace bench {

#define BENCH_CHECK(call)                                                                         \
  do {                                                                                            \
    const cudaError_t bench_error = (call);                                                       \
    if (bench_error != cudaSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(bench_error)); \
      std::fflush(stdout);                                                                        \
      std::exit(3);                                                                               \
    }                                                                                             \
  } while (false)

inline int g_failures = 0;
inline int g_checks = 0;

// Counts a check; prints only those that fail.
inline bool expect(bool ok, const std::string& what, double got, double limit) {
  ++g_checks;
  if (!ok) {
    ++g_failures;
    std::printf("CHECK FAILED: %s: %g, limit %g\n", what.c_str(), got, limit);
  }
  return ok;
}

template <class T>
struct Device {
  T* data = nullptr;
  std::size_t count = 0;

  explicit Device(std::size_t n) : count(n) {
    BENCH_CHECK(cudaMalloc(&data, std::max<std::size_t>(n * sizeof(T), 16)));
  }
  ~Device() { cudaFree(data); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Both return when the device has the bytes: the streams used here do not wait for each other.
  void fill_bytes(int value) {
    BENCH_CHECK(cudaMemset(data, value, count * sizeof(T)));
    BENCH_CHECK(cudaDeviceSynchronize());
  }
  void set(const std::vector<T>& from) {
    BENCH_CHECK(cudaMemcpy(data, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
    BENCH_CHECK(cudaDeviceSynchronize());
  }
  std::vector<T> get(std::size_t first, std::size_t n) const {
    std::vector<T> to(n);
    BENCH_CHECK(cudaMemcpy(to.data(), data + first, n * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }
  std::vector<T> get() const { return get(0, count); }
};

// An explicit graph of kernel nodes. A failure to build is kept, not fatal: whether the driver
// accepts an edge is one of the questions.
class Graph {
 public:
  Graph() { note(cudaGraphCreate(&graph_, 0)); }
  ~Graph() {
    if (exec_) cudaGraphExecDestroy(exec_);
    if (graph_) cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  template <class Args>
  int add(void (*kernel)(Args), dim3 grid, dim3 block, std::size_t shared, Args args) {
    void* argv[] = {&args};
    cudaKernelNodeParams p{};
    p.func = reinterpret_cast<void*>(kernel);
    p.gridDim = grid;
    p.blockDim = block;
    p.sharedMemBytes = static_cast<unsigned>(shared);
    p.kernelParams = argv;
    cudaGraphNode_t node = nullptr;
    note(cudaGraphAddKernelNode(&node, graph_, nullptr, 0, &p));
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }

  void edge(int from, int to, bool programmatic) {
    cudaGraphEdgeData data{};
    if (programmatic) {
      data.from_port = cudaGraphKernelNodePortProgrammatic;
      data.type = cudaGraphDependencyTypeProgrammatic;
    }
    note(cudaGraphAddDependencies(graph_, &nodes_[static_cast<std::size_t>(from)],
                                  &nodes_[static_cast<std::size_t>(to)], &data, 1));
  }

  bool instantiate(cudaStream_t stream) {
    if (error_ == cudaSuccess) note(cudaGraphInstantiate(&exec_, graph_, 0));
    if (error_ == cudaSuccess) note(cudaGraphUpload(exec_, stream));
    if (error_ != cudaSuccess) (void)cudaGetLastError();
    return error_ == cudaSuccess;
  }

  void launch(cudaStream_t stream) { BENCH_CHECK(cudaGraphLaunch(exec_, stream)); }

  // Median time of one launch in microseconds.
  double median_us(cudaStream_t stream, int repeats = 31) {
    cudaEvent_t begin, end;
    BENCH_CHECK(cudaEventCreate(&begin));
    BENCH_CHECK(cudaEventCreate(&end));
    for (int i = 0; i < 3; ++i) launch(stream);
    BENCH_CHECK(cudaStreamSynchronize(stream));
    std::vector<float> times(static_cast<std::size_t>(repeats));
    for (float& ms : times) {
      BENCH_CHECK(cudaEventRecord(begin, stream));
      launch(stream);
      BENCH_CHECK(cudaEventRecord(end, stream));
      BENCH_CHECK(cudaEventSynchronize(end));
      BENCH_CHECK(cudaEventElapsedTime(&ms, begin, end));
    }
    BENCH_CHECK(cudaEventDestroy(begin));
    BENCH_CHECK(cudaEventDestroy(end));
    std::sort(times.begin(), times.end());
    return 1000.0 * times[times.size() / 2];
  }

  std::size_t size() const { return nodes_.size(); }
  const char* error() const { return cudaGetErrorName(error_); }

 private:
  void note(cudaError_t e) {
    if (error_ == cudaSuccess) error_ = e;
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
  cudaError_t error_ = cudaSuccess;
};

// f(i) for i in [0, n), on all cores.
template <class F>
void parallel_for(std::size_t n, F f) {
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> pool;
  for (std::size_t t = 0; t < threads; ++t)
    pool.emplace_back([=] {
      for (std::size_t i = n * t / threads; i < n * (t + 1) / threads; ++i) f(i);
    });
  for (std::thread& t : pool) t.join();
}

__host__ __device__ inline std::uint32_t random_u32(std::uint32_t seed, std::uint32_t row,
                                                    std::uint32_t i) {
  std::uint64_t z = (std::uint64_t{row} << 32 | i) + 0x9E3779B97F4A7C15ull * (seed + 1ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 16);
}

// About normal: variance 1, within [-3.5, 3.5].
inline float random_normal(std::uint32_t seed, std::uint32_t row, std::uint32_t i) {
  double sum = 0;
  for (std::uint32_t j = 0; j < 4; ++j) sum += random_u32(seed + 101 * j, row, i) / 4294967296.0;
  return static_cast<float>((sum - 2.0) * 1.7320508);
}

inline double relative_error(const std::vector<double>& ref, const float* got) {
  double diff = 0, norm = 0;
  for (std::size_t i = 0; i < ref.size(); ++i) {
    const double d = ref[i] - static_cast<double>(got[i]);
    diff += d * d;
    norm += ref[i] * ref[i];
  }
  const double r = std::sqrt(diff / std::max(norm, 1e-30));
  return std::isfinite(r) ? r : 1e30;
}

// Microseconds in which the card was measured to stream this many bytes by one graph node.
inline double ceiling_us(double bytes) {
  static const double mb[] = {2, 4, 9, 19, 33, 66, 133, 264, 1000};
  static const double rate[] = {1.00, 1.64, 2.52, 3.24, 3.75, 4.13, 4.34, 4.48, 4.61};
  const double x = bytes / 1e6;
  int i = 0;
  while (i < 7 && x > mb[i + 1]) ++i;
  const double t0 = mb[i] / rate[i], t1 = mb[i + 1] / rate[i + 1];
  return t0 + (t1 - t0) * (x - mb[i]) / (mb[i + 1] - mb[i]);
}

void run_edges(cudaStream_t stream);
// with_bulk: false leaves the bulk-copy variants out.
void run_matvec(cudaStream_t stream, std::FILE* csv, bool q8_0, bool with_bulk);
void run_layers(cudaStream_t stream, std::FILE* csv);
void run_dense(cudaStream_t stream, std::FILE* csv);

}  // namespace bench
