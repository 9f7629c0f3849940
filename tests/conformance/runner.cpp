#include "conformance/runner.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#ifdef ONEPASS_TEST_CUDA_EMU
#include "support/cuda_emu/backend.h"
#endif
#include "conformance/reference.h"
#include "core/device_state.h"
#include "core/features.h"
#include "onepass/backends/cpu.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONEPASS_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ONEPASS_ASAN
#endif
#ifdef ONEPASS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace onepass::conformance {
namespace {

constexpr std::size_t red_zone = 256;

// An allocation and what the host put there.
struct Placed {
  Buffer buffer;
  Bytes before;
  std::size_t start = 0;
};

// In builds with AddressSanitizer: everything of a buffer in the host's memory outside its view is
// forbidden to touch, until the end of this object. (A view's first bytes that share eight with the
// red zone are not guarded against reads; the poison in the red zone then shows them in the
// result.)
class Forbidden {
 public:
  explicit Forbidden(const Device& device, const std::vector<Placed>& placed,
                     const Prepared& prepared) {
#ifdef ONEPASS_ASAN
    // The emulated CUDA device hides memory that is the host's all the same.
    const bool emulated = device.info().name == "cuda-emu";
    if (!device.info().unified_memory && !emulated) return;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (placed[i].before.empty()) continue;
      const BufferFacts facts = device.state().facts(placed[i].buffer.view().buffer);
      auto* host = emulated ? reinterpret_cast<std::byte*>(facts.memory.handle) : facts.memory.host;
      const std::span<std::byte> memory(host, placed[i].before.size());
      memory_.push_back(memory);
      const std::size_t end = placed[i].start + prepared.operands[i].bytes.size();
      __asan_poison_memory_region(memory.data(), placed[i].start);
      __asan_poison_memory_region(memory.data() + end, memory.size() - end);
    }
#else
    static_cast<void>(device), static_cast<void>(placed), static_cast<void>(prepared);
#endif
  }
  ~Forbidden() {
#ifdef ONEPASS_ASAN
    for (const auto memory : memory_) __asan_unpoison_memory_region(memory.data(), memory.size());
#endif
  }
  Forbidden(const Forbidden&) = delete;
  Forbidden& operator=(const Forbidden&) = delete;

 private:
#ifdef ONEPASS_ASAN
  std::vector<std::span<std::byte>> memory_;
#endif
};

std::string where(const Prepared& p, std::size_t operand) {
  return label("operand ", operand, " (", name(p.operands[operand].dtype), ")");
}

Bytes contents(const Operand& o, std::byte poison) {
  Bytes all(red_zone + o.offset + o.bytes.size() + red_zone, poison);
  if (o.role != Role::out) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(red_zone + o.offset);
    std::copy(o.bytes.begin(), o.bytes.end(), at);
    for (const Range& r : o.dead) {
      std::fill(at + static_cast<std::ptrdiff_t>(r.begin), at + static_cast<std::ptrdiff_t>(r.end),
                poison);
    }
  }
  return all;
}

// First byte outside [begin, end) that differs.
std::optional<std::size_t> changed(const Bytes& a, const Bytes& b, std::size_t begin,
                                   std::size_t end) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if ((i < begin || i >= end) && a[i] != b[i]) return i;
  }
  return std::nullopt;
}

bool contains(const std::vector<Range>& ranges, std::size_t at) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [at](const Range& r) { return r.begin <= at && at < r.end; });
}

Result<Device> open_device(const std::string& name, const DeviceOptions& options) {
#ifdef ONEPASS_TEST_CUDA_EMU
  if (name == "cuda-emu") return emu::open_cuda_emulator({}, options);
#endif
  return Device::open(name, options);
}

// First byte of what element i is stored in.
std::size_t byte_at(const Operand& o, std::size_t i) {
  const FormatInfo& t = info(o.dtype);
  if (o.dtype != DType::q8a) return i / t.block_elements * t.block_bytes;
  const std::size_t row = o.shape.last();  // its numbers come first
  return i / row * (row / t.block_elements * t.block_bytes) + i % row;
}

}  // namespace

std::vector<std::string> present_paths() {
  std::vector<std::string> present;
  const Result<Device> device = Device::open("cpu", {.backend = {CpuOptions{.threads = 1}}});
  for (const CpuPath& path : cpu_paths()) {
    if (device && (path.features & ~device->info().features) == 0) present.push_back(path.name);
  }
  return present;
}

