// Checks the CUDA backend against the CPU and against float64, then times replays.
//
//   cuda_probe [--list] [--layers 8] [--replays 1000]
//
// Status 0: all checks passed; 1: one failed; 3: there is no CUDA device.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "onepass/device.h"
#include "onepass/ops.h"
#include "onepass/plan.h"
#include "onepass/session.h"
#include "onepass/step_state.h"
#include "quant/q8_0.h"

namespace {

using namespace onepass;  // NOLINT: a program about this namespace
using quant::BlockQ8_0;

int failures = 0;

void expect(bool ok, const std::string& what) {
  std::printf("%-6s %s\n", ok ? "ok" : "FAILED", what.c_str());
  std::fflush(stdout);
  if (!ok) ++failures;
}

// A probe has nothing to go on with when a call fails that should not.
template <class T>
T must(Result<T> result, const char* what) {
  if (!result) {
    std::printf("FAILED %s: %s\n", what, result.error().to_string().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  float unit() { return static_cast<float>(next() >> 40) * 0x1p-24f; }  // [0, 1)
  float symmetric() { return 2.0f * unit() - 1.0f; }

 private:
  std::uint64_t state_;
};

std::vector<std::byte> random_floats(std::uint64_t seed, std::size_t n, float scale = 1.0f) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = scale * random.symmetric();
  std::vector<std::byte> bytes(4 * n);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Blocks whose products with numbers around 1 add up to numbers around 1.
std::vector<std::byte> random_q8_0(std::uint64_t seed, std::size_t n, std::size_t k) {
  Random random(seed);
  std::vector<std::byte> bytes(n * k / 32 * sizeof(BlockQ8_0));
  const float size = 1.0f / (73.0f * std::sqrt(static_cast<float>(k)));
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(BlockQ8_0)) {
    BlockQ8_0 block;
    block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(size * (0.5f + random.unit())));
    for (int i = 0; i < 32; i += 8) {
      const std::uint64_t bits = random.next();
      std::memcpy(block.qs + i, &bits, 8);
    }
    std::memcpy(bytes.data() + at, &block, sizeof block);
  }
  return bytes;
}

// ||a - b|| / ||b||; not a number where one is in a.
double relative_error(std::span<const float> a, std::span<const double> b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-300));
}
double relative_error(std::span<const float> a, std::span<const float> b) {
  return relative_error(a, std::vector<double>(b.begin(), b.end()));
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Cases: a few tensors, some ops, one output.

struct TensorSpec {
  DType dtype;
  Shape shape;
  std::vector<std::byte> data;  // empty: an output, poisoned
  std::uint64_t offset = 0;     // bytes before it in its buffer
};

struct Case {
  std::string name;
  std::vector<TensorSpec> tensors;  // the last one is read back
  std::function<void(GraphSession&, std::span<const Tensor>)> record;
  double tolerance = 1e-5;  // 0: the CPU's bits
};

enum class Way { plan, finish, commit };

std::vector<float> run(const Device& device, const Case& c, Way way,
                       std::uint32_t* fused = nullptr) {
  std::vector<Buffer> buffers;
  std::vector<Tensor> tensors;
  for (const TensorSpec& t : c.tensors) {
    const std::uint64_t bytes = storage_bytes(t.dtype, t.shape.elements()).value_or(0);
    buffers.push_back(must(device.allocate(bytes + t.offset), "allocate"));
    const View view = buffers.back().view(t.offset, bytes);
    const std::vector<std::byte> poison(bytes, std::byte{0xff});
    must(device.write(view, t.data.empty() ? poison : t.data), "write");
    tensors.push_back(tensor(view, t.dtype, t.shape));
  }
  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  c.record(s, tensors);
  if (way == Way::plan) {
    const Plan plan = must(s.compile(), "compile");
    if (fused) *fused = plan.report().fused.count;
    must(plan.run(), "run");
  } else if (way == Way::finish) {
    must(s.finish(), "finish");
  } else {
    must(must(s.commit(), "commit").wait(), "wait");
  }
  std::vector<float> out(tensors.back().shape.elements());
  must(device.read_as<float>(tensors.back().view, out), "read");
  return out;
}

void compare(const Device& cpu, const Device& cuda, const Case& c) {
  const std::vector<float> expected = run(cpu, c, Way::plan);
  const std::vector<float> planned = run(cuda, c, Way::plan);
  const bool ways_agree = same_bits(planned, run(cuda, c, Way::finish)) &&
                          same_bits(planned, run(cuda, c, Way::commit));
  const double error = relative_error(planned, expected);
  const bool close = c.tolerance == 0.0 ? same_bits(planned, expected) : error <= c.tolerance;
  expect(close && ways_agree, c.name + ": relative error " + number(error) +
                                  (ways_agree ? "" : "; plan, finish and commit differ"));
}

TensorSpec floats(std::uint64_t seed, Shape shape, std::uint64_t offset = 0) {
  return {DType::f32, shape, random_floats(seed, shape.elements()), offset};
}
TensorSpec output(Shape shape, std::uint64_t offset = 0) { return {DType::f32, shape, {}, offset}; }

void check_kernels(const Device& cpu, const Device& cuda) {
  using Tensors = std::span<const Tensor>;
  for (const std::uint32_t dim : {1u, 31u, 128u, 576u, 4095u, 4096u, 14336u}) {
    for (const std::uint64_t offset : {0u, 4u}) {
      const std::string name = std::to_string(dim) + (offset ? ", unaligned" : "");
      const Shape shape{3, dim};
      compare(cpu, cuda,
              {"rms_norm " + name,
               {floats(1, shape, offset), floats(2, {dim}), output(shape, offset)},
               [](GraphSession& s, Tensors t) {
                 ops::rms_norm(s, {.x = t[0], .weight = t[1], .out = t[2]});
               }});
      compare(cpu, cuda,
              {"rms_norm, mul " + name,
               {floats(1, shape, offset), floats(2, {dim}), floats(3, shape), output(shape)},
               [](GraphSession& s, Tensors t) {
                 const Tensor normed = s.scratch(DType::f32, t[0].shape);
                 ops::rms_norm(s, {.x = t[0], .weight = t[1], .out = normed});
                 ops::mul(s, {normed, t[2], t[3]});
               }});
    }
  }
  const Case fusable{"fusion",
                     {floats(1, {1, 64}), floats(2, {64}), floats(3, {1, 64}), output({1, 64})},
                     [](GraphSession& s, Tensors t) {
                       const Tensor normed = s.scratch(DType::f32, t[0].shape);
                       ops::rms_norm(s, {.x = t[0], .weight = t[1], .out = normed});
                       ops::mul(s, {normed, t[2], t[3]});
                     }};
  std::uint32_t fused = 0;
  run(cuda, fusable, Way::plan, &fused);
  expect(fused == 1, "rms_norm and mul become one dispatch");

  for (const std::uint32_t n : {1u, 3u, 1024u, 100003u}) {
    for (const std::uint64_t offset : {0u, 4u}) {
      const std::string name = std::to_string(n) + (offset ? ", unaligned" : "");
      using Binary = void (*)(GraphSession&, const ops::Binary&, ops::Here);
      for (const auto& [op, f] : {std::pair<const char*, Binary>{"add ", ops::add},
                                  {"mul ", ops::mul},
                                  {"silu_mul ", ops::silu_mul}}) {
        compare(cpu, cuda,
                {op + name,
                 {floats(4, {n}, offset), floats(5, {n}), output({n})},
                 [f = f](GraphSession& s, Tensors t) {
                   f(s, {t[0], t[1], t[2]}, ops::Here::now());
                 },
                 0.0});
      }
    }
  }
  compare(cpu, cuda,
          {"add in place",
           {floats(6, {5000}), floats(7, {5000})},
           [](GraphSession& s, Tensors t) {
             ops::add(s, {t[0], t[1], t[1]});
           },
           0.0});

  struct Sizes {
    std::uint32_t m, n, k;
  };
  for (const auto [m, n, k] : {Sizes{1, 1, 32}, Sizes{1, 7, 96}, Sizes{1, 50, 576},
                               Sizes{3, 33, 2048}, Sizes{5, 129, 64}, Sizes{1, 1000, 4096}}) {
    for (const std::uint64_t offset : {0u, 2u}) {
      const std::string name = std::to_string(m) + " x " + std::to_string(n) + " x " +
                               std::to_string(k) + (offset ? ", unaligned" : "");
      const auto matmul = [](GraphSession& s, Tensors t) {
        ops::matmul(s, {.x = t[0], .weight = t[1], .out = t[2]});
      };
      compare(cpu, cuda,
              {"matmul q8_0 " + name,
               {floats(8, {m, k}, 2 * offset),
                {DType::q8_0, {n, k}, random_q8_0(9, n, k), offset},
                output({m, n})},
               matmul});
      compare(cpu, cuda,
              {"matmul f32 " + name,
               {floats(8, {m, k}, 2 * offset), floats(9, {n, k}, 2 * offset), output({m, n})},
               matmul});
    }
  }
  compare(cpu, cuda,
          {"matmul f32 3 x 5 x 71",
           {floats(8, {3, 71}), floats(9, {5, 71}), output({3, 5})},
           [](GraphSession& s, Tensors t) {
             ops::matmul(s, {.x = t[0], .weight = t[1], .out = t[2]});
           }});

  // Levels of six launches each, where every launch reads what two of the level before wrote.
  Case wide{"six wide, four deep", {}, nullptr, 0.0};
  constexpr std::uint32_t width = 6, n = 40000;
  for (std::uint32_t i = 0; i < width; ++i) wide.tensors.push_back(floats(20 + i, {n}));
  wide.tensors.push_back(output({width, n}));
  wide.record = [](GraphSession& s, Tensors t) {
    std::vector<Tensor> now(t.begin(), t.begin() + width);
    for (int level = 0; level < 4; ++level) {
      std::vector<Tensor> next;
      for (std::uint32_t i = 0; i < width; ++i) {
        Tensor out = s.scratch(DType::f32, {n});
        if (level == 3) {
          out = Tensor{View{t[width].view.buffer, std::uint64_t{4} * n * i, std::uint64_t{4} * n},
                       DType::f32,
                       {n}};
        }
        const ops::Binary operands{now[i], now[(i + 1) % width], out};
        level % 2 == 0 ? ops::add(s, operands) : ops::silu_mul(s, operands);
        next.push_back(out);
      }
      now = std::move(next);
    }
  };
  compare(cpu, cuda, wide);
}

// The chain: h += W[i] * rms_norm(h), `layers` times.

struct Model {
  std::uint32_t dim = 4096, layers = 8;
  std::vector<std::vector<std::byte>> weights, norms;
  std::vector<std::byte> x;

  std::uint64_t weight_bytes() const { return std::uint64_t{layers} * weights[0].size(); }
};

Model make_model(std::uint32_t layers) {
  Model m;
  m.layers = layers;
  for (std::uint32_t i = 0; i < layers; ++i) {
    m.weights.push_back(random_q8_0(100 + i, m.dim, m.dim));
    m.norms.push_back(random_floats(200 + i, m.dim, 1.0f));
  }
  m.x = random_floats(300, m.dim);
  return m;
}

std::vector<double> reference(const Model& m) {
  std::vector<float> input(m.dim), norm(m.dim);
  std::memcpy(input.data(), m.x.data(), m.x.size());
  std::vector<double> h(input.begin(), input.end()), normed(m.dim);
  for (std::uint32_t layer = 0; layer < m.layers; ++layer) {
    std::memcpy(norm.data(), m.norms[layer].data(), m.norms[layer].size());
    double sum = 0.0;
    for (const double v : h) sum += v * v;
    const double r = 1.0 / std::sqrt(sum / m.dim + static_cast<double>(1e-5f));
    for (std::size_t i = 0; i < m.dim; ++i) normed[i] = h[i] * r * static_cast<double>(norm[i]);
    const std::byte* at = m.weights[layer].data();
    for (std::size_t row = 0; row < m.dim; ++row) {
      double dot = 0.0;
      for (std::size_t b = 0; b < m.dim / 32; ++b, at += sizeof(BlockQ8_0)) {
        BlockQ8_0 block;
        std::memcpy(&block, at, sizeof block);
        double part = 0.0;
        for (std::size_t i = 0; i < 32; ++i) part += block.qs[i] * normed[32 * b + i];
        dot += static_cast<double>(ops::op_f16_to_f32(block.d)) * part;
      }
      h[row] += dot;
    }
  }
  return h;
}

struct Chain {
  Device device;
  GraphExecutor executor;
  std::uint32_t dim;
  std::vector<Buffer> weights, norms;
  Buffer x, out;

  Chain(const Device& d, const Model& m) : device(d), executor(d), dim(m.dim) {
    const auto upload = [&](const std::vector<std::byte>& bytes) {
      Buffer b = must(device.allocate(bytes.size(), {.zero = false}), "allocate");
      must(device.write(b.view(), bytes), "write");
      return b;
    };
    for (const auto& w : m.weights) {
      weights.push_back(upload(w));
      must(weights.back().set_immutable(), "set_immutable");
    }
    for (const auto& n : m.norms) norms.push_back(upload(n));
    x = upload(m.x);
    out = must(device.allocate(m.x.size()), "allocate");
  }

  void record(GraphSession& s, Tensor from, Tensor to) const {
    Tensor h = from;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Tensor normed = s.scratch(DType::f32, {1, dim}), y = s.scratch(DType::f32, {1, dim});
      const Tensor next = i + 1 == weights.size() ? to : s.scratch(DType::f32, {1, dim});
      ops::rms_norm(s, {.x = h, .weight = norms[i].tensor(DType::f32, {dim}), .out = normed});
      ops::matmul(s, {.x = normed, .weight = weights[i].tensor(DType::q8_0, {dim, dim}), .out = y});
      ops::add(s, {h, y, next});
      h = next;
    }
  }
  Tensor tensor_of(const Buffer& b) const { return b.tensor(DType::f32, {1, dim}); }

  Plan compile(const Buffer& from, const Buffer& to, const PlanOptions& options = {}) const {
    GraphSession s = executor.begin_recorded();
    record(s, tensor_of(from), tensor_of(to));
    return must(s.compile(options), "compile");
  }
  void finish(const Buffer& from, const Buffer& to) const {
    GraphSession s = executor.begin_recorded();
    record(s, tensor_of(from), tensor_of(to));
    must(s.finish(), "finish");
  }
  void poison(const Buffer& b) const {
    must(device.write(b.view(), std::vector<std::byte>(b.bytes(), std::byte{0xff})), "write");
  }
  std::vector<float> read(const Buffer& b) const {
    std::vector<float> values(dim);
    must(device.read_as<float>(b.view(), values), "read");
    return values;
  }
  Buffer copy_of_x(const Model& m) const {
    Buffer b = must(device.allocate(m.x.size()), "allocate");
    must(device.write(b.view(), m.x), "write");
    return b;
  }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void check_chain(const Device& cpu, const Chain& cuda, const Model& model,
                 std::vector<float>& result) {
  const Chain host(cpu, model);
  const Plan host_plan = host.compile(host.x, host.out);
  must(host_plan.run(), "run");
  const std::vector<float> on_cpu = host.read(host.out);
  const std::vector<double> exact = reference(model);

  const Plan plan = cuda.compile(cuda.x, cuda.out);
  const PlanReport& report = plan.report();
  std::printf("plan: %u dispatches, %u levels, %u edges, arena %llu bytes, record %.1f us\n",
              report.dispatches, report.levels, report.edges,
              static_cast<unsigned long long>(report.arena_bytes),
              static_cast<double>(report.record_ns) / 1e3);
  cuda.poison(cuda.out);
  must(plan.run(), "run");
  result = cuda.read(cuda.out);
  const double vs_cpu = relative_error(result, on_cpu), vs_exact = relative_error(result, exact);
  expect(vs_cpu <= 1e-5, "chain on cuda against the cpu: relative error " + number(vs_cpu));
  expect(vs_exact <= 1e-5, "chain on cuda against float64: relative error " + number(vs_exact));
  const double cpu_error = relative_error(on_cpu, exact);
  expect(cpu_error <= 1e-5,
         "chain on the cpu against float64: relative error " + number(cpu_error));

  cuda.poison(cuda.out);
  cuda.finish(cuda.x, cuda.out);
  expect(same_bits(cuda.read(cuda.out), result), "finish (levels only) gives the plan's bits");

  constexpr int repeats = 5;
  const Buffer replayed = cuda.copy_of_x(model), fresh = cuda.copy_of_x(model);
  const Plan in_place = cuda.compile(replayed, replayed);
  for (int i = 0; i < repeats; ++i) must(in_place.run(), "run");
  for (int i = 0; i < repeats; ++i) cuda.finish(fresh, fresh);
  expect(same_bits(cuda.read(replayed), cuda.read(fresh)),
         "5 replays in place equal 5 fresh passes");
  const Buffer queued = cuda.copy_of_x(model);
  const Plan queued_plan = cuda.compile(queued, queued);
  for (int i = 0; i < repeats; ++i) must(queued_plan.run_async(), "run_async");
  expect(same_bits(cuda.read(queued), cuda.read(fresh)), "5 queued replays equal 5 fresh passes");
}

void check_options(const Model& model, const std::vector<float>& result) {
  {
    const Chain serial(must(Device::open("cuda:0", {.serial = true}), "open"), model);
    const Plan plan = serial.compile(serial.x, serial.out);
    serial.poison(serial.out);
    must(plan.run(), "run");
    expect(same_bits(serial.read(serial.out), result), "a serial device gives the same bits");
  }
  const Device device = must(Device::open("cuda:0", {.profile = Profile::dispatches}), "open");
  const Chain timed(device, model);
  const Plan plan = timed.compile(timed.x, timed.out);
  timed.poison(timed.out);
  must(plan.run(), "run");
  device.reset_profile();
  for (int i = 0; i < 20; ++i) must(plan.run(), "run");
  expect(same_bits(timed.read(timed.out), result), "a timed device gives the same bits");
  const ProfileReport profile = device.profile();
  const std::size_t launches = 20u * plan.report().dispatches;
  expect(profile.samples.size() == launches && profile.dropped == 0,
         "every launch was timed: " + std::to_string(profile.samples.size()) + " of " +
             std::to_string(launches));
  bool ordered = !profile.samples.empty();
  for (std::size_t i = 0; i < profile.samples.size(); ++i) {
    constexpr std::uint64_t resolution_ns = 2000;
    const DispatchSample& sample = profile.samples[i];
    const bool first = i % plan.report().dispatches == 0;
    ordered = ordered && sample.end_ns >= sample.start_ns &&
              (first || sample.start_ns + resolution_ns >= profile.samples[i - 1].end_ns);
  }
  for (const LabelTimes& t : profile.dispatches) ordered = ordered && t.total_ns > 0;
  expect(ordered, "times of a chain do not overlap");
  std::printf("\n%-18s %8s %12s %12s\n", "per node, timed", "count", "mean us", "min us");
  for (const LabelTimes& t : profile.dispatches) {
    std::printf("%-18s %8llu %12.2f %12.2f\n", t.label.c_str(),
                static_cast<unsigned long long>(t.count),
                static_cast<double>(t.total_ns) / 1e3 / static_cast<double>(t.count),
                static_cast<double>(t.min_ns) / 1e3);
  }
}

void check_memory(const Device& cuda) {
  const Result<Buffer> huge = cuda.allocate(std::uint64_t{1} << 50);
  expect(!huge && huge.error().code == ErrorCode::out_of_memory,
         "1 PiB: " + (huge ? std::string("allocated") : huge.error().message));
  const Result<Buffer> all = cuda.allocate(cuda.info().memory_bytes, {.zero = false});
  expect(!all && all.error().code == ErrorCode::out_of_memory,
         "all of the memory: " + (all ? std::string("allocated") : all.error().message));

  std::vector<std::byte> bytes((33u << 20) + 13), back(bytes.size());
  Random random(400);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next() >> 56);
  const Buffer large = must(cuda.allocate(bytes.size() + 1), "allocate");
  must(cuda.write(large.view(1, bytes.size()), bytes), "write");
  must(cuda.read(large.view(1, bytes.size()), back), "read");
  std::byte first{0xff};
  must(cuda.read(large.view(0, 1), {&first, 1}), "read");
  expect(bytes == back && first == std::byte{0}, "33 MiB written and read back, first byte zero");
  expect(!cuda.map(large.view()), "device memory cannot be mapped");

  constexpr std::uint32_t n = 1000;
  const Buffer up = must(cuda.allocate(4 * n, {.kind = MemoryKind::upload}), "allocate");
  const Buffer down = must(cuda.allocate(4 * n, {.kind = MemoryKind::readback}), "allocate");
  must(cuda.write(up.view(), random_floats(401, n)), "write");
  const GraphExecutor executor(cuda);
  GraphSession s = executor.begin_recorded();
  const Tensor t = up.tensor(DType::f32, {n});
  ops::add(s, {t, t, down.tensor(DType::f32, {n})});
  must(s.finish(), "finish");
  std::vector<float> a(n), b(n);
  must(cuda.read_as<float>(up.view(), a), "read");
  must(cuda.read_as<float>(down.view(), b), "read");
  for (float& v : a) v += v;
  expect(same_bits(a, b) && a[0] != 0.0f, "kernels reach upload and readback memory");
}

