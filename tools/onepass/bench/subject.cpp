#include "subject.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <numeric>

#include "machine/machine.h"

namespace onepass::tool {

Subject subject_of(const std::string& file, const llm::Model& model, const std::string& kv) {
  const DeviceInfo& device = model.device().info();
  Subject s;
  s.file = file;
  s.model = facts_of(model);
  s.device = device.description;
  s.backend = device.name.substr(0, device.name.find(':'));
  for (char& c : s.backend) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  s.kv = kv;
  s.threads = device.compute_units;
  if (s.backend != "CPU") {
    for (const std::string& line : driver_versions()) {
      s.driver += (s.driver.empty() ? "" : "; ") + line;
    }
  }
  return s;
}

std::vector<Field> fields_of(const Subject& s) {
  return {{"build_version", std::string(version())},
          {"build_commit", commit_name()},
          {"build_type", build_name()},
          {"compiler", compiler_name()},
          {"system", system_name()},
          {"backend", s.backend},
          {"device", s.device},
          {"driver", s.driver},
          {"model_filename", s.file},
          {"model_type", s.model.type},
          {"model_size", s.model.bytes},
          {"model_n_params", s.model.parameters},
          {"n_threads", std::uint64_t{s.threads}},
          {"type_kv", s.kv}};
}

std::string Mean::text() const {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f ± %.2f", mean, deviation);
  return text;
}

Mean mean_of(const std::vector<double>& values) {
  Mean m;
  if (values.empty()) return m;
  const auto n = static_cast<double>(values.size());
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  for (const double x : values) m.deviation += (x - m.mean) * (x - m.mean);
  m.deviation = values.size() > 1 ? std::sqrt(m.deviation / (n - 1.0)) : 0.0;
  return m;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

std::vector<double> speeds_of(std::uint32_t tokens, const std::vector<double>& ns) {
  std::vector<double> speeds;
  for (const double x : ns) speeds.push_back(static_cast<double>(tokens) * 1e9 / x);
  return speeds;
}

std::vector<std::uint32_t> random_tokens(std::size_t n, std::uint32_t vocab) {
  std::vector<std::uint32_t> ids(n);
  std::uint64_t state = 1;
  for (std::uint32_t& id : ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<std::uint32_t>((state >> 33) % vocab);
  }
  return ids;
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Status put_err(std::string_view text) {
  std::cerr << text << std::flush;
  return {};
}

}  // namespace onepass::tool
