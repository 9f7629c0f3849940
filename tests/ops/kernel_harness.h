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
#include "ops/norm/kernels.h"
#include "ops/quantize/kernels.h"
#include "ops/rope/kernels.h"
#include "ops/sample/kernels.h"
#include "ops/shared/scalar.h"
#include "ops/softmax/kernels.h"
#include "quant/q4_0.h"
#include "quant/q8_0.h"

namespace onepass::test {

inline std::vector<std::span<const KernelRow>> kernel_tables() {
  return {ops::norm_cpu_kernels(),     ops::elementwise_cpu_kernels(), ops::softmax_cpu_kernels(),
          ops::rope_cpu_kernels(),     ops::matmul_cpu_kernels(),      ops::attention_cpu_kernels(),
          ops::kv_cache_cpu_kernels(), ops::embed_cpu_kernels(),       ops::sample_cpu_kernels(),
          ops::quantize_cpu_kernels()};
}

// The row a device with these features takes.
inline const KernelRow* find_row(Op op, DType format, std::uint32_t features = cpu_features()) {
  for (std::span<const KernelRow> table : kernel_tables()) {
    for (const KernelRow& row : table) {
      if (row.op == op && row.format == format && (row.needs & ~features) == 0) return &row;
    }
  }
  return nullptr;
}

class KernelRun {
 public:
  KernelRun(Op op, DType format, std::uint32_t features = cpu_features())
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
  // The same memory as an earlier view.
  KernelRun& same_as(std::size_t view) {
    memory_of_.push_back(memory_of_[view]);
    dispatch_.bind(dispatch_.views[view]);
    return *this;
  }

  // Runs twice with different poison and tile order. Unless the op leaves part of its output
  // alone, both must give the same bytes: then every byte was written.
  KernelRun& run(bool writes_all = true) {
    const std::vector<Memory> before = memories_;
    run_once(std::byte{0x5a}, 1);
    const std::vector<Memory> first = memories_;
    memories_ = before;
    run_once(std::byte{0xa5}, 2);
    if (writes_all) {
      for (std::size_t i = 0; i < memories_.size(); ++i) {
        EXPECT_TRUE(memories_[i].bytes == first[i].bytes)
            << name() << ": memory " << i << " depends on tile order or was not fully written";
      }
    }
    return *this;
  }

  // Status of the launch function alone.
  Status launch_status() const {
    const KernelRow* row = find_row(dispatch_.op, dispatch_.format, features_);
    Launch launch;
    return row->launch(DeviceInfo{}, dispatch_, launch);
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

  void run_once(std::byte poison, unsigned seed) {
    const KernelRow* row = find_row(dispatch_.op, dispatch_.format, features_);
    ASSERT_NE(row, nullptr) << name() << " has no row for " << onepass::name(dispatch_.format);
    ASSERT_EQ(dispatch_.n_views, info(dispatch_.op).n_slots);
    ASSERT_EQ(dispatch_.params_bytes, info(dispatch_.op).params_bytes);
    launch_ = Launch{};
    const Status status = row->launch(DeviceInfo{}, dispatch_, launch_);
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
    for (std::uint32_t tile : order) {
      args.tile = tile;
      row->cpu(args);
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
    float decoded[32];
    quant::quantize(values.data() + i, block);
    quant::dequantize(block, decoded);
    put(block);
    s.values.insert(s.values.end(), decoded, decoded + 32);
  };
  for (std::size_t i = 0; i < values.size(); i += info(type).block_elements) {
    if (type == DType::f32) {
      put(values[i]);
      s.values.push_back(f64(values[i]));
    } else if (type == DType::f16) {
      const auto bits = static_cast<std::uint16_t>(ops::op_f32_to_f16(values[i]));
      put(bits);
      s.values.push_back(f64(ops::op_f16_to_f32(bits)));
    } else if (type == DType::bf16) {
      const auto bits = static_cast<std::uint16_t>(ops::op_f32_to_bf16(values[i]));
      put(bits);
      s.values.push_back(f64(ops::op_bf16_to_f32(bits)));
    } else if (type == DType::q4_0) {
      put_block(quant::BlockQ4_0{}, i);
    } else {
      put_block(quant::BlockQ8_0{}, i);
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
