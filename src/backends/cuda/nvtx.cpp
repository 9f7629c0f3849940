#include "backends/cuda/nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace onepass::cuda {
namespace {

// Null where nobody listens.
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("onepass");
  return handle;
}

}  // namespace

bool nvtx_listens() noexcept { return domain() != nullptr; }

NvtxRange::NvtxRange(const char* name) noexcept : open_(name != nullptr && nvtx_listens()) {
  if (!open_) return;
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &event);
}

NvtxRange::~NvtxRange() {
  if (open_) nvtxDomainRangePop(domain());
}

}  // namespace onepass::cuda

#else

namespace onepass::cuda {

bool nvtx_listens() noexcept { return false; }
NvtxRange::NvtxRange(const char*) noexcept : open_(false) {}
NvtxRange::~NvtxRange() = default;

}  // namespace onepass::cuda

#endif
