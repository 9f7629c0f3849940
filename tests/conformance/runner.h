// Runs cases on devices with red zones around every view and compares what comes out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conformance/case.h"
#include "onepass/backends/cuda.h"
#include "onepass/backends/vulkan.h"

namespace onepass::conformance {

// A device with one set of CPU instructions and a number of threads.
struct TargetOptions {
  std::string device = "cpu";
  std::string path = "best";  // CPU: base, avx2, avx512, neon or best
  std::uint32_t threads = 2;
  CudaOptions cuda = {};
  VulkanOptions vulkan = {};
  bool forbid = true;  // with AddressSanitizer: the program ends where a kernel leaves its views
};

// What was found after a run. Empty error: it ran.
struct Outcome {
  std::string error;
  std::vector<Bytes> views;  // contents of every operand afterwards
  std::uint32_t dispatches = 0;
};

class Target {
 public:
  static Result<Target> open(const TargetOptions& options);

  const std::string& name() const { return name_; }  // "cpu:avx2/3"
  bool is_cpu() const { return is_cpu_; }
  bool supports(const Case& c) const;
  // The kernel wants view 0 as q8a.
  bool quantizes(const Case& c) const;
  // Everything outside the declared contents holds `poison`. A byte changed outside of outputs is
  // an error. mode: 0 direct, 1 recorded, 2 plan.
  Outcome run(const Prepared& p, std::byte poison, unsigned mode) const;

 private:
  Target(Device device, std::string name, bool is_cpu);
  Device device_;
  GraphExecutor executor_;
  std::string name_;
  bool is_cpu_;
  bool forbid_ = true;
};

// CPU paths this machine can run, base first.
std::vector<std::string> present_paths();
// Names of devices that are available, without the null device.
std::vector<std::string> present_devices();

// Compares with the reference. Returns the largest error / bound; what is wrong goes to error.
double check(const Prepared& p, const std::vector<Expect>& expected, const Outcome& got,
             std::byte poison, std::string& error);
// Compares two runs: equal bytes, or numbers within twice the bound. Bytes that are expected to
// stay untouched may differ, they hold poison.
std::string compare(const Prepared& p, const std::vector<Expect>& expected, const Outcome& a,
                    const Outcome& b, bool equal_bits);
// The outputs of a row alone must be the row's bytes among others.
std::string compare_row(const Prepared& all, const Outcome& among, const Prepared& one,
                        const Outcome& alone, std::uint32_t row, std::uint32_t rows);

}  // namespace onepass::conformance
