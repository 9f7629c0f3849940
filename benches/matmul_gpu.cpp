// What products of the sizes in the benchmarks cost on a GPU, through the same plans as a model.
//
// One row: a chain of products over copies of the weights, together more than the caches hold.
// Columns: us per product and TB/s of weights. Many rows: TFLOP/s.
//
//   matmul_gpu [device] [substring of the formats to run] [rows]
//   matmul_gpu tune [substring of the formats to run]     CUDA: other kernels, teams and grids;
//                                                         packed: us in blocks of 128 and 256
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#ifdef ONEPASS_BENCH_CUDA
#include "backends/cuda/cuda.h"
#include "backends/cuda/driver.h"
#include "core/device_state.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/launch_cuda.h"
#endif

namespace onepass {
namespace {

constexpr std::uint64_t min_bytes = 256u << 20;
constexpr int repeats = 21;

template <class T>
T expect(Result<T> r) {
  if (!r) {
    std::fprintf(stderr, "%s\n", r.error().to_string().c_str());
    std::exit(1);
  }
  return std::move(*r);
}

struct Size {
  std::uint32_t n, k;
  bool gate = false;  // n rows of a gate and of up, the product quantized
};
constexpr Size sizes[] = {
    {960, 576},     {576, 576},     {576, 1536},   {1536, 576, true},  {3072, 576},
    {49152, 576},   {4096, 1024},   {1024, 2048},  {3072, 1024, true}, {1024, 3072},
    {151936, 1024}, {3072, 2048},   {2048, 2048},  {8192, 2048, true}, {16384, 2048},
    {2048, 8192},   {6144, 4096},   {4096, 4096},  {28672, 4096},      {14336, 4096, true},
    {4096, 14336},  {128256, 2048}, {128256, 4096}};

class Bench {
 public:
  explicit Bench(const Device& device) : device_(device), executor_(device) {}

  void run(Format type, const Size& size, std::uint32_t rows) {
    if (size.k % info(type).block_elements != 0) return;
    const Times t = time(type, size, rows);
    const double flops = 2.0 * rows * size.n * size.k * (size.gate ? 2 : 1);
    std::printf("%-11s %4u x %6u x %-5u %s %8.2f us  %6.2f TB/s  %7.1f TFLOP/s  (%u dispatches)\n",
                name(type), rows, size.n, size.k, size.gate ? "glu_q" : "     ", t.us,
                t.bytes / t.us * 1e-6, flops / t.us * 1e-6, t.dispatches);
    std::fflush(stdout);
  }

  struct Times {
    double us = 0, bytes = 0;  // of one product
    std::uint32_t dispatches = 0;
  };
  Times time(Format type, const Size& size, std::uint32_t rows) {
    const DType input = is_packed(type) ? DType::q8a : DType::f32;
    const std::uint64_t matrix = *storage_bytes(type, size.n, size.k);
    const std::uint64_t bytes = matrix * (size.gate ? 2 : 1);
    const std::uint64_t copies = std::max<std::uint64_t>((min_bytes + bytes - 1) / bytes, 2);
    const std::uint64_t x_bytes = (*storage_bytes(input, rows, size.k) + 255) / 256 * 256;
    // About a millisecond of work.
    const std::uint64_t wanted = rows > 8 ? 20 : (3u << 30) / bytes;
    const std::uint64_t products =
        std::max(copies, std::clamp<std::uint64_t>(wanted, 8, rows > 8 ? 20 : 400));
    const Buffer& weights = filled(weights_, bytes * copies);
    const Buffer& x = filled(x_, x_bytes * products);
    const Buffer& out = filled(out_, *storage_bytes(DType::f32, rows, size.n));

    GraphSession s = executor_.begin_recorded();
    for (std::uint64_t i = 0; i < products; ++i) {
      // Rows of x of their own keep products of different steps apart; one output makes a chain.
      const Tensor xi = x.tensor(input, {rows, size.k}, i * x_bytes);
      const auto weight = [&](std::uint64_t part) {
        return weights.tensor(type, {size.n, size.k}, i % copies * bytes + part * matrix);
      };
      if (!size.gate) {
        ops::matmul(s, {xi, weight(0), out.tensor(DType::f32, {rows, size.n})});
        continue;
      }
      const Tensor gate = s.scratch(DType::f32, {rows, size.n});
      const Tensor up = s.scratch(DType::f32, {rows, size.n});
      const Tensor y = s.scratch(DType::f32, {rows, size.n});
      ops::matmul(s, {xi, weight(0), gate});
      ops::matmul(s, {xi, weight(1), up});
      ops::silu_mul(s, {gate, up, y});
      ops::quantize(s, {y, out.tensor(DType::q8a, {rows, size.n})});
    }
    const Plan plan = expect(s.compile());
    std::vector<double> us;
    for (int i = 0; i < repeats + 3; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      if (const Status status = plan.run(); !status) {
        std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
        std::exit(1);
      }
      const std::chrono::duration<double, std::micro> t = std::chrono::steady_clock::now() - begin;
      if (i >= 3) us.push_back(t.count() / static_cast<double>(products));
    }
    std::sort(us.begin(), us.end());
    return {us[us.size() / 2], static_cast<double>(bytes), plan.report().dispatches};
  }

