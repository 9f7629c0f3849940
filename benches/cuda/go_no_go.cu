// go_no_go [CSV [PARTS [nobulk]]]: answers what a CUDA graph can do for batch-1 decoding on this
// card.
//   A  programmatic edges: what the driver accepts, what an edge costs
//   4  mat-vec variants on two weight layouts, q4_0; 8: q8_0      (matvec_bench.cu)
//   C  fake llama layers in one graph, plain / programmatic edges (layer_bench.cu)
//   D  products of 512 rows on the tensor cores                   (dense_bench.cu)
// Exit status 1 if any result was wrong, 3 if a CUDA call failed.
#include <array>
#include <chrono>
#include <cstring>

#include "matvec.cuh"

namespace bench {
namespace {

constexpr int dag_threads = 128;

struct StepArgs {
  const std::uint32_t* in[3];
  std::uint32_t* out;
  int spin;  // clock cycles between the wait and the stores
};

// Plain loads on purpose: the wait alone must make the inputs visible.
__global__ void dag_step(const __grid_constant__ StepArgs a) {
  release_dependents();
  wait_for_inputs();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t v = 1;
  if (a.in[0]) v += 3 * a.in[0][i];
  if (a.in[1]) v += 5 * a.in[1][i];
  if (a.in[2]) v += 7 * a.in[2][i];
  if (a.spin > 0)
    for (const long long start = clock64(); clock64() - start < a.spin;) {
    }
  a.out[i] = v;
}

struct Dag {
  std::vector<std::array<int, 3>> ins;  // nodes read, -1: none
  // Bit i of a node: its edge from ins[i] exists / is programmatic.
  std::vector<unsigned> edges, programmatic;
  int levels = 1;

  int node(std::array<int, 3> in, unsigned edge_bits, unsigned programmatic_bits) {
    ins.push_back(in);
    edges.push_back(edge_bits);
    programmatic.push_back(programmatic_bits);
    return static_cast<int>(ins.size()) - 1;
  }
};

Dag chain(int n, bool programmatic) {
  Dag dag;
  dag.node({-1, -1, -1}, 0, 0);
  for (int i = 1; i < n; ++i) dag.node({i - 1, -1, -1}, 1, programmatic ? 1 : 0);
  dag.levels = n;
  return dag;
}

// Every node reads the two before it.
Dag two_back(int n, unsigned edges, unsigned programmatic) {
  Dag dag;
  dag.node({-1, -1, -1}, 0, 0);
  dag.node({0, -1, -1}, 1, programmatic & 1);
  for (int i = 2; i < n; ++i) dag.node({i - 1, i - 2, -1}, edges, programmatic);
  dag.levels = n;
  return dag;
}

// Repeated: one node, `width` nodes that read it, one node that reads those.
Dag fans(int repeats, int width, bool out_programmatic, unsigned in_programmatic) {
  Dag dag;
  int top = dag.node({-1, -1, -1}, 0, 0);
  for (int i = 0; i < repeats; ++i) {
    std::array<int, 3> in = {-1, -1, -1};
    for (int j = 0; j < width; ++j)
      in[static_cast<std::size_t>(j)] = dag.node({top, -1, -1}, 1, out_programmatic ? 1 : 0);
    top = dag.node(in, (1u << width) - 1, in_programmatic);
  }
  dag.levels = 1 + 2 * repeats;
  return dag;
}

class DagRunner {
 public:
  DagRunner(const Dag& dag, int blocks, cudaStream_t stream)
      : dag_(dag),
        blocks_(blocks),
        stream_(stream),
        values_(static_cast<std::size_t>(blocks) * dag_threads * dag.ins.size()) {}

  void report(const char* name) {
    Graph fast;
    build(fast, -1);
    if (!fast.instantiate(stream_)) {
      std::printf("A %-44s %4d blk  REFUSED: %s\n", name, blocks_, fast.error());
      return;
    }
    int wrong = check(fast);
    // Every node in turn is the slow one among those that another waits for.
    for (int slow = 0; slow < 4; ++slow) {
      Graph graph;
      build(graph, slow);
      if (graph.instantiate(stream_)) wrong += check(graph);
    }
    expect(wrong == 0, std::string("edges: ") + name, wrong, 0);
    const double us = fast.median_us(stream_, 41);
    std::printf("A %-44s %4d blk  %s  %.3f us/node  %.3f us/level\n", name, blocks_,
                wrong ? "WRONG" : "ok", us / static_cast<double>(dag_.ins.size()),
                us / dag_.levels);
  }

