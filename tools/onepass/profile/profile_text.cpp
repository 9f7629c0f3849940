#include <algorithm>
#include <cstdio>

#include "common/json_writer.h"
#include "common/order_text.h"
#include "common/print_to.h"
#include "onepass/version.h"
#include "profile.h"

namespace onepass::tool {
namespace {

double us(std::uint64_t ns) { return static_cast<double>(ns) * 1e-3; }

double share(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }
double share(std::uint64_t part, std::uint64_t whole) {
  return share(static_cast<double>(part), static_cast<double>(whole));
}

double tokens_per_second(const PassProfile& g) {
  return share(static_cast<double>(g.tokens) * 1e9, static_cast<double>(g.total_ns));
}
double bytes_per_second(const PassProfile& g) {
  return share(static_cast<double>(g.bytes) * 1e9, static_cast<double>(g.total_ns));
}

std::string percent(double x) {
  char text[24];
  std::snprintf(text, sizeof text, "%.1f", x * 100.0);
  return text;
}

// Of memory; what is faster than it came from caches.
std::string roof_text(double rate, double roof) {
  if (roof <= 0.0 || rate <= 0.0) return "-";
  return rate > roof ? "cache" : percent(rate / roof);
}

void put_roof_share(JsonWriter& json, double rate, double roof) {
  const bool in_cache = roof > 0.0 && rate > roof;
  json.key("roof_share");
  roof > 0.0 && rate > 0.0 && !in_cache ? json.value(rate / roof) : json.null();
  json.key("in_cache").value(in_cache);
}

std::string trace_us(std::uint64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%llu.%03u", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned>(ns % 1000));
  return text;
}

// Forms follow the name of a kernel after a plus.
bool is_generic(const ModelProfile& p, const KernelTimes& k) {
  const std::string name = k.name.substr(0, k.name.find('+'));
  return std::find(p.generic_kernels.begin(), p.generic_kernels.end(), name) !=
         p.generic_kernels.end();
}
double generic_share(const ModelProfile& p, const PassProfile& g) {
  std::uint64_t ns = 0;
  for (const KernelTimes& k : g.kernels) ns += is_generic(p, k) ? k.total_ns : 0;
  return share(ns, g.total_ns);
}

}  // namespace

std::string profile_text(const ModelProfile& p) {
  std::string out = verdict(p) + "\n";
  for (const PassProfile& g : p.groups) {
    out += '\n';
    const TimedPass& shown = p.passes[g.shown];
    print_to(out, "%s: %zu pass%s, %u dispatches and %s each, median %.1f us, %.1f tokens/s\n",
             g.name.c_str(), g.passes.size(), g.passes.size() == 1 ? "" : "es", g.report.dispatches,
             issued_text(g.report).c_str(), us(shown.ns()), tokens_per_second(g));
    if (p.roof > 0.0) {
      const double rate = bytes_per_second(g);
      const std::string part =
          rate > p.roof ? "in cache, memory gives" : percent(share(rate, p.roof)) + " % of";
      print_to(out, "%.1f GB/s, %s %.1f GB/s (%s)\n", rate * 1e-9, part.c_str(), p.roof * 1e-9,
               p.roof_how.c_str());
    }
    std::size_t width = 14;
    for (const KernelTimes& k : g.kernels) width = std::max(width, k.name.size());
    const int w = static_cast<int>(std::min<std::size_t>(width, 60));
    print_to(out, "%-*s %8s %12s %9s %9s %7s %7s\n", w, "kernel", "count", "us", "us each", "GB/s",
             "time %", "roof %");
    for (const KernelTimes& k : g.kernels) {
      const std::string roof = roof_text(k.bytes_per_second(), p.roof);
      print_to(out, "%-*.*s %8llu %12.1f %9.2f %9.2f %7s %7s\n", w, w, k.name.c_str(),
               static_cast<unsigned long long>(k.count), us(k.total_ns),
               us(k.total_ns) / static_cast<double>(k.count), k.bytes_per_second() * 1e-9,
               percent(share(k.total_ns, g.total_ns)).c_str(), roof.c_str());
    }
    const std::uint64_t idle = g.total_ns - std::min(g.total_ns, g.busy_ns);
    print_to(out, "%-*s %8s %12.1f %9s %9s %7s %7s\n", w, "between kernels", "", us(idle), "", "",
             percent(share(idle, g.total_ns)).c_str(), "");
    if (const double slow = generic_share(p, g); slow > 0.0) {
      print_to(out, "slow: generic kernels took %s %% of the time\n", percent(slow).c_str());
    }
  }
  if (p.dropped > 0) {
    out += std::to_string(p.dropped) + " dispatches were not sampled\n";
  }
  return out;
}

std::string profile_json(const ModelProfile& p) {
  JsonWriter json;
  const auto known = [&](double x) { x > 0.0 ? json.value(x) : json.null(); };
  json.begin_object().key("verdict").value(verdict(p));
  json.key("build_version").value(version()).key("model").value(p.model);
  json.key("model_type").value(p.model_type).key("device").value(p.device);
  json.key("device_description").value(p.device_description).key("threads").value(p.threads);
  json.key("roof_bytes_per_second");
  known(p.roof);
  json.key("roof_how").value(p.roof_how).key("dropped").value(p.dropped);
  json.key("lanes").value(p.n_lanes).key("passes").begin_array();
  for (const PassProfile& g : p.groups) {
    json.begin_object().key("name").value(g.name).key("passes").value(g.passes.size());
    json.key("rows").value(g.rows).key("tokens").value(g.tokens);
    json.key("dispatches").value(g.report.dispatches).key("barriers").value(g.report.barriers);
    json.key("levels").value(g.report.levels).key("edges").value(g.report.edges);
    json.key("order").value(order_name(g.report.order));
    json.key("edges_issued").value(g.report.edges_issued);
    json.key("programmatic").value(g.report.programmatic).key("added").value(g.report.added);
    json.key("arena_bytes").value(g.report.arena_bytes);
    json.key("scratch_bytes").value(g.report.scratch_bytes);
    json.key("median_us").value(us(p.passes[g.shown].ns()));
    json.key("total_us").value(us(g.total_ns)).key("busy_us").value(us(g.busy_ns));
    json.key("tokens_per_second").value(tokens_per_second(g));
    json.key("bytes").value(g.bytes).key("bytes_per_second").value(bytes_per_second(g));
    put_roof_share(json, bytes_per_second(g), p.roof);
    json.key("generic_share").value(generic_share(p, g));
    json.key("samples_us").begin_array();
    for (const std::uint32_t i : g.passes) json.value(us(p.passes[i].ns()));
    json.end_array().key("kernels").begin_array();
    for (const KernelTimes& k : g.kernels) {
      json.begin_object().key("name").value(k.name).key("count").value(k.count);
      const char* fusion = fusion_of(k.name, g.report.fused);
      json.key("fusion");
      fusion != nullptr ? json.value(fusion) : json.null();
      json.key("generic").value(is_generic(p, k));
      json.key("total_us").value(us(k.total_ns)).key("min_us").value(us(k.min_ns));
      json.key("max_us").value(us(k.max_ns)).key("bytes").value(k.bytes);
      json.key("bytes_per_second").value(k.bytes_per_second());
      json.key("time_share").value(share(k.total_ns, g.total_ns));
      put_roof_share(json, k.bytes_per_second(), p.roof);
      json.end_object();
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().text() + "\n";
}

std::string trace_json(const ModelProfile& p) {
  constexpr unsigned process = 1;
  std::uint64_t zero = ~std::uint64_t{0};
  for (const TimedPass& pass : p.passes) zero = std::min(zero, pass.start_ns);
  JsonWriter json;
  json.begin_object().key("displayTimeUnit").value("ns").key("otherData").begin_object();
  json.key("model").value(p.model).key("device").value(p.device_description);
  json.key("onepass").value(version()).end_object().key("traceEvents").begin_array();
  const auto name_event = [&](const char* what, unsigned thread, const std::string& name) {
    json.begin_object().key("ph").value("M").key("name").value(what).key("pid").value(process);
    json.key("tid").value(thread).key("args").begin_object().key("name").value(name);
    json.end_object().end_object();
  };
  const auto slice = [&](const std::string& name, const char* category, unsigned thread,
                         std::uint64_t start, std::uint64_t end) {
    json.begin_object().key("ph").value("X").key("name").value(name).key("cat").value(category);
    json.key("pid").value(process).key("tid").value(thread);
    json.key("ts").number(trace_us(start - zero)).key("dur").number(trace_us(end - start));
  };
  name_event("process_name", 0, "onepass " + p.device);
  name_event("thread_name", 0, "passes");
  for (std::uint32_t lane = 0; lane < p.n_lanes; ++lane) {
    name_event("thread_name", lane + 1, p.lane_name(lane));
  }
  for (const TimedPass& pass : p.passes) {
    slice(pass.label, "pass", 0, pass.start_ns, pass.end_ns);
    json.key("args").begin_object().key("dispatches").value(pass.n_samples);
    json.end_object().end_object();
    for (std::uint32_t i = pass.first_slice; i < pass.first_slice + pass.n_slices; ++i) {
      const TimeSlice& s = p.slices[i];
      const DispatchSample& sample = p.samples[s.sample];
      slice(sample.name, "kernel", s.lane + 1, s.start_ns, s.end_ns);
      json.key("args").begin_object().key("dispatch").value(sample.index);
      if (!sample.group.empty()) json.key("group").value(sample.group);
      json.key("bytes").value(sample.bytes_moved).end_object().end_object();
    }
  }
  return json.end_array().end_object().text() + "\n";
}

}  // namespace onepass::tool
