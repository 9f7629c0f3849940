// Version of the headers and of the library; also for C.
//
//   static_assert(ONEPASS_VERSION_MAJOR == 0);  // of the headers
//   std::puts(onepass::version());              // of the library
#pragma once

#define ONEPASS_VERSION_MAJOR 0
#define ONEPASS_VERSION_MINOR 1
#define ONEPASS_VERSION_PATCH 0

#ifdef __cplusplus
namespace onepass {
const char* version() noexcept;  // "0.1.0"
}
#endif
