// Runs one dispatch through its launch function and CPU kernel on host memory, without a device:
// tiles in random order, outputs poisoned first, guard bytes around every view.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "core/backend.h"
#include "onepass/device.h"
#include "onepass/step_state.h"
#include "ops/attention/kernels.h"
#include "ops/elementwise/kernels.h"
#include "ops/embed/kernels.h"
#include "ops/kv_cache/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/moe/kernels.h"
#include "ops/move/kernels.h"
#include "ops/norm/kernels.h"
#include "ops/quantize/kernels.h"
#include "ops/quantize/params.h"
#include "ops/rope/kernels.h"
#include "ops/sample/kernels.h"
#include "ops/shared/scalar.h"
#include "ops/softmax/kernels.h"
#include "quant/blocks.h"

namespace onepass::test {

// The rows a machine with these features can run, best first.
inline std::vector<const KernelRow*> find_rows(const Dispatch& d,
                                               std::uint32_t features = cpu_features()) {
  std::vector<const KernelRow*> rows;
  for (const KernelRow& row : cpu_kernel_rows()) {
    if (row.op != d.op || row.format != d.format || (row.needs & ~features) != 0) continue;
    if (!has_forms(row, form_of(d)) || (row.accepts != nullptr && !row.accepts({}, d))) continue;
    rows.push_back(&row);
  }
  return rows;
}
// The row of the plain op.
inline const KernelRow* find_row(Op op, Format format, std::uint32_t features = cpu_features()) {
  for (const KernelRow& row : cpu_kernel_rows()) {
    if (row.op == op && row.format == format && (row.needs & ~features) == 0) return &row;
  }
  return nullptr;
}

class KernelRun {
 public:
  KernelRun(Op op, Format format, std::uint32_t features = cpu_features())
      : dispatch_(make_dispatch(op, format)), features_(features & cpu_features()) {}

  template <class P>
  KernelRun& params(const P& p) {
    dispatch_.set_params(p);
    return *this;
  }
  // Views in slot order. An output starts as poison, an in-out view with the bytes given.
  template <class T>
  KernelRun& in(const std::vector<T>& values) {
    return bind(Memory(std::as_bytes(std::span(values))));
  }
  template <class T>
  KernelRun& inout(const std::vector<T>& values) {
    return in(values);
  }
  KernelRun& out(std::size_t bytes) { return bind(Memory(bytes)); }
  KernelRun& none() { return bind(Memory(std::size_t{0})); }
  // Leaves the slots before this one empty.
  KernelRun& at(std::size_t slot) {
    while (dispatch_.n_views < slot) none();
    return *this;
  }
  // The same memory as an earlier view.
  KernelRun& same_as(std::size_t view) {
    memory_of_.push_back(memory_of_[view]);
    dispatch_.bind(dispatch_.views[view]);
    return *this;
  }

  // Runs twice with different poison and tile order. Unless the op leaves part of its output
  // alone, both must give the same bytes: then every byte was written. Then once for every other
  // instruction set of this machine, with the same bytes again.
  KernelRun& run(bool writes_all = true) {
    if (info(dispatch_.op).forms != 0) at(info(dispatch_.op).n_slots);
    const std::vector<Memory> before = memories_;
    const std::vector<const KernelRow*> rows = find_rows(dispatch_, features_);
    if (rows.empty()) {
      ADD_FAILURE() << name() << " has no row for " << onepass::name(dispatch_.format);
      return *this;
    }
    run_once(*rows[0], std::byte{0x5a}, 1);
    const std::vector<Memory> first = memories_;
    memories_ = before;
    run_once(*rows[0], std::byte{0xa5}, 2);
    const std::vector<Memory> best = memories_;
    if (writes_all) {
      expect_same(first, "depends on tile order or was not fully written");
    }
    for (std::size_t i = 1; i < rows.size(); ++i) {
      memories_ = before;
      run_once(*rows[i], std::byte{0xa5}, 3);
      expect_same(best, "depends on the instruction set");
    }
    return *this;
  }
  // Workers of the device that the launch function is told of.
  KernelRun& threads(std::uint32_t n) {
    device_.compute_units = n;
    return *this;
  }

  bool is_accepted() const { return !find_rows(dispatch_, features_).empty(); }
  // Status of the launch function alone.
  Status launch_status() const {
    const KernelRow* row = find_row(dispatch_.op, dispatch_.format, features_);
    Launch launch;
    return row->launch(device_, dispatch_, launch);
  }

