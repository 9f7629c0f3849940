#include <algorithm>
#include <map>

#include "common/json_writer.h"
#include "common/order_text.h"
#include "onepass/version.h"
#include "page_template.h"
#include "profile.h"

namespace onepass::tool {
namespace {

// Kernel names once, steps by number.
class Names {
 public:
  std::size_t of(const std::string& name) {
    const auto [at, inserted] = numbers_.emplace(name, list_.size());
    if (inserted) list_.push_back(name);
    return at->second;
  }
  void write(JsonWriter& json, const FuseReport& fused) const {
    json.key("names").begin_array();
    for (const std::string& name : list_) json.value(name);
    json.end_array().key("fusions").begin_array();
    for (const std::string& name : list_) {
      const char* fusion = fusion_of(name, fused);
      fusion != nullptr ? json.value(fusion) : json.null();
    }
    json.end_array();
  }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> list_;
};

void write_report(JsonWriter& json, const char* key, const PlanReport& r) {
  json.key(key).begin_object();
  json.key("dispatches").value(r.dispatches).key("levels").value(r.levels);
  json.key("issued").value(issued_text(r)).key("edges").value(r.edges);
  json.key("hazard_edges").value(r.hazard_edges).key("moved").value(r.moved);
  json.key("arena_bytes").value(r.arena_bytes).key("scratch_bytes").value(r.scratch_bytes);
  json.key("rules").begin_array();
  for (const FuseReport::Rule& rule : r.fused.rules) {
    json.begin_array().value(rule.name).value(rule.count).end_array();
  }
  json.end_array().end_object();
}

void write_steps(JsonWriter& json, const std::vector<PlanStep>& steps, Names& names) {
  json.begin_array();
  for (const PlanStep& s : steps) {
    json.begin_object().key("k").value(names.of(s.kernel)).key("l").value(s.level);
    if (!s.label.empty()) json.key("t").value(s.label);
    json.key("n").value(s.tiles).key("b").value(s.bytes_moved).key("a").begin_array();
    for (const std::uint32_t p : s.after) json.value(p);
    json.end_array().key("m").begin_array();
    for (const PlanStep::ArenaUse& use : s.arena) {
      json.begin_array().value(use.begin).value(use.end).value(use.write ? 1 : 0).end_array();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void write_pass(JsonWriter& json, const ModelProfile& p, const PassProfile& g) {
  const TimedPass& shown = p.passes[g.shown];
  Names names;
  json.begin_object().key("name").value(g.name).key("rows").value(g.rows);
  json.key("count").value(g.passes.size()).key("tokens").value(g.tokens);
  json.key("total_ns").value(g.total_ns).key("busy_ns").value(g.busy_ns);
  json.key("bytes").value(g.bytes).key("shown_ns").value(shown.ns());
  json.key("pass_ns").begin_array();
  for (const std::uint32_t i : g.passes) json.value(p.passes[i].ns());
  json.end_array().key("kernels").begin_array();
  for (const KernelTimes& k : g.kernels) {
    json.begin_object().key("name").value(k.name).key("count").value(k.count);
    json.key("ns").value(k.total_ns).key("min").value(k.min_ns).key("max").value(k.max_ns);
    json.key("bytes").value(k.bytes).end_object();
  }
  // Slices name dispatches by their place among those of the pass.
  json.end_array().key("slices").begin_array();
  for (std::uint32_t i = shown.first_slice; i < shown.first_slice + shown.n_slices; ++i) {
    const TimeSlice& s = p.slices[i];
    json.begin_array().value(s.lane).value(s.sample - shown.first_sample);
    json.value(s.start_ns - shown.start_ns).value(s.end_ns - s.start_ns).end_array();
  }
  json.end_array().key("dispatches").begin_array();
  for (std::uint32_t i = shown.first_sample; i < shown.first_sample + shown.n_samples; ++i) {
    const DispatchSample& s = p.samples[i];
    json.begin_array().value(names.of(s.name)).value(s.start_ns - shown.start_ns);
    json.value(s.end_ns - s.start_ns).value(s.bytes_moved).end_array();
  }
  json.end_array().key("steps");
  write_steps(json, g.steps, names);
  json.key("unfused_steps");
  write_steps(json, g.unfused_steps, names);
  names.write(json, g.report.fused);
  write_report(json, "report", g.report);
  write_report(json, "unfused", g.unfused);
  write_report(json, "greedy", g.greedy);
  json.end_object();
}

}  // namespace

std::string profile_page(const ModelProfile& p) {
  JsonWriter json;
  json.begin_object()
      .key("verdict")
      .value(verdict(p))
      .key("version")
      .value(version())
      .key("model")
      .value(p.model);
  json.key("model_type").value(p.model_type).key("device").value(p.device);
  json.key("device_description").value(p.device_description).key("threads").value(p.threads);
  json.key("roof").value(p.roof).key("roof_how").value(p.roof_how);
  json.key("lanes").begin_array();
  for (std::uint32_t lane = 0; lane < p.n_lanes; ++lane) json.value(p.lane_name(lane));
  json.end_array().key("passes").begin_array();
  for (const PassProfile& g : p.groups) write_pass(json, p, g);
  json.end_array().end_object();
  constexpr std::string_view mark = "ONEPASS_PROFILE_DATA";
  const std::string_view page = page_template();
  const std::size_t at = page.find(mark);
  std::string out(page.substr(0, at));
  // No tag can begin in the data.
  for (const char c : json.text()) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out.append(page.substr(at + mark.size()));
}

}  // namespace onepass::tool
