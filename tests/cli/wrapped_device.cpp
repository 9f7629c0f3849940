// Makes the command-line tool a test build: whatever device a command opens is wrapped as the
// variable TEST_BACKEND says.
//   fault CALL N   the Nth call of this name fails, once: "fault submit 3"
//   shuffle SEED   launches run on one thread, in an order that is legal but unlikely
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "core/device_state.h"
#include "support/backends/fault.h"
#include "support/backends/shuffle.h"

namespace onepass {
namespace {

std::unique_ptr<Backend> wrap(std::unique_ptr<Backend> opened) {
  const char* const asked = std::getenv("TEST_BACKEND");
  if (asked == nullptr) return opened;
  std::istringstream words(asked);
  std::string kind, call;
  std::uint64_t number = 0;
  if (words >> kind && kind == "shuffle" && words >> number) {
    return std::make_unique<ShuffleBackend>(ShuffleOptions{.seed = number});
  }
  if (kind == "fault" && words >> call >> number) {
    for (std::size_t i = 0; i < n_backend_calls; ++i) {
      const auto at = static_cast<BackendCall>(i);
      if (call != name(at)) continue;
      return std::make_unique<FaultBackend>(std::move(opened),
                                            FaultOptions{.faults = {{.call = at, .nth = number}}});
    }
  }
  std::fprintf(stderr, "TEST_BACKEND is '%s'\n", asked);
  std::exit(3);
}

const bool installed = (wrap_backends(wrap), true);

}  // namespace
}  // namespace onepass