  template <class T>
  std::vector<T> get(std::size_t view) const {
    const Memory& m = memories_[memory_of_[view]];
    std::vector<T> values(m.size / sizeof(T));
    if (m.size > 0) std::memcpy(values.data(), m.bytes.data() + m.start, m.size);
    return values;
  }
  const Launch& launch() const { return launch_; }
  Dispatch& dispatch() { return dispatch_; }

 private:
  static constexpr std::size_t guard = 64;
  struct Memory {
    std::vector<std::byte> bytes;
    std::size_t start = guard + 4;  // no more aligned than an element
    std::size_t size = 0;
    bool poisoned = false;

    explicit Memory(std::span<const std::byte> content) : size(content.size()) {
      allocate();
      if (size > 0) std::memcpy(bytes.data() + start, content.data(), size);
    }
    explicit Memory(std::size_t n) : size(n), poisoned(true) { allocate(); }
    void allocate() { bytes.assign(start + size + guard, std::byte{0xc3}); }
    void poison(std::byte value) {
      if (poisoned) std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(start), size, value);
    }
    bool guards_intact() const {
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        if ((i < start || i >= start + size) && bytes[i] != std::byte{0xc3}) return false;
      }
      return true;
    }
  };

  const char* name() const { return info(dispatch_.op).name; }

  KernelRun& bind(Memory memory) {
    memory_of_.push_back(memories_.size());
    const BufferId id{static_cast<std::uint32_t>(memories_.size()), memory.size > 0 ? 1u : 0u};
    dispatch_.bind(View{id, 0, memory.size});
    memories_.push_back(std::move(memory));
    return *this;
  }

  void expect_same(const std::vector<Memory>& other, const char* what) const {
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      EXPECT_TRUE(memories_[i].bytes == other[i].bytes)
          << name() << ": memory " << i << " " << what;
    }
  }

  void run_once(const KernelRow& row, std::byte poison, unsigned seed) {
    ASSERT_EQ(dispatch_.n_views, info(dispatch_.op).n_slots);
    ASSERT_EQ(dispatch_.params_bytes, info(dispatch_.op).params_bytes);
    launch_ = Launch{};
    const Status status = row.launch(device_, dispatch_, launch_);
    ASSERT_TRUE(status.has_value()) << status.error().message;
    ASSERT_GE(launch_.tiles, 1u);

    for (Memory& m : memories_) m.poison(poison);
    const std::vector<Memory> before = memories_;
    std::vector<std::byte*> data;
    std::vector<std::uint64_t> bytes;
    for (std::size_t index : memory_of_) {
      Memory& m = memories_[index];
      data.push_back(m.size > 0 ? m.bytes.data() + m.start : nullptr);
      bytes.push_back(m.size);
    }
    alignas(16) std::array<std::byte, 128> params{};
    std::memcpy(params.data(), dispatch_.params.data(), dispatch_.params_bytes);

    std::vector<std::uint32_t> order(launch_.tiles);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    KernelArgs args;
    args.data = data.data();
    args.bytes = bytes.data();
    args.n_views = dispatch_.n_views;
    args.tiles = launch_.tiles;
    args.params = params.data();
    args.launch = &launch_;
    struct alignas(64) Line {
      std::array<std::byte, 64> bytes;
    };
    std::vector<Line> scratch(launch_.scratch_bytes / 64 + 1), persistent;
    persistent.resize(launch_.persistent_bytes / 64 + 1);
    for (Line& line : scratch) line.bytes.fill(poison);
    args.scratch = scratch[0].bytes.data();
    args.persistent = persistent[0].bytes.data();
    for (std::uint32_t tile : order) {
      args.tile = tile;
      cpu_function(row)(args);
    }
    for (const Line& line : persistent) {
      for (std::byte b : line.bytes) {
        ASSERT_EQ(b, std::byte{0}) << name() << " left its persistent memory in use";
      }
    }

    std::vector<bool> written(memories_.size(), false);
    for (std::size_t i = 0; i < memory_of_.size(); ++i) {
      if (writes(dispatch_.access[i])) written[memory_of_[i]] = true;
    }
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      EXPECT_TRUE(memories_[i].guards_intact()) << name() << ": wrote outside memory " << i;
      if (!written[i]) {
        EXPECT_TRUE(memories_[i].bytes == before[i].bytes) << name() << ": wrote input " << i;
      }
    }
  }

  Dispatch dispatch_;
  DeviceInfo device_;
  std::uint32_t features_;
  Launch launch_;
  std::vector<Memory> memories_;
  std::vector<std::size_t> memory_of_;  // by view
};

