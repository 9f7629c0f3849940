// What was meant by a word that is not known.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace onepass::tool {

// Letters to insert, drop, replace or swap with their neighbour to get from a to b.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to the word, the first of equals; empty where none is near.
std::string closest(std::string_view word, std::span<const std::string> candidates);

// "; did you mean 'X'?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace onepass::tool
