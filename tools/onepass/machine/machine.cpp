#include "machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

#include "commit.h"
#include "core/os.h"

namespace onepass::tool {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "MemAvailable:  123 kB" of /proc/meminfo, in bytes; 0: not there.
std::uint64_t meminfo(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    std::uint64_t kib = 0;
    std::istringstream(line.substr(name.size() + 1)) >> kib;
    return kib * 1024;
  }
  return 0;
}

std::uint64_t number_in(const std::string& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : otherwise;
}

// What a control group still allows. Pages of files it holds are given up when needed.
std::uint64_t left_in_group() {
  constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
  struct Files {
    const char *limit, *used, *stat;
  };
  constexpr Files versions[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
       "/sys/fs/cgroup/memory/memory.stat"}};
  for (const Files& f : versions) {
    const std::uint64_t limit = number_in(f.limit, no_limit);  // "max": no number
    if (limit == no_limit || limit > (std::uint64_t{1} << 60)) continue;
    std::uint64_t used = number_in(f.used, 0);
    std::ifstream stat(f.stat);
    std::string name;
    std::uint64_t value = 0;
    while (stat >> name >> value) {
      if (name == "inactive_file" || name == "active_file") used -= std::min(used, value);
    }
    return limit - std::min(limit, used);
  }
  return no_limit;
}

}  // namespace

std::uint64_t available_memory_bytes() {
  const std::uint64_t available = meminfo("MemAvailable");
  if (available == 0) return os::total_memory_bytes();
  return std::min(available + meminfo("SwapFree"), left_in_group());
}

std::string system_name() {
  std::string name;
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view key = "PRETTY_NAME=";
    if (!line.starts_with(key)) continue;
    name = line.substr(key.size());
    std::erase(name, '"');
  }
  utsname kernel{};
  if (::uname(&kernel) == 0) {
    name += (name.empty() ? "" : ", ") + std::string(kernel.sysname) + " " + kernel.release + " " +
            kernel.machine;
  }
  return name.empty() ? "unknown" : name;
}

std::string compiler_name() {
#if defined(__clang__)
  std::string name = "clang " __clang_version__;
#elif defined(__GNUC__)
  std::string name = "g++ " __VERSION__;
#else
  std::string name = "unknown";
#endif
  name.resize(name.find_last_not_of(' ') + 1);
#if defined(_LIBCPP_VERSION)
  name += ", libc++ " + std::to_string(_LIBCPP_VERSION);
#elif defined(__GLIBCXX__)
  name += ", libstdc++ " + std::to_string(__GLIBCXX__);
#endif
  return name;
}

std::string commit_name() { return ONEPASS_COMMIT; }

std::string build_name() {
  std::string name = ONEPASS_BUILD_TYPE;
  if (os::sanitized) name += ", sanitized";
#if !defined(__OPTIMIZE__)
  name += ", not optimized";
#endif
  return name;
}

std::vector<std::string> driver_versions() {
  std::vector<std::string> lines;
  for (const char* path : {"/proc/driver/nvidia/version", "/sys/module/nvidia/version",
                           "/sys/module/amdgpu/version", "/sys/module/i915/version"}) {
    const std::string line = first_line(path);
    if (line.empty()) continue;
    const std::string where = path;
    if (where.starts_with("/sys/module/nvidia/") && !lines.empty()) continue;  // told already
    lines.push_back(where.starts_with("/proc") ? line : where.substr(12) + " " + line);
  }
  return lines;
}

std::vector<std::string> cpu_flags() {
  constexpr std::array<std::string_view, 16> wanted = {
      "avx",      "f16c",     "fma",         "avx2",        "avx_vnni",    "avx512f",
      "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8",
      "asimd",    "asimddp",  "i8mm",        "sve"};
  std::ifstream file("/proc/cpuinfo");
  std::vector<std::string> found;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(std::min(line.find(':') + 1, line.size())));
    for (std::string word; words >> word;) {
      if (std::find(wanted.begin(), wanted.end(), word) != wanted.end()) found.push_back(word);
    }
    break;
  }
  return found;
}

}  // namespace onepass::tool
