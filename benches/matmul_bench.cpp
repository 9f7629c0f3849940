// How close products with packed weights come to the machine's limits.
//
// Mat-vec: a plan multiplies one row with copies of a weight matrix, together at least 512 MiB, one
// after the other; its speed is compared with a plan whose kernel only reads the same bytes on the
// same threads, in turns with it. Mat-mat: 512 rows, quantization included.
//
//   matmul_bench [threads] [substring of the formats to run]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "read_memory.h"

namespace onepass {
namespace {

constexpr std::uint64_t min_bytes = 512 << 20;
constexpr int rounds = 7;

constexpr Format packed_formats[] = {
#define LAYOUT_r16(type) formats::type##_r16,
#define LAYOUT_s16(type)
#define LAYOUT(type, layout, elements, bytes, Form) LAYOUT_##layout(type)
#include "onepass/tables/formats.def"
#undef LAYOUT_r16
#undef LAYOUT_s16
};

double seconds(const Plan& plan) {
  const auto begin = std::chrono::steady_clock::now();
  if (!plan.run()) std::abort();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double best(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

// Sums the tile's part of the weights.
void read_only(const KernelArgs& a) noexcept {
  const KernelArgs::Part part = a.part(a.bytes[0] / 256);
  const std::uint64_t sum =
      onepass_bench::sum_memory(a.data[0] + 256 * part.begin, 256 * (part.end - part.begin));
  if (sum == 42) a.ptr<std::uint64_t>(1)[0] = sum;  // so that the sum is needed
}
Status launch_read(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  launch.tiles = static_cast<std::uint32_t>(std::max<std::uint64_t>(d.views[0].bytes >> 17, 1));
  return {};
}

struct Matrix {
  Format type;
  std::uint32_t n, k;
};

class Bench {
 public:
  explicit Bench(const Device& device) : device_(device), executor_(device) {
    KernelDesc desc;
    desc.name = "read_only";
    desc.slots = "io";
    desc.launch = launch_read;
    desc.cpu = read_only;
    read_ = device.kernels().add(desc).value();
  }

  void mat_vec(const Matrix& m) {
    const std::uint64_t bytes = storage_bytes(m.type, m.n, m.k).value();
    const std::uint64_t copies = (min_bytes + bytes - 1) / bytes;
    const Buffer weights = filled(bytes * copies);
    const Buffer x = filled(std::uint64_t{m.k} * 4), out = filled(std::uint64_t{m.n} * 4);
    const Buffer q = filled(std::uint64_t{m.k} / 32 * 40);
    const bool floats = info(m.type.type).block_elements == 1;

    GraphSession s = executor_.begin_recorded();
    ops::quantize(s, {x.tensor(DType::f32, {1, m.k}), q.tensor(DType::q8a, {1, m.k})});
    for (std::uint64_t i = 0; i < copies; ++i) {
      ops::matmul(
          s, {floats ? x.tensor(DType::f32, {1, m.k}) : q.tensor(DType::q8a, {1, m.k}),
              weights.tensor(m.type, {m.n, m.k}, i * bytes), out.tensor(DType::f32, {1, m.n})});
    }
    const Plan product = compile(std::move(s));
    GraphSession r = executor_.begin_recorded();
    for (std::uint64_t i = 0; i < copies; ++i) {
      Dispatch d = make_dispatch(Op::custom);
      d.kernel = read_;
      d.bind(weights.view(i * bytes, bytes), Access::read);
      d.bind(out.view(), Access::write);
      r.encode(d);
    }
    const Plan read = compile(std::move(r));

    std::vector<double> t, limit;
    seconds(read);
    seconds(product);
    for (int i = 0; i < rounds; ++i) {
      limit.push_back(seconds(read));
      t.push_back(seconds(product));
    }
    const double all = static_cast<double>(bytes * copies) * 1e-9;
    std::printf("%-12s %6u x %-6u %7.2f GB/s of %6.2f read  %5.1f %%  (best %.2f of %.2f)\n",
                name(m.type), m.n, m.k, all / median(t), all / median(limit),
                100 * median(limit) / median(t), all / best(t), all / best(limit));
    std::fflush(stdout);
  }

  void mat_mat(const Matrix& m, std::uint32_t rows) {
    const Buffer weights = filled(storage_bytes(m.type, m.n, m.k).value());
    const Buffer x = filled(std::uint64_t{rows} * m.k * 4);
    const Buffer out = filled(std::uint64_t{rows} * m.n * 4);
    GraphSession s = executor_.begin_recorded();
    ops::matmul(s, {x.tensor(DType::f32, {rows, m.k}), weights.tensor(m.type, {m.n, m.k}),
                    out.tensor(DType::f32, {rows, m.n})});
    const Plan plan = compile(std::move(s));
    std::vector<double> t;
    seconds(plan);
    for (int i = 0; i < rounds; ++i) t.push_back(seconds(plan));
    const double flops = 2.0 * rows * m.n * m.k;
    std::printf("%-12s %6u x %-6u x %u rows  %8.1f GFLOP/s  (best %.1f)\n", name(m.type), m.n, m.k,
                rows, flops * 1e-9 / median(t), flops * 1e-9 / best(t));
    std::fflush(stdout);
  }

 private:
  // Numbers of a sensible size as f32, f16 or scales of a block format.
  Buffer filled(std::uint64_t bytes) {
    Buffer b = device_.allocate(bytes).value();
    std::memset(device_.map(b.view()).value().data(), 0x3c, bytes);
    return b;
  }
  static Plan compile(GraphSession s) {
    Result<Plan> plan = s.compile();
    if (!plan) {
      std::fprintf(stderr, "%s\n", plan.error().message.c_str());
      std::exit(1);
    }
    return std::move(*plan);
  }

  Device device_;
  GraphExecutor executor_;
  KernelId read_;
};

}  // namespace
}  // namespace onepass

int main(int argc, char** argv) {
  using namespace onepass;
  DeviceOptions options;
  options.backend = {
      CpuOptions{.threads = argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 2}};
  const std::string wanted = argc > 2 ? argv[2] : "";
  Bench bench(Device::open("cpu", options).value());
  for (const Format type : packed_formats) {
    if (std::string(name(type)).find(wanted) == std::string::npos) continue;
    bench.mat_vec({type, 4096, 4096});
    bench.mat_vec({type, 14336, 4096});
  }
  for (const Format type : packed_formats) {
    if (std::string(name(type)).find(wanted) == std::string::npos) continue;
    for (std::uint32_t rows : {128u, 512u}) bench.mat_mat({type, 4096, 4096}, rows);
    bench.mat_mat({type, 4096, 14336}, 512);
  }
  return 0;
}