void check_step(const Chain& cuda) {
  const StepState step = must(StepState::create(cuda.device, 1, 1), "step state");
  const Plan plan = cuda.compile(cuda.x, cuda.out, {.step = &step});
  std::vector<std::byte> got(step.view().bytes), expected(got.size());
  bool all = true;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const SingleStep values(1000 + i, i);
    must(plan.run_async(values.values(7)), "run_async");
    if (i % 67 != 0 && i != 199) continue;
    must(step.serialize(values.values(7), expected), "serialize");
    must(cuda.device.read(step.view(), got), "read");
    all = all && got == expected;
  }
  expect(all, "step values of 200 queued runs arrive");
}

void time_replays(const Chain& cuda, const Model& model, std::uint32_t replays) {
  using Clock = std::chrono::steady_clock;
  const auto us_since = [](Clock::time_point t) {
    return std::chrono::duration<double, std::micro>(Clock::now() - t).count();
  };
  const Plan plan = cuda.compile(cuda.x, cuda.out);
  for (int i = 0; i < 20; ++i) must(plan.run(), "run");
  std::vector<double> device_us, wall_us, submit_us;
  for (std::uint32_t i = 0; i < replays; ++i) {
    const auto begin = Clock::now();
    const Submission s = must(plan.run_async(), "run_async");
    submit_us.push_back(us_since(begin));
    must(s.wait(), "wait");
    wall_us.push_back(us_since(begin));
    device_us.push_back(static_cast<double>(must(s.gpu_time_ns(), "gpu_time")) / 1e3);
  }
  const auto begin = Clock::now();
  for (std::uint32_t i = 0; i < replays; ++i) must(plan.run_async(), "run_async");
  must(cuda.device.fence(), "fence");
  const double queued = us_since(begin) / replays;
  const auto line = [&](const char* what, double us, bool rate) {
    std::printf("%-34s %10.2f us", what, us);
    if (rate) {
      std::printf(" %10.1f GB/s of weights", static_cast<double>(model.weight_bytes()) / us / 1e3);
    }
    std::printf("\n");
  };
  std::printf("\n%u layers of %u x %u q8_0, %.1f MB of weights, %u replays\n", model.layers,
              model.dim, model.dim, static_cast<double>(model.weight_bytes()) / 1e6, replays);
  line("per replay, device time (median)", median(device_us), true);
  line("per replay, run() (median)", median(wall_us), true);
  line("submit alone (median)", median(submit_us), false);
  line("per replay, queued (mean)", queued, true);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t layers = 8;
  std::uint32_t replays = 1000;
  bool list_only = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const int value = i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
    if (arg == "--list") {
      list_only = true;
    } else if ((arg == "--layers" || arg == "--replays") && value > 0) {
      (arg == "--layers" ? layers : replays) = static_cast<std::uint32_t>(value);
      ++i;
    } else {
      std::printf("usage: cuda_probe [--list] [--layers N] [--replays N]\n");
      return 2;
    }
  }
  bool found = false;
  for (const DeviceListing& l : Device::list()) {
    std::printf("%-8s %s%s\n", l.name.c_str(), l.description.c_str(),
                l.available ? "" : l.reason.c_str());
    found = found || (l.name == "cuda:0" && l.available);
  }
  if (list_only) return 0;
  const Result<Device> opened = Device::open("cuda:0");
  if (!opened) {
    std::printf("cuda:0: %s\n", opened.error().to_string().c_str());
    return found ? 1 : 3;
  }
  const Device cpu = must(Device::open("cpu"), "open");
  const Device& cuda = *opened;
  std::printf("%s: %s, %u compute units, %.1f GB, %u bytes of shared memory\n",
              cuda.info().name.c_str(), cuda.info().description.c_str(), cuda.info().compute_units,
              static_cast<double>(cuda.info().memory_bytes) / 1e9, cuda.info().max_shared_bytes);

  check_memory(cuda);
  check_kernels(cpu, cuda);
  const Model model = make_model(layers);
  {
    const Chain chain(cuda, model);
    std::vector<float> result;
    check_chain(cpu, chain, model, result);
    check_step(chain);
    check_options(model, result);
    time_replays(chain, model, replays);
  }
  must(cuda.fence(), "fence");
  const std::vector<Error> errors = cuda.take_errors();
  expect(errors.empty(), "no error that nobody waited for");
  std::printf("\n%s\n", failures == 0 ? "all checks passed" : "SOME CHECKS FAILED");
  return failures == 0 ? 0 : 1;
}