 private:
  // Random bytes: regular ones draw less power.
  const Buffer& filled(Buffer& b, std::uint64_t bytes) {
    if (b && b.bytes() >= bytes) return b;
    b = {};
    b = expect(device_.allocate(bytes, {.zero = false}));
    std::vector<std::byte> piece(
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, 8u << 20)));
    for (std::byte& byte : piece) byte = static_cast<std::byte>(random_());
    for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
      const std::uint64_t n = std::min<std::uint64_t>(piece.size(), bytes - at);
      if (!device_.write(b.view(at, n), std::span(piece).first(static_cast<std::size_t>(n)))) {
        std::exit(1);
      }
    }
    if (&b == &weights_ && !b.set_immutable()) std::exit(1);
    return b;
  }

  Device device_;
  GraphExecutor executor_;
  Buffer weights_, x_, out_;
  std::minstd_rand random_;
};

#ifdef ONEPASS_BENCH_CUDA

// What the launch function's choice for one row of x is replaced by; 0: left as it is.
struct Tuning {
  std::uint32_t team = 0, threads = 0, per_processor = 0;
  std::uint32_t line = 0;  // a variant for packed weights, instead of team and per_processor
} tuning;

std::uint32_t value(const Launch& l, ops::MatmulValue index) {
  for (std::size_t i = 0; i < l.n_spec; ++i) {
    if (l.spec[i].index == index) return static_cast<std::uint32_t>(l.spec[i].value);
  }
  return 0;
}

Status tuned_launch(const DeviceInfo& device, const Dispatch& d, Launch& l) {
  ONEPASS_TRY(ops::launch_matmul_cuda(device, d, l));
  if (tuning.line != 0 && l.variant >= ops::variant_line_1) {
    const std::uint32_t warps = ops::matmul_line_warps(tuning.line);
    const std::uint32_t rows = ops::matmul_line_rows(tuning.line);
    const bool gate = value(l, ops::matmul_form) == ops::form_glu_q;
    const std::uint32_t threads = gate ? 32 * warps * (32 / rows) : tuning.threads;
    const std::uint32_t sets = (value(l, ops::matmul_n) + rows - 1) / rows;
    l.variant = static_cast<std::uint16_t>(tuning.line);
    l.group[0] = threads;
    l.grid[0] = (sets * 32 * warps + threads - 1) / threads;
    return {};
  }
  if (tuning.team == 0 || l.variant != ops::variant_vector) return {};
  const std::uint32_t x_bytes =
      l.shared_bytes - ops::matmul_sum_bytes(l.group[0], value(l, ops::matmul_rows));
  const bool quantizes = value(l, ops::matmul_form) == ops::form_glu_q;
  const std::uint32_t team = tuning.team, n = value(l, ops::matmul_n);
  const std::uint32_t threads =
      std::max(std::min(tuning.threads, quantizes ? 32 * team : ~0u), team);
  const std::uint32_t teams = threads / team, rounds = quantizes ? 32 / teams : 1;
  const std::uint32_t sets = quantizes ? n : (n + 1) / 2;
  const std::uint32_t units = (sets + teams * rounds - 1) / (teams * rounds);
  l.group[0] = threads;
  l.grid[0] = std::min(units, tuning.per_processor * device.compute_units);
  l.shared_bytes = x_bytes + ops::matmul_sum_bytes(threads, 1);
  for (std::size_t i = 0; i < l.n_spec; ++i) {
    if (l.spec[i].index == ops::matmul_team) l.spec[i].value = __builtin_ctz(team);
    if (l.spec[i].index == ops::matmul_rounds) l.spec[i].value = static_cast<int>(rounds);
  }
  return {};
}

