// Where the time of a model's passes goes.
//
//   ONEPASS_ASSIGN(ModelProfile p, run_profile(model, "model.gguf", {.tokens = 16}));
//   put(profile_text(p));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/backend.h"
#include "model/text_model.h"
#include "onepass/plan.h"

namespace onepass::tool {

struct ProfileOptions {
  std::uint32_t tokens = 16;   // decoded
  std::uint32_t prefill = 0;   // prompt tokens before; 0: a prompt of one token
  std::uint32_t context = 0;   // 0: as many as needed
  double roof = 0.0;           // bytes per second; 0: measured
  bool compare_plans = false;  // also the plan before fusing and scheduling
};

// All dispatches of one kernel in all passes of a name.
struct KernelTimes {
  std::string name;
  std::uint64_t count = 0, total_ns = 0, min_ns = 0, max_ns = 0, bytes = 0;

  double bytes_per_second() const noexcept {
    return total_ns == 0 ? 0.0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(total_ns);
  }
};

// One bar of the timeline. Bars of one lane do not overlap.
struct TimeSlice {
  std::uint32_t lane = 0;
  std::uint32_t sample = 0;  // index in ModelProfile::samples
  std::uint64_t start_ns = 0, end_ns = 0;
};

struct TimedPass {
  std::string label;  // "decode", "prefill", "choice"
  std::uint64_t start_ns = 0, end_ns = 0;
  std::uint64_t busy_ns = 0;                      // covered by at least one dispatch
  std::uint32_t first_sample = 0, n_samples = 0;  // in the order of launch
  std::uint32_t first_slice = 0, n_slices = 0;
  std::uint64_t ns() const noexcept { return end_ns - start_ns; }
};

// All passes of one name.
struct PassProfile {
  std::string name;
  std::uint32_t rows = 1;             // of the pass shown
  std::vector<std::uint32_t> passes;  // indices in ModelProfile::passes
  std::uint32_t shown = 0;            // index in ModelProfile::passes: one of median time
  std::vector<KernelTimes> kernels;   // largest total first
  std::uint64_t total_ns = 0, busy_ns = 0, bytes = 0;
  std::uint64_t tokens = 0;  // that all of them computed
  PlanReport report;
  std::vector<PlanStep> steps;  // of the pass shown; empty: it is not known
  // With ProfileOptions::compare_plans.
  PlanReport unfused, greedy;
  std::vector<PlanStep> unfused_steps;
};

struct ModelProfile {
  std::string model, model_type, device, device_description;
  std::uint32_t threads = 0;
  bool has_workers = false;                    // lanes are workers, else queues
  double roof = 0.0;                           // bytes per second; 0: not known
  std::string roof_how;                        // "read by 2 threads", ...
  std::vector<std::string> generic_kernels{};  // made for any type of weights
  std::uint64_t dropped = 0;
  std::vector<DispatchSample> samples;  // by pass, then by launch
  std::vector<TimeSlice> slices;        // by pass
  std::uint32_t n_lanes = 0;
  std::vector<TimedPass> passes;    // in the order they ran
  std::vector<PassProfile> groups;  // prefill before decode

  std::string lane_name(std::uint32_t lane) const;
};

// The device of the model must have been opened with Profile::dispatches.
Result<ModelProfile> run_profile(const llm::TextModel& model, const std::string& path,
                                 const ProfileOptions& options);

// Passes, lanes and sums of what a device reported.
void arrange(const ProfileReport& report, ModelProfile& out);

// Where the time goes and what would help, in a sentence or two.
std::string verdict(const ModelProfile& profile);
std::string profile_text(const ModelProfile& profile);
std::string profile_json(const ModelProfile& profile);
// Trace events that Perfetto and chrome://tracing open: one lane per worker or queue, one for the
// passes.
std::string trace_json(const ModelProfile& profile);
// One page that needs nothing but a browser.
std::string profile_page(const ModelProfile& profile);

// ns that at least one of the spans covers.
std::uint64_t covered_ns(std::vector<TimeSpan> spans);

// Bytes per second that a copy on the device moves, reads and writes together; 0: not known.
double copy_bandwidth(const Device& device);

// The fusion that made the kernel, or null.
const char* fusion_of(const std::string& kernel, const FuseReport& fused);

}  // namespace onepass::tool
