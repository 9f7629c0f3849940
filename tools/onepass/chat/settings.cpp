#include "settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "common/shortest.h"
#include "options/suggest.h"

namespace onepass::tool {
namespace {

template <class T>
bool read_number(const std::string& text, T& out) {
  return !text.empty() && CLI::detail::lexical_cast(text, out);
}

bool read_switch(const std::string& text, bool& out) {
  if (text != "on" && text != "off") return false;
  out = text == "on";
  return true;
}

bool read_full(const std::string& text, WhenFull& out) {
  const auto* const found = std::find(std::begin(when_full_names), std::end(when_full_names), text);
  if (found == std::end(when_full_names)) return false;
  out = static_cast<WhenFull>(found - std::begin(when_full_names));
  return true;
}

struct Setting {
  const char *name, *expected;
  std::string (*show)(const ChatSettings&);
  bool (*read)(const std::string&, ChatSettings&);
};

std::string on_off(bool value) { return value ? "on" : "off"; }

const Setting setting_rows[] = {
    {"temp", "a number of 0 or more",
     [](const ChatSettings& s) { return shortest(s.sampling.temperature); },
     [](const std::string& v, ChatSettings& s) { return read_number(v, s.sampling.temperature); }},
    {"top-k", "a whole number",
     [](const ChatSettings& s) { return std::to_string(s.sampling.top_k); },
     [](const std::string& v, ChatSettings& s) { return read_number(v, s.sampling.top_k); }},
    {"top-p", "a number above 0, up to 1",
     [](const ChatSettings& s) { return shortest(s.sampling.top_p); },
     [](const std::string& v, ChatSettings& s) { return read_number(v, s.sampling.top_p); }},
    {"min-p", "a number from 0 to 1",
     [](const ChatSettings& s) { return shortest(s.sampling.min_p); },
     [](const std::string& v, ChatSettings& s) { return read_number(v, s.sampling.min_p); }},
    {"seed", "a whole number",
     [](const ChatSettings& s) { return std::to_string(s.sampling.seed); },
     [](const std::string& v, ChatSettings& s) { return read_number(v, s.sampling.seed); }},
    {"n", "the most tokens of an answer", [](const ChatSettings& s) { return std::to_string(s.n); },
     [](const std::string& v, ChatSettings& s) { return read_number(v, s.n) && s.n > 0; }},
    {"full", "refuse, drop or restart",
     [](const ChatSettings& s) {
       return std::string(when_full_names[static_cast<std::size_t>(s.when_full)]);
     },
     [](const std::string& v, ChatSettings& s) { return read_full(v, s.when_full); }},
    {"stats", "on or off", [](const ChatSettings& s) { return on_off(s.stats); },
     [](const std::string& v, ChatSettings& s) { return read_switch(v, s.stats); }},
    {"wrap", "on or off", [](const ChatSettings& s) { return on_off(s.wrap); },
     [](const std::string& v, ChatSettings& s) { return read_switch(v, s.wrap); }},
};

}  // namespace

std::string list_settings(const ChatSettings& settings) {
  std::string text;
  for (const Setting& row : setting_rows) {
    const std::string name = row.name;
    text += name + std::string(8 - name.size(), ' ') + row.show(settings) + "\n";
  }
  return text;
}

Status change_setting(ChatSettings& settings, const std::string& text) {
  const std::size_t end = std::min(text.find_first_of(" =\t"), text.size());
  const std::size_t begin = text.find_first_not_of(" =\t", end);
  const std::string name = text.substr(0, end);
  const std::string value = begin == text.npos ? "" : text.substr(begin);
  std::vector<std::string> names;
  for (const Setting& row : setting_rows) {
    names.emplace_back(row.name);
    if (name != row.name) continue;
    ChatSettings changed = settings;
    if (!row.read(value, changed)) {
      return fail(ErrorCode::invalid_argument,
                  name + ": '" + value + "', expected " + row.expected);
    }
    ONEPASS_TRY(llm::check(changed.sampling));
    settings = std::move(changed);
    return {};
  }
  return fail(ErrorCode::invalid_argument,
              "there is no setting '" + name + "'" + did_you_mean(name, names));
}

}  // namespace onepass::tool
