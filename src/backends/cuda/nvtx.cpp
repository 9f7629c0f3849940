#include "backends/cuda/nvtx.h"

#include <algorithm>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace onepass::cuda {
namespace {

// Null without a profiler.
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("onepass");
  return handle;
}

void begin_range(const char* name) noexcept {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &event);
}

void end_range() noexcept { nvtxDomainRangePop(domain()); }

}  // namespace

bool nvtx_listens() noexcept { return domain() != nullptr; }

}  // namespace onepass::cuda

#else

namespace onepass::cuda {
namespace {

void begin_range(const char*) noexcept {}
void end_range() noexcept {}

}  // namespace

bool nvtx_listens() noexcept { return false; }

}  // namespace onepass::cuda

#endif

namespace onepass::cuda {
namespace {

std::vector<std::string_view> names_of(std::string_view path) {
  std::vector<std::string_view> names;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (end > 0) names.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return names;
}

}  // namespace

NvtxRange::NvtxRange(const char* name) noexcept : open_(name != nullptr && nvtx_listens()) {
  if (open_) begin_range(name);
}

NvtxRange::~NvtxRange() {
  if (open_) end_range();
}

GroupStep GroupStep::between(std::string_view from, std::string_view to) {
  const std::vector<std::string_view> old = names_of(from), now = names_of(to);
  const auto [left, entered] = std::mismatch(old.begin(), old.end(), now.begin(), now.end());
  return {static_cast<std::size_t>(old.end() - left), {entered, now.end()}};
}

void NvtxGroups::take(const GroupStep& step) noexcept {
  for (std::size_t i = 0; i < step.ends; ++i) end_range();
  for (const std::string& name : step.begins) begin_range(name.c_str());
  open_ = open_ - step.ends + step.begins.size();
}

NvtxGroups::~NvtxGroups() {
  for (; open_ > 0; --open_) end_range();
}

}  // namespace onepass::cuda
