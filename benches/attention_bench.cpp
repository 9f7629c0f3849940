// Attention over a cache against the memory bandwidth of the same threads.
//
//   attention_bench [keys] [threads]
//
// Decode: one row, 32 query heads, 8 kv heads of 128, the caches of 32 layers one after the other.
// A pass that only reads the same caches runs in between; both times are medians of seven. Prefill:
// 256 rows at the end of the keys, one layer.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "read_memory.h"

using namespace onepass;

namespace {

constexpr std::uint32_t n_layers = 32, heads = 32, kv_heads = 8, head_dim = 128;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void read_all(const KernelArgs& args) noexcept {
  std::uint64_t total = 0;
  for (std::size_t view = 0; view < 2; ++view) {
    const KernelArgs::Part part = args.part(args.bytes[view] / 256);
    total += onepass_bench::sum_memory(args.data[view] + 256 * part.begin,
                                       256 * (part.end - part.begin));
  }
  args.ptr<std::uint64_t>(2)[args.tile] = total;
}

struct Caches {
  std::vector<Tensor> k, v;
  std::uint64_t bytes = 0;
};

Result<Caches> make_caches(const Device& device, DType type, std::uint32_t keys,
                           std::vector<Buffer>& owner) {
  Caches c;
  const Shape shape{1, kv_heads, keys, head_dim};
  const std::uint64_t bytes = storage_bytes(type, shape).value();
  std::vector<std::uint16_t> words(bytes / 2);
  for (std::uint32_t i = 0; i < n_layers * 2; ++i) {
    // f16 within +-1; as q8_0 and f32 any bits of that kind are finite.
    std::uint32_t x = 12345 + i;
    for (std::uint16_t& w : words) {
      x = x * 1664525 + 1013904223;
      w = static_cast<std::uint16_t>((x >> 16 & 0x83ffu) | 0x3800u);
    }
    ONEPASS_ASSIGN(Buffer memory, device.allocate(bytes));
    ONEPASS_TRY(device.write_as<std::uint16_t>(memory.view(), words));
    (i % 2 == 0 ? c.k : c.v).push_back(memory.tensor(type, shape));
    owner.push_back(std::move(memory));
    c.bytes += bytes;
  }
  return c;
}

Status decode(const Device& device, KernelId reader, DType type, std::uint32_t keys) {
  std::vector<Buffer> owner;
  ONEPASS_ASSIGN(const Caches caches, make_caches(device, type, keys, owner));
  ONEPASS_ASSIGN(const Buffer rows, device.allocate(2 * heads * head_dim * sizeof(float)));
  const Shape row{1, heads, head_dim};
  const Tensor q = rows.tensor(DType::f32, row);
  const Tensor out = rows.tensor(DType::f32, row, heads * head_dim * sizeof(float));
  std::vector<float> values(heads * head_dim);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) * 0.01f;
  ONEPASS_TRY(device.write_as<float>(q.view, values));
  ONEPASS_ASSIGN(const StepState step, StepState::create(device, 1, 1));
  ONEPASS_ASSIGN(const Buffer sums, device.allocate(64 * sizeof(std::uint64_t)));

  const GraphExecutor executor(device);
  GraphSession attend = executor.begin_recorded(), read = executor.begin_recorded();
  for (std::uint32_t i = 0; i < n_layers; ++i) {
    ops::attention(attend,
                   {.q = q, .k = caches.k[i], .v = caches.v[i], .out = out, .step = step.view()});
    Dispatch d = make_dispatch(Op::custom);
    d.kernel = reader;
    d.grid = Grid::groups({16, 1, 1}, {1, 1, 1});
    d.bind(caches.k[i].view, Access::read);
    d.bind(caches.v[i].view, Access::read);
    d.bind(sums.view(), Access::write);
    read.encode(d);
  }
  ONEPASS_ASSIGN(const Plan attention_plan, attend.compile({.step = &step}));
  ONEPASS_ASSIGN(const Plan read_plan, read.compile());
  const SingleStep last(0, keys - 1);
  std::vector<double> attention_s, read_s;
  for (int i = 0; i < 8; ++i) {
    double start = seconds();
    ONEPASS_TRY(read_plan.run());
    const double read_end = seconds();
    ONEPASS_TRY(attention_plan.run(last.values()));
    if (i == 0) continue;
    read_s.push_back(read_end - start);
    attention_s.push_back(seconds() - read_end);
  }
  const double gigabytes = static_cast<double>(caches.bytes) * 1e-9;
  const double read_rate = gigabytes / median(read_s), rate = gigabytes / median(attention_s);
  std::printf("decode %-5s %6u keys: read %6.2f GB/s, attention %6.2f GB/s, share %.3f\n",
              name(type), keys, read_rate, rate, rate / read_rate);
  return {};
}

Status prefill(const Device& device, DType type, std::uint32_t keys) {
  constexpr std::uint32_t n_rows = 256;
  std::vector<Buffer> owner;
  const Shape cache{1, kv_heads, keys, head_dim}, row{n_rows, heads, head_dim};
  ONEPASS_ASSIGN(const Buffer k, device.allocate(storage_bytes(type, cache).value()));
  ONEPASS_ASSIGN(const Buffer v, device.allocate(storage_bytes(type, cache).value()));
  ONEPASS_ASSIGN(const Buffer q, device.allocate(storage_bytes(DType::f32, row).value()));
  ONEPASS_ASSIGN(const Buffer out, device.allocate(storage_bytes(DType::f32, row).value()));
  GraphSession s = GraphExecutor(device).begin_recorded();
  ops::attention(s, {.q = q.tensor(DType::f32, row),
                     .k = k.tensor(type, cache),
                     .v = v.tensor(type, cache),
                     .out = out.tensor(DType::f32, row),
                     .kv_len = keys});
  ONEPASS_ASSIGN(const Plan plan, s.compile());
  std::vector<double> times;
  for (int i = 0; i < 8; ++i) {
    const double start = seconds();
    ONEPASS_TRY(plan.run());
    if (i > 0) times.push_back(seconds() - start);
  }
  const double seen = static_cast<double>(keys) - (n_rows - 1) * 0.5;
  const double flops = 4.0 * head_dim * heads * n_rows * seen;
  std::printf("prefill %-5s %5u keys: %7.2f ms, %6.1f GFLOP/s\n", name(type), keys,
              median(times) * 1e3, flops / median(times) * 1e-9);
  return {};
}

Status run(std::uint32_t keys, std::uint32_t threads) {
  ONEPASS_ASSIGN(const Device device,
                 Device::open("cpu", {.backend = {CpuOptions{.threads = threads}}}));
  KernelDesc desc{.name = "read_all", .slots = "iio"};
  desc.cpu = read_all;
  ONEPASS_ASSIGN(const KernelId reader, device.kernels().add(desc));
  std::printf("threads %u\n", device.info().compute_units);
  for (DType type : {DType::f16, DType::q8_0, DType::f32}) {
    ONEPASS_TRY(decode(device, reader, type, keys));
  }
  for (DType type : {DType::f16, DType::q8_0}) ONEPASS_TRY(prefill(device, type, keys));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::uint32_t otherwise) {
    return argc > i ? static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  const Status status = run(std::max(number(1, 4096), 256u), number(2, 2));
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