 private:
  void build(Graph& graph, int slow) {
    const std::size_t step = static_cast<std::size_t>(blocks_) * dag_threads;
    for (std::size_t i = 0; i < dag_.ins.size(); ++i) {
      StepArgs a{};
      for (std::size_t j = 0; j < 3; ++j)
        if (dag_.ins[i][j] >= 0)
          a.in[j] = values_.data + step * static_cast<std::size_t>(dag_.ins[i][j]);
      a.out = values_.data + step * i;
      a.spin = static_cast<int>(i % 4) == slow ? 6000 : 0;
      const int node =
          graph.add(dag_step, dim3(static_cast<unsigned>(blocks_)), dim3(dag_threads), 0, a);
      for (unsigned j = 0; j < 3; ++j)
        if (dag_.edges[i] >> j & 1)
          graph.edge(dag_.ins[i][j], node, (dag_.programmatic[i] >> j & 1) != 0);
    }
  }

  // Values that differ from the reference, over several launches.
  int check(Graph& graph) {
    const std::size_t step = static_cast<std::size_t>(blocks_) * dag_threads;
    std::vector<std::uint32_t> ref(dag_.ins.size());
    for (std::size_t i = 0; i < ref.size(); ++i) {
      ref[i] = 1;
      for (std::size_t j = 0; j < 3; ++j)
        if (dag_.ins[i][j] >= 0)
          ref[i] += (3 + 2 * static_cast<std::uint32_t>(j)) *
                    ref[static_cast<std::size_t>(dag_.ins[i][j])];
    }
    int wrong = 0;
    for (int launch = 0; launch < 5; ++launch) {
      values_.fill_bytes(0xA5);
      graph.launch(stream_);
      BENCH_CHECK(cudaStreamSynchronize(stream_));
      const std::vector<std::uint32_t> got = values_.get();
      for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != ref[i / step];
    }
    return wrong;
  }

  const Dag& dag_;
  int blocks_;
  cudaStream_t stream_;
  Device<std::uint32_t> values_;
};

}  // namespace

void run_edges(cudaStream_t stream) {
  const auto report = [&](const char* name, const Dag& dag, int blocks) {
    DagRunner(dag, blocks, stream).report(name);
  };
  report("one node", chain(1, false), 1);
  for (const int blocks : {1, 132}) {
    report("chain, plain", chain(240, false), blocks);
    report("chain, programmatic", chain(240, true), blocks);
  }
  report("two back: 2 plain in-edges", two_back(240, 3, 0), 132);
  report("two back: 2 programmatic", two_back(240, 3, 3), 132);
  report("two back: near programmatic, far plain", two_back(240, 3, 1), 132);
  report("two back: near plain, far programmatic", two_back(240, 3, 2), 132);
  report("two back, chain edges only, programmatic", two_back(240, 1, 1), 132);
  report("fan 2: plain", fans(80, 2, false, 0), 132);
  report("fan 2: programmatic", fans(80, 2, true, 3), 132);
  report("fan 2: out programmatic, in 1 prog. + 1 plain", fans(80, 2, true, 1), 132);
  report("fan 2: out plain, in programmatic", fans(80, 2, false, 3), 132);
  report("fan 3: plain", fans(60, 3, false, 0), 132);
  report("fan 3: programmatic", fans(60, 3, true, 7), 132);
  report("fan 3: out programmatic, in 2 prog. + 1 plain", fans(60, 3, true, 3), 132);
  report("fan 3: out programmatic, in plain", fans(60, 3, true, 0), 132);
}

}  // namespace bench

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  cudaDeviceProp device{};
  BENCH_CHECK(cudaGetDeviceProperties(&device, 0));
  int runtime = 0, driver = 0;
  BENCH_CHECK(cudaRuntimeGetVersion(&runtime));
  BENCH_CHECK(cudaDriverGetVersion(&driver));
  std::printf("%s, %d SMs, L2 %.0f MB, runtime %d, driver %d\n", device.name,
              device.multiProcessorCount, device.l2CacheSize / 1e6, runtime, driver);
  std::FILE* csv = std::fopen(argc > 1 ? argv[1] : "/dev/null", "a");
  if (!csv) return 2;
  cudaStream_t stream;
  BENCH_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const char* parts = argc > 2 ? argv[2] : "AC48D";
  for (const char* p = parts; *p; ++p) {
    const auto begin = Clock::now();
    if (*p == 'A') bench::run_edges(stream);
    if (*p == '4' || *p == '8') bench::run_matvec(stream, csv, *p == '8', argc < 4);
    if (*p == 'C') bench::run_layers(stream, csv);
    if (*p == 'D') bench::run_dense(stream, csv);
    std::printf("(%c: %.1f s)\n", *p, std::chrono::duration<double>(Clock::now() - begin).count());
    std::fflush(stdout);
  }
  std::fclose(csv);
  std::printf("checks: %d, failed: %d\n", bench::g_checks, bench::g_failures);
  return bench::g_failures ? 1 : 0;
}