void tune(const std::string& wanted) {
  static std::vector<std::vector<KernelRow>> rows;
  static std::vector<cuda::KernelImage> images;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    rows.emplace_back(image.rows.begin(), image.rows.end());
    for (KernelRow& row : rows.back()) {
      if (row.launch == ops::launch_matmul_cuda) row.launch = tuned_launch;
    }
    images.push_back({rows.back(), image.fatbin});
  }
  const cuda::Driver* driver = expect(cuda::load_driver());
  const Device device(
      expect(DeviceState::create(expect(cuda::open_device(*driver, images, 0, {})), {})));
  Bench bench(device);
  for (const Format type :
       {formats::q4_0_s16, formats::q8_0_s16, formats::q4_k_s16, formats::q6_k_s16, formats::f16}) {
    if (std::string(name(type)).find(wanted) == std::string::npos) continue;
    for (const Size& size : sizes) {
      if (size.k % info(type).block_elements != 0) continue;
      tuning = {};
      const Bench::Times usual = bench.time(type, size, 1);
      if (is_packed(type)) {
        static constexpr const char* names[] = {"1",   "2",   "2d", "4", "1/2",
                                                "2/2", "2/4", "g1", "g2"};
        const std::uint32_t first = size.gate ? ops::variant_gate_1 : ops::variant_line_1;
        const std::uint32_t last = size.gate ? ops::variant_gate_2 : ops::variant_line_2_by_4;
        std::printf("%-11s %6u x %-5u %s usual %6.2f us %5.2f TB/s;", name(type), size.n, size.k,
                    size.gate ? "glu_q" : "     ", usual.us, usual.bytes / usual.us * 1e-6);
        for (std::uint32_t line = first; line <= last; ++line) {
          std::printf("  %s", names[line - ops::variant_line_1]);
          for (const std::uint32_t threads : {128u, 256u}) {
            if (size.gate && threads == 128) continue;
            tuning = {0, threads, 0, line};
            std::printf(" %.2f", bench.time(type, size, 1).us);
          }
        }
        std::printf("\n");
        std::fflush(stdout);
        continue;
      }
      struct Choice {
        double us;
        Tuning tuning;
      };
      std::vector<Choice> all;
      for (const std::uint32_t team : {8u, 16u, 32u, 64u, 128u, 256u}) {
        for (const std::uint32_t threads : {128u, 256u, 512u}) {
          for (const std::uint32_t per_processor : {1u, 2u, 3u, 4u, 1000u}) {
            if (per_processor != 1000 && threads * per_processor > 1024) continue;
            tuning = {team, threads, per_processor, 0};
            all.push_back({bench.time(type, size, 1).us, tuning});
          }
        }
      }
      std::sort(all.begin(), all.end(),
                [](const Choice& a, const Choice& b) { return a.us < b.us; });
      std::printf("%-11s %6u x %-5u %s usual %6.2f us %5.2f TB/s; best", name(type), size.n, size.k,
                  size.gate ? "glu_q" : "     ", usual.us, usual.bytes / usual.us * 1e-6);
      for (std::size_t i = 0; i < 4; ++i) {
        const Tuning& t = all[i].tuning;
        std::printf("  %.2f us %.2f (%u/%u x%u)", all[i].us, usual.bytes / all[i].us * 1e-6, t.team,
                    t.threads, t.per_processor);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

#endif

}  // namespace
}  // namespace onepass

int main(int argc, char** argv) {
  using namespace onepass;
  const std::string wanted = argc > 2 ? argv[2] : "";
#ifdef ONEPASS_BENCH_CUDA
  if (argc > 1 && std::string(argv[1]) == "tune") {
    tune(wanted);
    return 0;
  }
#endif
  const int rows = argc > 3 ? std::atoi(argv[3]) : 0;
  Bench bench(expect(Device::open(argc > 1 ? argv[1] : "cuda:0")));
  for (const std::uint32_t m : {1u, 4u, 8u, 512u}) {
    if (rows != 0 && m != static_cast<std::uint32_t>(rows)) continue;
    for (const Format type : {formats::q4_0_s16, formats::q8_0_s16, formats::q4_k_s16,
                              formats::q5_k_s16, formats::q6_k_s16, formats::a4_f16_s16,
                              formats::a8_f16_s16, formats::f16, formats::bf16, formats::f32}) {
      if (std::string(name(type)).find(wanted) == std::string::npos) continue;
      for (const Size& size : sizes) bench.run(type, size, m);
    }
  }
  return 0;
}
