// What products of the sizes in the benchmarks cost on a GPU, through the same plans as a model.
//
// One row: a chain of products over copies of the weights, together more than the caches hold.
// Columns: us per product and TB/s of weights. Many rows: TFLOP/s.
//
//   matmul_gpu [device] [substring of the formats to run] [rows]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "onepass/onepass.h"
#include "onepass/ops.h"

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
constexpr Size sizes[] = {{960, 576},    {576, 576},          {576, 1536},   {1536, 576, true},
                          {3072, 576},   {3072, 2048},        {2048, 2048},  {8192, 2048, true},
                          {16384, 2048}, {2048, 8192},        {6144, 4096},  {4096, 4096},
                          {28672, 4096}, {14336, 4096, true}, {4096, 14336}, {128256, 2048},
                          {128256, 4096}};

class Bench {
 public:
  explicit Bench(const Device& device) : device_(device), executor_(device) {}

  void run(DType type, const Size& size, std::uint32_t rows) {
    if (size.k % info(type).block_elements != 0) return;
    const DType input = is_packed(type) ? DType::q8a : DType::f32;
    const std::uint64_t matrix = *storage_bytes(type, size.n, size.k);
    const std::uint64_t bytes = matrix * (size.gate ? 2 : 1);
    const std::uint64_t copies = std::max<std::uint64_t>((min_bytes + bytes - 1) / bytes, 2);
    const std::uint64_t x_bytes = (*storage_bytes(input, rows, size.k) + 255) / 256 * 256;
    const std::uint64_t products = rows > 8 ? 20 : std::max<std::uint64_t>(copies, 100);
    Buffer weights = filled(bytes * copies);
    const Buffer x = filled(x_bytes * products);
    if (!weights.set_immutable()) std::exit(1);
    const Buffer out = filled(*storage_bytes(DType::f32, rows, size.n));

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
    const double each = us[us.size() / 2];
    const double flops = 2.0 * rows * size.n * size.k * (size.gate ? 2 : 1);
    std::printf("%-11s %4u x %6u x %-5u %s %8.2f us  %6.2f TB/s  %7.1f TFLOP/s  (%u dispatches)\n",
                name(type), rows, size.n, size.k, size.gate ? "glu_q" : "     ", each,
                static_cast<double>(bytes) / each * 1e-6, flops / each * 1e-6,
                plan.report().dispatches);
    std::fflush(stdout);
  }

 private:
  // Sensible numbers as f32, f16 or scales of a block format.
  Buffer filled(std::uint64_t bytes) {
    Buffer b = expect(device_.allocate(bytes, {.zero = false}));
    const std::vector<std::byte> piece(
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, 64u << 20)), std::byte{0x3c});
    for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
      const std::uint64_t n = std::min<std::uint64_t>(piece.size(), bytes - at);
      if (!device_.write(b.view(at, n), std::span(piece).first(static_cast<std::size_t>(n)))) {
        std::exit(1);
      }
    }
    return b;
  }

  Device device_;
  GraphExecutor executor_;
};

}  // namespace
}  // namespace onepass

int main(int argc, char** argv) {
  using namespace onepass;
  const std::string wanted = argc > 2 ? argv[2] : "";
  const int rows = argc > 3 ? std::atoi(argv[3]) : 0;
  Bench bench(expect(Device::open(argc > 1 ? argv[1] : "cuda:0")));
  for (const std::uint32_t m : {1u, 4u, 8u, 512u}) {
    if (rows != 0 && m != static_cast<std::uint32_t>(rows)) continue;
    for (const DType type :
         {DType::q4_0_s16, DType::q8_0_s16, DType::q4_k_s16, DType::q5_k_s16, DType::q6_k_s16,
          DType::a4_f16_s16, DType::a8_f16_s16, DType::f16, DType::bf16, DType::f32}) {
      if (std::string(name(type)).find(wanted) == std::string::npos) continue;
      for (const Size& size : sizes) bench.run(type, size, m);
    }
  }
  return 0;
}
