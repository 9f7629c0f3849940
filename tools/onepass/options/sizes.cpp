#include "sizes.h"

#include <cctype>
#include <limits>

namespace onepass::tool {
namespace {

constexpr std::string_view units = "kmgt";
constexpr std::size_t max_digits = 18;  // of what is left and right of the point together

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Result<std::optional<std::uint64_t>> parse_size(std::string_view text) {
  using Size = std::optional<std::uint64_t>;
  std::uint64_t digits = 0, divisor = 1;
  std::size_t i = 0, n_digits = 0;
  bool fraction = false;
  for (; i < text.size() && (is_digit(text[i]) || (text[i] == '.' && !fraction)); ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    if (++n_digits > max_digits) return Size();
    digits = digits * 10 + static_cast<std::uint64_t>(text[i] - '0');
    if (fraction) divisor *= 10;
  }
  if (n_digits == 0 || i == text.size()) return Size();
  const auto letter = [&](std::size_t at) {
    return at < text.size() ? static_cast<char>(std::tolower(static_cast<unsigned char>(text[at])))
                            : '\0';
  };
  const std::size_t unit = units.find(letter(i));
  if (unit == units.npos) return Size();
  ++i;
  if (letter(i) == 'i' && letter(i + 1) == 'b') i += 2;
  if (letter(i) == 'b') ++i;
  if (i != text.size()) return Size();
  // Both factors below 2^64: the product fits 128 bits.
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{digits} << (10 * (unit + 1));
  if (product % divisor != 0 || product / divisor > std::numeric_limits<std::uint64_t>::max()) {
    return fail(ErrorCode::invalid_argument,
                "'" + std::string(text) +
                    "' is no whole number below 2^64; k, M, G and T are powers of 1024");
  }
  return Size(static_cast<std::uint64_t>(product / divisor));
}

void accept_sizes(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_type_name().starts_with("UINT") || option->get_items_expected_max() == 0) {
      continue;
    }
    option->transform(CLI::Validator(
        [](std::string& text) -> std::string {
          const auto size = parse_size(text);
          if (!size) return size.error().message;
          if (*size) text = std::to_string(**size);
          return {};
        },
        ""));
  }
  for (CLI::App* command : app.get_subcommands(nullptr)) accept_sizes(*command);
}

}  // namespace onepass::tool