inline double f64(float x) { return static_cast<double>(x); }

// Numbers in [-scale, scale], the same for the same seed.
inline std::vector<float> random_floats(std::size_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::vector<float> values(n);
  for (float& v : values) {
    v = scale * (static_cast<float>(generator() % 2000001) / 1000000.0f - 1.0f);
  }
  return values;
}

// Values of a dtype as stored bytes, and what those bytes mean.
struct Stored {
  std::vector<std::byte> bytes;
  std::vector<double> values;
};
inline Stored store(DType type, const std::vector<float>& values) {
  Stored s;
  const auto put = [&s](const auto& item) {
    const auto* p = reinterpret_cast<const std::byte*>(&item);
    s.bytes.insert(s.bytes.end(), p, p + sizeof(item));
  };
  const auto put_block = [&]<class B>(B block, std::size_t i) {
    float decoded[B::elements];
    quant::quantize(values.data() + i, block);
    quant::dequantize(block, decoded);
    put(block);
    s.values.insert(s.values.end(), decoded, decoded + B::elements);
  };
  for (std::size_t i = 0; i < values.size(); i += info(type).block_elements) {
    switch (type) {
      case DType::f32:
        put(values[i]);
        s.values.push_back(f64(values[i]));
        break;
      case DType::f16: {
        const auto bits = static_cast<std::uint16_t>(ops::op_f32_to_f16(values[i]));
        put(bits);
        s.values.push_back(f64(ops::op_f16_to_f32(bits)));
        break;
      }
      case DType::bf16: {
        const auto bits = static_cast<std::uint16_t>(ops::op_f32_to_bf16(values[i]));
        put(bits);
        s.values.push_back(f64(ops::op_bf16_to_f32(bits)));
        break;
      }
#define BLOCK(format, Block)      \
  case DType::format:             \
    put_block(quant::Block{}, i); \
    break;
        ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
      default:
        ADD_FAILURE() << "store: " << name(type);
        return s;
    }
  }
  return s;
}

// Decodes an output of f32, f16 or bf16.
inline std::vector<double> decode(DType type, const KernelRun& run, std::size_t view) {
  std::vector<double> values;
  if (type == DType::f32) {
    for (float v : run.get<float>(view)) values.push_back(f64(v));
  } else {
    for (std::uint16_t v : run.get<std::uint16_t>(view)) {
      values.push_back(f64(type == DType::f16 ? ops::op_f16_to_f32(v) : ops::op_bf16_to_f32(v)));
    }
  }
  return values;
}

// Largest rounding error of one store, relative.
inline double store_error(DType type) {
  return type == DType::f32 ? 0.0 : type == DType::f16 ? 0x1p-11 : 0x1p-8;
}

// |got - want| <= absolute + relative * |want| for every element.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                         double relative, double absolute, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), absolute + relative * std::abs(want[i]))
        << what << " at " << i << ": " << got[i] << ", expected " << want[i];
  }
}

// f32 rows as the op quantize stores them.
inline std::vector<std::byte> quantized(const std::vector<std::byte>& f32_rows, std::size_t cols) {
  const std::size_t n = f32_rows.size() / 4;
  KernelRun run(Op::quantize, DType::q8a);
  run.params(
      ops::QuantizeParams{static_cast<std::uint32_t>(n / cols), static_cast<std::uint32_t>(cols)});
  run.in(f32_rows).out(n / 32 * 40).run();
  return run.get<std::byte>(1);
}

// Bytes of a StepState with room for max_rows and max_slots.
inline std::vector<std::byte> step_bytes(std::vector<StepRow> rows, std::vector<StepSlot> slots,
                                         std::uint32_t n_rows) {
  StepHeader header{};
  header.n_rows = n_rows;
  header.max_rows = static_cast<std::uint32_t>(rows.size());
  header.max_slots = static_cast<std::uint32_t>(slots.size());
  std::vector<std::byte> bytes(StepState::size_bytes(header.max_rows, header.max_slots));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), rows.data(), rows.size() * sizeof(StepRow));
  std::memcpy(bytes.data() + sizeof(header) + rows.size() * sizeof(StepRow), slots.data(),
              slots.size() * sizeof(StepSlot));
  return bytes;
}

}  // namespace onepass::test
