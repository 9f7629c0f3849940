#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer/unicode.h"

namespace onepass::llm::text {
namespace {

constexpr std::uint32_t match_limit = 5'000'000;  // steps from one starting point
constexpr std::uint32_t heap_limit_kib = 64u << 10;
constexpr std::size_t max_pattern_bytes = 64u << 10;

// PCRE2's \s also has U+180E.
std::string with_own_space(std::string_view pattern) {
  constexpr std::string_view space = "\\t-\\r\\x{85}\\p{Z}";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's' && in_class) {
        out += space;
      } else if ((next == 's' || next == 'S') && !in_class) {
        out.append(next == 's' ? "[" : "[^").append(space) += ']';
      } else {
        (out += c) += next;
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      // A bracket right after the opening one stands for itself.
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
      continue;
    }
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string message_of(int code) {
  PCRE2_UCHAR buffer[160] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

struct FreeCode {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct FreeContext {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct FreeData {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
};

Regex::Regex(std::unique_ptr<Code> code) noexcept : code_(std::move(code)) {}
Regex::~Regex() = default;

Result<std::shared_ptr<const Regex>> Regex::compile(std::string_view pattern) {
  if (pattern.size() > max_pattern_bytes) {
    return fail(ErrorCode::limit, "regular expression has " + std::to_string(pattern.size()) +
                                      " bytes, at most " + std::to_string(max_pattern_bytes));
  }
  if (pattern.find("&&") != std::string_view::npos) {
    return fail(ErrorCode::unsupported, "regular expression with a class intersection (&&)");
  }
  const std::string text = with_own_space(pattern);
  int error = 0;
  PCRE2_SIZE error_at = 0;
  auto code = std::make_unique<Code>();
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                 &error, &error_at, nullptr));
  if (!code->code) {
    return fail(ErrorCode::parse, "regular expression '" + std::string(pattern) + "': " +
                                      message_of(error) + " at " + std::to_string(error_at));
  }
  // Without it matching is slower, not different.
  (void)pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);
  code->context.reset(pcre2_match_context_create(nullptr));
  if (!code->context) return fail(ErrorCode::out_of_memory, "out of memory");
  pcre2_set_match_limit(code->context.get(), match_limit);
  pcre2_set_heap_limit(code->context.get(), heap_limit_kib);
  return std::make_shared<const Regex>(std::move(code));
}

Status Regex::each_match(std::string_view text, Found found) const {
  std::string clean;
  std::vector<std::uint32_t> shift;  // bytes to subtract at each position of clean
  if (!is_valid_utf8(text)) {
    clean.reserve(text.size() + text.size() / 2);
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const Char c = decode(p, end);
      const auto back =
          static_cast<std::uint32_t>(clean.size() - static_cast<std::size_t>(p - text.data()));
      append_utf8(clean, c.value);
      shift.resize(clean.size(), back);
      p += c.bytes;
    }
    shift.push_back(static_cast<std::uint32_t>(clean.size() - text.size()));
  }
  const std::string_view subject = shift.empty() ? text : std::string_view(clean);
  const auto original = [&](std::size_t at) { return shift.empty() ? at : at - shift[at]; };

  std::unique_ptr<pcre2_match_data, FreeData> data(pcre2_match_data_create(1, nullptr));
  if (!data) return fail(ErrorCode::out_of_memory, "out of memory");
  const auto match = [&](std::size_t at, std::uint32_t options) {
    return pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()),
                       subject.size(), at, options | PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                       data.get(), code_->context.get());
  };
  for (std::size_t at = 0; at < subject.size();) {
    int rc = match(at, 0);
    // Compiled code runs on a small stack; the interpreter keeps its state on the heap.
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = match(at, PCRE2_NO_JIT);
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      return fail(ErrorCode::limit, "regular expression gave up at byte " +
                                        std::to_string(original(at)) + ": " + message_of(rc));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    // \K can put the start behind the end.
    if (range[0] < at || range[1] <= range[0]) {
      return fail(ErrorCode::unsupported, "regular expression that moves its match backwards");
    }
    if (!found(original(range[0]), original(range[1]))) break;
    at = range[1];
  }
  return {};
}

}  // namespace onepass::llm::text
