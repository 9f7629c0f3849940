#include "info_diff.h"

#include <algorithm>
#include <map>

#include "common/json_writer.h"
#include "common/terminal.h"

namespace onepass::tool {
namespace {

constexpr std::uint64_t compared_bytes = std::uint64_t{1} << 20;

// Matches by name; equal(i, k) decides about two of one name.
template <class Row, class Name, class Equal>
Status match(const std::vector<Row>& before, const std::vector<Row>& after, Name&& name,
             Equal&& equal, InfoDiff::Part& out) {
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < after.size(); ++i) known.emplace(name(after[i]), i);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto found = known.find(name(before[i]));
    if (found == known.end()) {
      out.removed.push_back(i);
      continue;
    }
    InfoDiff::Pair pair{i, found->second};
    known.erase(found);
    ONEPASS_ASSIGN(const bool is_equal, equal(pair));
    if (is_equal) {
      ++out.equal;
    } else {
      out.changed.push_back(pair);
    }
  }
  for (const auto& [text, i] : known) out.added.push_back(i);
  std::sort(out.added.begin(), out.added.end());
  return {};
}

Result<bool> equal_bytes(const ModelInfo& a, const ModelInfo& b, const TensorInfo& t) {
  if (!a.read || !b.read) return true;  // made from the same shape
  std::vector<std::byte> left(static_cast<std::size_t>(std::min(t.bytes, compared_bytes)));
  std::vector<std::byte> right(left.size());
  for (std::uint64_t at = 0; at < t.bytes; at += left.size()) {
    if (interrupted()) return fail(ErrorCode::cancelled, "interrupted while comparing");
    const auto n = static_cast<std::size_t>(std::min(t.bytes - at, compared_bytes));
    left.resize(n);
    right.resize(n);
    ONEPASS_TRY(a.read(t.name, at, left));
    ONEPASS_TRY(b.read(t.name, at, right));
    if (left != right) return false;
  }
  return true;
}

std::string tensor_text(const TensorInfo& t) { return t.name + "  " + shape_text(t); }
std::string entry_text(const MetadataEntry& e) { return e.key + " (" + e.type + ") = " + e.shown; }

void put_tensor(JsonWriter& json, const TensorInfo& t) {
  json.begin_object().key("name").value(t.name).key("type").value(t.type);
  json.key("dims").begin_array();
  for (const std::uint64_t d : t.dims) json.value(d);
  json.end_array().end_object();
}
void put_entry(JsonWriter& json, const MetadataEntry& e) {
  json.begin_object().key("key").value(e.key).key("type").value(e.type);
  json.key("value").value(e.shown).end_object();
}

template <class Row, class Put>
void put_part(JsonWriter& json, const InfoDiff::Part& part, const std::vector<Row>& before,
              const std::vector<Row>& after, Put&& put_row) {
  json.begin_object().key("equal").value(part.equal).key("removed").begin_array();
  for (const std::size_t i : part.removed) put_row(json, before[i]);
  json.end_array().key("added").begin_array();
  for (const std::size_t i : part.added) put_row(json, after[i]);
  json.end_array().key("changed").begin_array();
  for (const InfoDiff::Pair& p : part.changed) {
    json.begin_object().key("before");
    put_row(json, before[p.before]);
    json.key("after");
    put_row(json, after[p.after]);
    json.key("values_differ").value(p.values).end_object();
  }
  json.end_array().end_object();
}

}  // namespace

Result<InfoDiff> diff_models(const ModelInfo& before, const ModelInfo& after) {
  InfoDiff diff;
  const auto family = [](const ModelInfo& m) { return m.format.substr(0, m.format.find(' ')); };
  diff.formats_differ = family(before) != family(after);
  if (diff.formats_differ) return diff;
  ONEPASS_TRY(match(
      before.metadata, after.metadata, [](const MetadataEntry& e) { return e.key; },
      [&](InfoDiff::Pair& p) -> Result<bool> {
        const MetadataEntry &a = before.metadata[p.before], &b = after.metadata[p.after];
        p.values = a.type == b.type && a.exact != b.exact;
        return a.type == b.type && a.exact == b.exact;
      },
      diff.metadata));
  ProgressBar bar("comparing");
  std::uint64_t done = 0;
  ONEPASS_TRY(match(
      before.list, after.list, [](const TensorInfo& t) { return t.name; },
      [&](InfoDiff::Pair& p) -> Result<bool> {
        const TensorInfo &a = before.list[p.before], &b = after.list[p.after];
        bar.show(done, before.bytes);
        done += a.bytes;
        if (a.type != b.type || a.dims != b.dims) return false;
        ONEPASS_ASSIGN(const bool equal, equal_bytes(before, after, a));
        p.values = !equal;
        return equal;
      },
      diff.tensors));
  return diff;
}

std::string diff_text(const ModelInfo& before, const ModelInfo& after, const InfoDiff& diff) {
  if (diff.formats_differ) {
    return "the formats differ, " + before.format + " and " + after.format +
           ": names cannot be compared ('onepass convert' makes one of the other)\n";
  }
  std::string out;
  const auto line = [&out](const char* mark, const std::string& text) {
    out += std::string(mark) + " " + text + "\n";
  };
  for (const std::size_t i : diff.metadata.removed) line("-", entry_text(before.metadata[i]));
  for (const std::size_t i : diff.metadata.added) line("+", entry_text(after.metadata[i]));
  for (const InfoDiff::Pair& p : diff.metadata.changed) {
    const MetadataEntry &a = before.metadata[p.before], &b = after.metadata[p.after];
    if (a.type == b.type && a.shown == b.shown) {
      line("~", entry_text(a) + ", another value behind what is shown");
    } else {
      line("~", entry_text(a) + " -> " + (a.type == b.type ? "" : "(" + b.type + ") ") + b.shown);
    }
  }
  for (const std::size_t i : diff.tensors.removed) line("-", tensor_text(before.list[i]));
  for (const std::size_t i : diff.tensors.added) line("+", tensor_text(after.list[i]));
  for (const InfoDiff::Pair& p : diff.tensors.changed) {
    const TensorInfo &a = before.list[p.before], &b = after.list[p.after];
    line("~", tensor_text(a) + (p.values ? ", other values" : " -> " + shape_text(b)));
  }
  return out + (diff.same() ? "equal: " : "the rest is equal: ") +
         std::to_string(diff.metadata.equal) + " metadata entries, " +
         std::to_string(diff.tensors.equal) + " tensors\n";
}

std::string diff_json(const ModelInfo& before, const ModelInfo& after, const InfoDiff& diff) {
  JsonWriter json;
  json.begin_object().key("same").value(diff.same());
  json.key("before").value(before.path).key("after").value(after.path);
  json.key("formats_differ").value(diff.formats_differ).key("metadata");
  put_part(json, diff.metadata, before.metadata, after.metadata, put_entry);
  json.key("tensors");
  put_part(json, diff.tensors, before.list, after.list, put_tensor);
  return json.end_object().text() + "\n";
}

}  // namespace onepass::tool
