#include <time.h>

#include <cstdio>
#include <limits>

#include "text/template/filters.h"
#include "text/template/interpreter.h"

namespace onepass::llm::chat {
namespace {

using In = Interpreter;

Result<Value> make_range(In& in, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("range", args, {"start", "stop", "step"}));
  if (!a[0]) return fail(ErrorCode::invalid_argument, "range needs a number");
  ONEPASS_ASSIGN(const std::int64_t one, integer_or(a[0], 0));
  ONEPASS_ASSIGN(const std::int64_t two, integer_or(a[1], 0));
  ONEPASS_ASSIGN(const std::int64_t step, integer_or(a[2], 1));
  if (step == 0) return fail(ErrorCode::invalid_argument, "range: the step is 0");
  const std::int64_t begin = a[1] ? one : 0, end = a[1] ? two : one;
  std::vector<Value> items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (items.size() == in.limits().range) {
      return fail(ErrorCode::limit,
                  "range has more than " + std::to_string(in.limits().range) + " numbers");
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return in.sequence(SequenceKind::range, std::move(items));
}

// dict(mapping, name=value, ...)
Result<std::vector<std::pair<Value, Value>>> entries_from(In& in, Args& args) {
  std::vector<std::pair<Value, Value>> entries;
  if (args.positional.size() > 1) {
    return fail(ErrorCode::invalid_argument, "takes one dict, then names with values");
  }
  if (!args.positional.empty()) {
    const Dict* dict = args.positional[0].mapping();
    if (dict == nullptr) {
      return fail(ErrorCode::unsupported, std::string("a dict made from ") +
                                              args.positional[0].type_name() + " is not supported");
    }
    ONEPASS_TRY(in.budget().pay(dict->entries.size()));
    entries = dict->entries;
  }
  for (auto& [name, value] : args.named) entries.emplace_back(Value(name), std::move(value));
  return entries;
}

Result<Value> make_dict(In& in, Args& args) {
  ONEPASS_ASSIGN(auto entries, entries_from(in, args));
  ONEPASS_TRY(in.budget().pay(entries.size()));
  return Value::dict(std::move(entries));
}

Result<Value> make_namespace(In& in, Args& args) {
  ONEPASS_ASSIGN(const Value made, make_dict(in, args));
  auto names = std::make_unique<Namespace>();
  for (const auto& [name, value] : made.mapping()->entries) {
    if (name.is_text()) names->attributes.emplace_back(std::string(name.bytes()), value);
  }
  ONEPASS_ASSIGN(Namespace* const owned, in.own(std::move(names)));
  return Value(static_cast<Object*>(owned));
}

Result<Value> make_joiner(In& in, Args& args) {
  ONEPASS_ASSIGN(auto a, bind("joiner", args, {"sep"}));
  auto joiner = std::make_unique<Joiner>();
  joiner->separator = a[0] ? std::move(*a[0]) : Value(", ");
  ONEPASS_ASSIGN(Joiner* const owned, in.own(std::move(joiner)));
  return Value(static_cast<Object*>(owned));
}

Result<Value> raise_exception(In& in, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("raise_exception", args, {"message"}));
  std::string message;
  if (a[0]) {
    ONEPASS_ASSIGN(message, to_text(*a[0], in.budget()));
  }
  return fail(ErrorCode::invalid_argument, "the template refuses the conversation: " + message);
}

constexpr const char* months[] = {"January",   "February", "March",    "April",
                                  "May",       "June",     "July",     "August",
                                  "September", "October",  "November", "December"};
constexpr const char* days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                "Thursday", "Friday", "Saturday"};

Result<std::string> conversion(const tm& t, char letter, bool padded) {
  char buffer[64];
  const auto number = [&](int value, int width) {
    std::snprintf(buffer, sizeof buffer, "%0*d", padded ? width : 1, value);
    return std::string(buffer);
  };
  const auto month = static_cast<std::size_t>(t.tm_mon), day = static_cast<std::size_t>(t.tm_wday);
  const int hour12 = (t.tm_hour + 11) % 12 + 1;
  switch (letter) {
    case 'Y':
      return number(t.tm_year + 1900, 1);
    case 'y':
      return number(t.tm_year % 100, 2);
    case 'm':
      return number(t.tm_mon + 1, 2);
    case 'd':
      return number(t.tm_mday, 2);
    case 'e':
      std::snprintf(buffer, sizeof buffer, "%2d", t.tm_mday);
      return std::string(buffer);
    case 'H':
      return number(t.tm_hour, 2);
    case 'I':
      return number(hour12, 2);
    case 'M':
      return number(t.tm_min, 2);
    case 'S':
      return number(t.tm_sec, 2);
    case 'j':
      return number(t.tm_yday + 1, 3);
    case 'B':
      return std::string(months[month % 12]);
    case 'b':
      return std::string(months[month % 12]).substr(0, 3);
    case 'A':
      return std::string(days[day % 7]);
    case 'a':
      return std::string(days[day % 7]).substr(0, 3);
    case 'p':
      return std::string(t.tm_hour < 12 ? "AM" : "PM");
    case 'F':
      std::snprintf(buffer, sizeof buffer, "%d-%02d-%02d", t.tm_year + 1900, t.tm_mon + 1,
                    t.tm_mday);
      return std::string(buffer);
    case 'T':
      std::snprintf(buffer, sizeof buffer, "%02d:%02d:%02d", t.tm_hour, t.tm_min, t.tm_sec);
      return std::string(buffer);
    case '%':
      return std::string("%");
    default:
      return fail(ErrorCode::unsupported,
                  std::string("strftime_now: conversion %") + letter + " is not supported");
  }
}

Result<Value> strftime_now(In& in, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("strftime_now", args, {"format"}));
  if (!a[0] || !a[0]->is_text()) {
    return fail(ErrorCode::invalid_argument, "strftime_now needs a format");
  }
  const time_t now = static_cast<time_t>(in.now());
  tm parts = {};
  if (localtime_r(&now, &parts) == nullptr) {
    return fail(ErrorCode::invalid_argument, "strftime_now: the time is out of range");
  }
  const std::string_view format = a[0]->bytes();
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool padded = format[++i] != '-';
    if (!padded && i + 1 < format.size()) ++i;
    ONEPASS_ASSIGN(const std::string part, conversion(parts, format[i], padded));
    out += part;
  }
  return in.text(std::move(out));
}

constexpr Function table[] = {
    {"dict", make_dict},           {"joiner", make_joiner},
    {"namespace", make_namespace}, {"raise_exception", raise_exception},
    {"range", make_range},         {"strftime_now", strftime_now},
};

}  // namespace

const Function* find_function(std::string_view name) noexcept {
  for (const Function& function : table) {
    if (name == function.name) return &function;
  }
  return nullptr;
}

}  // namespace onepass::llm::chat