std::vector<std::string> present_devices() {
  std::vector<std::string> names;
  for (const DeviceListing& l : Device::list()) {
    if (l.available && l.name != "null") names.push_back(l.name);
  }
  return names;
}

Target::Target(Device device, std::string name, bool is_cpu)
    : device_(device), executor_(device), name_(std::move(name)), is_cpu_(is_cpu) {}

Result<Target> Target::open(const TargetOptions& options) {
  const std::optional<std::uint32_t> features = cpu_path_features(options.path);
  if (!features) {
    return fail(ErrorCode::invalid_argument, "no CPU path is called '" + options.path + "'");
  }
  DeviceOptions device_options;
  device_options.backend = {CpuOptions{.threads = options.threads, .features = *features},
                            options.cuda, options.vulkan};
  ONEPASS_ASSIGN(const Device device, open_device(options.device, device_options));
  const bool is_cpu = options.device == "cpu";
  Target target(device, is_cpu ? label("cpu:", options.path, "/", options.threads) : options.device,
                is_cpu);
  target.forbid_ = options.forbid;
  return target;
}

bool Target::supports(const Case& c) const {
  return device_.state().find_row(c.op, c.format, c.form) != nullptr;
}

bool Target::quantizes(const Case& c) const {
  const KernelRow* row = device_.state().find_row(c.op, c.format, c.form);
  return row != nullptr && row->input == DType::q8a;
}

Outcome Target::run(const Prepared& p, std::byte poison, unsigned mode) const {
  Outcome outcome;
  std::vector<Placed> placed(p.operands.size());
  std::vector<Tensor> tensors;
  bool repeatable = true;
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    repeatable = repeatable && o.role != Role::in_out;
    if (o.same_as) {
      Tensor t = tensors[*o.same_as];
      t.shape = o.shape;
      tensors.push_back(t);
      continue;
    }
    if (o.bytes.empty()) {
      tensors.push_back({});
      continue;
    }
    Placed& m = placed[i];
    m.before = contents(o, poison);
    m.start = red_zone + o.offset;
    Result<Buffer> buffer = device_.allocate(m.before.size(), {.zero = false});
    if (!buffer || !device_.write(buffer->view(), m.before)) {
      outcome.error = "no memory for " + where(p, i);
      return outcome;
    }
    m.buffer = std::move(*buffer);
    tensors.push_back(tensor(m.buffer.view(m.start, o.bytes.size()), o.dtype, o.shape));
  }

  GraphSession session = mode == 0 ? executor_.begin() : executor_.begin_recorded();
  p.encode(session, tensors);
  Status status;
  std::optional<Forbidden> forbidden;
  if (forbid_) forbidden.emplace(device_, placed, p);
  if (mode == 2) {
    const Result<Plan> plan = session.compile();
    if (plan) outcome.dispatches = plan->report().dispatches;
    status = plan ? plan->run() : Status(tl::unexpected(plan.error()));
    if (status && repeatable) status = plan->run();
  } else {
    const Result<FinishReport> report = session.finish();
    status = report ? Status() : Status(tl::unexpected(report.error()));
    if (report) outcome.dispatches = report->dispatches;
  }
  forbidden.reset();
  if (!status) {
    outcome.error = "refused: " + status.error().to_string();
    return outcome;
  }

  std::vector<bool> written(p.operands.size());
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    if (p.operands[i].role != Role::in) written[p.operands[i].same_as.value_or(i)] = true;
  }
  outcome.views.resize(p.operands.size());
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    if (o.same_as) {
      outcome.views[i] = outcome.views[*o.same_as];
      continue;
    }
    const Placed& m = placed[i];
    if (m.before.empty()) continue;
    Bytes after(m.before.size());
    if (const Status read = device_.read(m.buffer.view(), after); !read) {
      outcome.error = "reading back: " + read.error().to_string();
      return outcome;
    }
    const std::size_t end = m.start + o.bytes.size();
    if (const auto at = changed(m.before, after, written[i] ? m.start : 0, written[i] ? end : 0)) {
      outcome.error = label(where(p, i), ": wrote byte ", *at, " of its memory, the view is ",
                            m.start, " to ", end, written[i] ? "" : " and only read");
      return outcome;
    }
    outcome.views[i] = Bytes(after.begin() + static_cast<std::ptrdiff_t>(m.start),
                             after.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return outcome;
}

