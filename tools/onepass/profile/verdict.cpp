#include <algorithm>
#include <cstdio>
#include <map>

#include "profile.h"

namespace onepass::tool {
namespace {

constexpr double much_idle = 0.2;    // of the time
constexpr double near_memory = 0.7;  // of what memory gives

// All kernels that read one format: "q8_0 products".
struct Work {
  std::string name;
  std::string path;      // "avx512", "base", ...; empty where the names do not say
  bool generic = false;  // kernels made for any type of weights
  std::uint64_t ns = 0, bytes = 0;

  double rate() const {
    return ns == 0 ? 0.0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(ns);
  }
};

// "matmul_q8_0_r16_avx512+gate" is work of the q8_0 products on avx512.
Work work_of(const std::string& kernel) {
  constexpr std::string_view product = "matmul_";
  const std::string plain = kernel.substr(0, kernel.find('+'));
  Work work;
  work.name = plain;
  if (!plain.starts_with(product)) return work;
  const std::string rest = plain.substr(product.size());
  work.name = rest.substr(0, rest.find("_r16")) + " products";
  for (const char* path : {"avx512", "avx2", "neon", "base"}) {
    if (rest.ends_with(path)) work.path = path;
  }
  return work;
}

Work largest(const ModelProfile& p, const PassProfile& pass) {
  std::map<std::string, Work> all;
  for (const KernelTimes& k : pass.kernels) {
    Work one = work_of(k.name);
    one.generic = std::find(p.generic_kernels.begin(), p.generic_kernels.end(),
                            k.name.substr(0, k.name.find('+'))) != p.generic_kernels.end();
    Work& sum = all.try_emplace(one.name, std::move(one)).first->second;
    sum.ns += k.total_ns;
    sum.bytes += k.bytes;
  }
  Work most;
  for (const auto& [name, work] : all) {
    if (work.ns > most.ns) most = work;
  }
  return most;
}

std::string whole_percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", share * 100.0);
  return text;
}

std::string limit_of(const Work& work, double roof) {
  if (work.path == "base") return "on kernels without vector instructions, which are the limit";
  if (work.generic) {
    return "on generic kernels, which are the limit: a format with kernels of its own, as q4_k or "
           "q8_0, is faster";
  }
  if (roof <= 0.0 || work.bytes == 0) return "";
  if (work.rate() > roof) return "from caches, where arithmetic is the limit, not memory";
  const std::string of = "at " + whole_percent(work.rate() / roof) + " of the speed of memory";
  if (work.rate() >= near_memory * roof) {
    return of + ", which is the limit: only a format with fewer bytes helps";
  }
  return of + ", so arithmetic is the limit, not memory";
}

}  // namespace

std::string verdict(const ModelProfile& p) {
  if (p.groups.empty()) return "nothing was timed";
  const PassProfile& pass = p.groups.back();  // decode, where there is one
  const auto total = static_cast<double>(std::max<std::uint64_t>(pass.total_ns, 1));
  const double idle = std::max(0.0, 1.0 - static_cast<double>(pass.busy_ns) / total);
  const Work most = largest(p, pass);
  // Kernels of several lanes overlap: their sum may be more than the time.
  const double share = std::min(1.0, static_cast<double>(most.ns) / total);
  std::string text = pass.name + ": ";
  if (idle > much_idle && idle > share) {
    return text + whole_percent(idle) +
           " of the time no kernel runs: passes are too small for this " +
           "device, or the host keeps it waiting.";
  }
  text += whole_percent(share) + " of the time in " + most.name;
  if (const std::string limit = limit_of(most, p.roof); !limit.empty()) text += ", " + limit;
  text += ".";
  if (idle > much_idle) text += " " + whole_percent(idle) + " of the time no kernel runs.";
  return text;
}

}  // namespace onepass::tool
