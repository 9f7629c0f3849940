// The page of a profile, profile_page.html, compiled in.
#pragma once

#include <string_view>

namespace onepass::tool {

// Has ONEPASS_PROFILE_DATA once, where the data goes.
std::string_view page_template();

}  // namespace onepass::tool