double check(const Prepared& p, const std::vector<Expect>& expected, const Outcome& got,
             std::byte poison, std::string& error) {
  double worst = 0.0;
  for (const Expect& e : expected) {
    const Operand& o = p.operands[e.operand];
    const Bytes& bytes = got.views[e.operand];
    for (const Range& r : e.untouched) {
      for (std::size_t i = r.begin; i < r.end; ++i) {
        if (bytes[i] != (o.role == Role::out ? poison : o.bytes[i])) {
          error = label(where(p, e.operand), ": byte ", i, " was to stay as it was");
          return worst;
        }
      }
    }
    if (e.exact) {
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] == (*e.exact)[i] || contains(e.untouched, i)) continue;
        const auto value = [](std::byte b) { return std::to_integer<unsigned>(b); };
        error = label(where(p, e.operand), ": byte ", i, " is ", value(bytes[i]), ", expected ",
                      value((*e.exact)[i]));
        return infinity;
      }
      continue;
    }
    const Doubles values = load_any(o.dtype.type, bytes, o.shape.last());
    if (values.size() != e.want.size() || values.size() != e.bound.size()) {
      error = label(where(p, e.operand), ": ", values.size(), " values, expected ", e.want.size());
      return infinity;
    }
    const auto byte_of = [&](std::size_t i) { return byte_at(o, i); };
    const auto off = [&](std::size_t i, double want, double bound) {
      if (values[i] == want || (std::isnan(values[i]) && std::isnan(want))) return;
      double ratio = std::abs(values[i] - want) / bound;
      if (std::isnan(ratio)) ratio = infinity;
      worst = std::max(worst, ratio);
      if (ratio > 1.0 && error.empty()) {
        error = label(where(p, e.operand), ": element ", i, " is ", values[i], ", expected ", want,
                      " within ", bound, ", off by ", values[i] - want);
      }
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (contains(e.untouched, byte_of(i))) continue;
      off(i, e.want[i], e.bound[i] + (e.quantization.empty() ? 0.0 : e.quantization[i]));
      if (!e.want_quantized.empty()) off(i, e.want_quantized[i], e.bound[i]);
    }
  }
  return worst;
}

std::string compare(const Prepared& p, const std::vector<Expect>& expected, const Outcome& a,
                    const Outcome& b, bool equal_bits) {
  for (const Expect& e : expected) {
    const Bytes &x = a.views[e.operand], &y = b.views[e.operand];
    if (equal_bits || e.exact) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (x[i] == y[i] || contains(e.untouched, i)) continue;
        return label(where(p, e.operand), ": byte ", i, " of ", x.size(), " differs");
      }
      continue;
    }
    const Operand& o = p.operands[e.operand];
    const Doubles u = load_any(o.dtype.type, x, o.shape.last()),
                  v = load_any(o.dtype.type, y, o.shape.last());
    for (std::size_t i = 0; i < u.size(); ++i) {
      if (contains(e.untouched, byte_at(o, i)) || (std::isnan(u[i]) && std::isnan(v[i]))) continue;
      if (std::isnan(u[i]) && std::isnan(v[i])) continue;
      if (!(std::abs(u[i] - v[i]) <= 2.0 * e.bound[i]) && u[i] != v[i]) {
        return label(where(p, e.operand), ": element ", i, " is ", u[i], " and ", v[i]);
      }
    }
  }
  return {};
}

std::string compare_row(const Prepared& all, const Outcome& among, const Prepared& one,
                        const Outcome& alone, std::uint32_t row, std::uint32_t rows) {
  for (std::size_t i = 0; i < all.operands.size(); ++i) {
    if (all.operands[i].role == Role::in || one.operands[i].role == Role::in) continue;
    const std::size_t stride = among.views[i].size() / all.operands[i].shape[0];
    if (alone.views[i].size() != stride ||
        !std::equal(alone.views[i].begin(), alone.views[i].end(),
                    among.views[i].begin() + static_cast<std::ptrdiff_t>(row * stride))) {
      return label(where(all, i), ": row ", row, " alone has other bits than among ", rows);
    }
  }
  return {};
}

}  // namespace onepass::conformance
