#include "device_choice.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace onepass::tool {
namespace {

constexpr std::size_t min_text = 3;

bool contains(std::string_view text, std::string_view part) {
  const auto equal = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), equal) != text.end();
}

}  // namespace

Result<std::string> find_device(const std::string& text, std::span<const DeviceListing> listed) {
  if (text.size() < min_text) return std::string();
  std::vector<const DeviceListing*> found;
  for (const DeviceListing& l : listed) {
    if (l.name != "null" && contains(l.description, text)) found.push_back(&l);
  }
  if (found.empty()) return std::string();
  if (found.size() > 1) {
    std::string names;
    for (const DeviceListing* l : found) {
      names += (names.empty() ? "" : ", ") + l->name + " (" + l->description + ")";
    }
    return fail(ErrorCode::invalid_argument,
                "device '" + text + "' may be any of " + names + "; give its name");
  }
  if (!found[0]->available) {
    return fail(ErrorCode::not_found, "device '" + text + "' is " + found[0]->name +
                                          ", which is refused: " + found[0]->reason);
  }
  return found[0]->name;
}

}  // namespace onepass::tool
