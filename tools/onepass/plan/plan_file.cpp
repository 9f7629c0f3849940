#include "plan_file.h"

#include <algorithm>

#include "common/json_writer.h"
#include "common/order_text.h"
#include "common/print_to.h"
#include "core/os.h"
#include "io/json.h"
#include "onepass/version.h"

namespace onepass::tool {
namespace {

constexpr std::uint64_t file_version = 1;

tl::unexpected<Error> bad(const io::Json& at, const std::string& message,
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return fail(ErrorCode::parse, "plan: byte " + std::to_string(at.at()) + ": " + message, file,
              line);
}

Result<io::Json> member(const io::Json& object, const char* key, io::JsonKind kind) {
  const io::Json value = object[key];
  if (value.is_missing()) return bad(object, std::string("there is no '") + key + "'");
  if (!value.is(kind)) {
    return bad(value, std::string("'") + key + "' is of kind " + io::name(value.kind()) +
                          ", expected " + io::name(kind));
  }
  return value;
}
Result<std::uint64_t> integer(const io::Json& value, const char* what,
                              std::uint64_t most = ~std::uint64_t{0}) {
  const auto number = value.integer(most);
  if (number) return *number;
  return bad(value, std::string(what) + " is no whole number from 0 to " + std::to_string(most));
}
Result<std::uint64_t> integer_member(const io::Json& object, const char* key,
                                     std::uint64_t most = ~std::uint64_t{0}) {
  ONEPASS_ASSIGN(const io::Json value, member(object, key, io::JsonKind::number));
  return integer(value, key, most);
}
Result<std::string> text_member(const io::Json& object, const char* key) {
  ONEPASS_ASSIGN(const io::Json value, member(object, key, io::JsonKind::string));
  return std::string(*value.text());
}

Status parse_step(const io::Json& value, SavedPlan& plan) {
  if (!value.is(io::JsonKind::object)) return bad(value, "a step is no object");
  PlanStep step;
  ONEPASS_ASSIGN(step.kernel, text_member(value, "kernel"));
  if (!value["label"].is_missing()) {
    ONEPASS_ASSIGN(step.label, text_member(value, "label"));
  }
  const std::uint32_t previous = plan.steps.empty() ? 0 : plan.steps.back().level;
  const auto narrow = [](std::uint64_t n) { return static_cast<std::uint32_t>(n); };
  ONEPASS_ASSIGN(const std::uint64_t level,
                 integer_member(value, "level", plan.steps.empty() ? 0 : previous + 1));
  if (level < previous) return bad(value, "levels do not ascend");
  step.level = narrow(level);
  ONEPASS_ASSIGN(const std::uint64_t index, integer_member(value, "index", 0xffffffffu));
  step.index = narrow(index);
  ONEPASS_ASSIGN(const std::uint64_t tiles, integer_member(value, "tiles", 0xffffffffu));
  step.tiles = narrow(tiles);
  ONEPASS_ASSIGN(step.bytes_moved, integer_member(value, "bytes"));
  ONEPASS_ASSIGN(step.flops, integer_member(value, "flops"));
  ONEPASS_ASSIGN(const io::Json after, member(value, "after", io::JsonKind::array));
  for (const io::Json item : after.items()) {
    ONEPASS_ASSIGN(const std::uint64_t p, integer(item, "after"));
    if (p >= plan.steps.size() || plan.steps[p].level > step.level ||
        (plan.steps[p].level == step.level && !plan.steps[p].is_fence())) {
      return bad(item, "a step waits for one that is not before it");
    }
    step.after.push_back(narrow(p));
  }
  ONEPASS_ASSIGN(const io::Json arena, member(value, "arena", io::JsonKind::array));
  for (const io::Json item : arena.items()) {
    if (!item.is(io::JsonKind::array) || item.size() != 3) {
      return bad(item, "arena bytes are no [begin, end, write]");
    }
    auto part = item.items().begin();
    const io::Json begin = *part, end = *++part, written = *++part;
    PlanStep::ArenaUse use;
    ONEPASS_ASSIGN(use.end, integer(end, "the end of arena bytes", plan.arena_bytes));
    ONEPASS_ASSIGN(use.begin, integer(begin, "the begin of arena bytes", use.end));
    ONEPASS_ASSIGN(const std::uint64_t write, integer(written, "write", 1));
    use.write = write == 1;
    step.arena.push_back(use);
  }
  plan.steps.push_back(std::move(step));
  return {};
}

}  // namespace

std::uint32_t SavedPlan::dispatches() const noexcept {
  return static_cast<std::uint32_t>(
      std::count_if(steps.begin(), steps.end(), [](const PlanStep& s) { return !s.is_fence(); }));
}
std::uint32_t SavedPlan::levels() const noexcept {
  return steps.empty() ? 0 : steps.back().level + 1;
}
std::uint64_t SavedPlan::edges() const noexcept {
  std::uint64_t n = 0;
  for (const PlanStep& s : steps) n += s.after.size();
  return n;
}
std::string SavedPlan::counts_text() const {
  std::string text;
  print_to(text, "%u dispatches in %u levels, %llu edges", dispatches(), levels(),
           static_cast<unsigned long long>(edges()));
  return issued.empty() ? text : text + " (" + issued + " issued)";
}
std::uint64_t SavedPlan::bytes_moved() const noexcept {
  std::uint64_t n = 0;
  for (const PlanStep& s : steps) n += s.bytes_moved;
  return n;
}

SavedPlan saved_plan(const Plan& plan) {
  SavedPlan out;
  const PlanReport& r = plan.report();
  out.version = version();
  out.arena_bytes = r.arena_bytes;
  out.scratch_bytes = r.scratch_bytes;
  out.persistent_bytes = r.persistent_bytes;
  for (const FuseReport::Rule& rule : r.fused.rules) out.fused.emplace_back(rule.name, rule.count);
  out.issued = issued_text(r);
  out.steps = plan.steps();
  return out;
}

std::string plan_json(const SavedPlan& p) {
  JsonWriter json;
  json.begin_object().key("onepass_plan").value(file_version).key("version").value(p.version);
  json.key("model").value(p.model).key("device").value(p.device).key("rows").value(p.rows);
  json.key("fuse").value(p.fuse).key("policy").value(p.policy);
  json.key("arena_bytes").value(p.arena_bytes).key("scratch_bytes").value(p.scratch_bytes);
  json.key("persistent_bytes").value(p.persistent_bytes).key("fused").begin_object();
  for (const auto& [rule, count] : p.fused) json.key(rule).value(count);
  json.end_object().key("issued").value(p.issued).key("steps").begin_array();
  for (const PlanStep& s : p.steps) {
    json.begin_object().key("kernel").value(s.kernel);
    if (!s.label.empty()) json.key("label").value(s.label);
    json.key("index").value(s.index).key("level").value(s.level).key("tiles").value(s.tiles);
    json.key("bytes").value(s.bytes_moved).key("flops").value(s.flops);
    json.key("after").begin_array();
    for (const std::uint32_t i : s.after) json.value(i);
    json.end_array().key("arena").begin_array();
    for (const PlanStep::ArenaUse& use : s.arena) {
      json.begin_array().value(use.begin).value(use.end).value(use.write ? 1 : 0).end_array();
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().text() + "\n";
}

Result<SavedPlan> parse_plan(std::string_view text) {
  ONEPASS_ASSIGN(const io::JsonDocument document, io::JsonDocument::parse(text));
  const io::Json root = document.root();
  if (root["onepass_plan"].is_missing()) {
    return bad(root, "this is no plan; onepass plan save writes one");
  }
  ONEPASS_ASSIGN(const std::uint64_t made, integer_member(root, "onepass_plan"));
  if (made != file_version) {
    return bad(root, "a plan of format " + std::to_string(made) + ", expected " +
                         std::to_string(file_version));
  }
  SavedPlan plan;
  ONEPASS_ASSIGN(plan.version, text_member(root, "version"));
  ONEPASS_ASSIGN(plan.model, text_member(root, "model"));
  ONEPASS_ASSIGN(plan.device, text_member(root, "device"));
  ONEPASS_ASSIGN(plan.policy, text_member(root, "policy"));
  ONEPASS_ASSIGN(const std::uint64_t rows, integer_member(root, "rows", 0xffffffffu));
  plan.rows = static_cast<std::uint32_t>(rows);
  ONEPASS_ASSIGN(const io::Json fuse, member(root, "fuse", io::JsonKind::boolean));
  plan.fuse = *fuse.boolean();
  ONEPASS_ASSIGN(plan.arena_bytes, integer_member(root, "arena_bytes"));
  ONEPASS_ASSIGN(plan.scratch_bytes, integer_member(root, "scratch_bytes"));
  ONEPASS_ASSIGN(plan.persistent_bytes, integer_member(root, "persistent_bytes"));
  ONEPASS_ASSIGN(const io::Json fused, member(root, "fused", io::JsonKind::object));
  for (const io::JsonMember& rule : fused.members()) {
    ONEPASS_ASSIGN(const std::uint64_t count, integer(rule.value, "fused"));
    plan.fused.emplace_back(rule.key, count);
  }
  ONEPASS_ASSIGN(const io::Json steps, member(root, "steps", io::JsonKind::array));
  for (const io::Json step : steps.items()) ONEPASS_TRY(parse_step(step, plan));
  return plan;
}

Result<SavedPlan> read_plan(const std::string& path) {
  ONEPASS_ASSIGN(const os::File file, os::File::open(path));
  if (file.bytes() > max_plan_bytes) {
    return fail(ErrorCode::limit, path + ": " + std::to_string(file.bytes()) +
                                      " bytes, a plan has at most " +
                                      std::to_string(max_plan_bytes));
  }
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  ONEPASS_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  auto plan = parse_plan(text);
  if (!plan) {
    Error error = std::move(plan).error();
    error.message = path + ": " + error.message;
    return error;
  }
  return plan;
}

}  // namespace onepass::tool
