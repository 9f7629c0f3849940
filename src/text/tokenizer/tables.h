// Hash tables that are filled once and then only read: token text -> id, symbol pair -> merge.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "onepass/result.h"

namespace onepass::llm::text {

inline constexpr std::uint32_t no_id = ~std::uint32_t{0};

inline std::uint64_t mix(std::uint64_t h) noexcept {
  h *= 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

inline std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0) noexcept {
  std::uint64_t h = mix(seed ^ text.size());
  const char* p = text.data();
  std::size_t n = text.size();
  std::uint64_t word = 0;
  for (; n >= 8; n -= 8, p += 8) {
    std::memcpy(&word, p, 8);
    h = mix(h ^ word);
  }
  word = 0;
  if (n > 0) std::memcpy(&word, p, n);
  return mix(mix(h ^ word));
}

// Both tables probe linearly and change their seed when a chain gets long, so a file cannot make
// them quadratic.
inline constexpr std::size_t max_probes = 1024;
inline constexpr std::uint64_t max_seeds = 16;

// Views of token texts, which must outlive it.
class TextTable {
 public:
  // Of equal texts the first one counts.
  Status build(const std::vector<std::string_view>& texts, const std::vector<std::uint32_t>& ids);

  std::uint32_t find(std::string_view text) const noexcept {
    if (cells_.empty() || text.size() > longest_) return no_id;
    const std::uint64_t hash = hash_bytes(text, seed_);
    const std::size_t mask = cells_.size() - 1;
    for (std::size_t i = static_cast<std::size_t>(hash) & mask;; i = (i + 1) & mask) {
      const Cell& cell = cells_[i];
      if (cell.id == no_id) return no_id;
      if (cell.tag == tag_of(hash) && cell.size == text.size() &&
          std::memcmp(cell.text, text.data(), text.size()) == 0) {
        return cell.id;
      }
    }
  }
  std::size_t longest() const noexcept { return longest_; }

 private:
  struct Cell {
    const char* text = nullptr;
    std::uint32_t size = 0;
    std::uint32_t tag = 0;
    std::uint32_t id = no_id;
  };
  static std::uint32_t tag_of(std::uint64_t hash) noexcept {
    return static_cast<std::uint32_t>(hash >> 32);
  }
  bool insert(std::string_view text, std::uint32_t id);

  std::vector<Cell> cells_;
  std::size_t longest_ = 0;
  std::uint64_t seed_ = 0;
};

struct Merge {
  std::uint32_t rank = no_id;
  std::uint32_t result = no_id;
};

class MergeTable {
 public:
  struct Entry {
    std::uint32_t left, right;
    Merge merge;
  };
  // Of equal pairs the first one counts.
  Status build(const std::vector<Entry>& entries);

  Merge find(std::uint32_t left, std::uint32_t right) const noexcept {
    if (cells_.empty()) return {};
    const std::uint64_t key = key_of(left, right);
    const std::size_t mask = cells_.size() - 1;
    for (std::size_t i = static_cast<std::size_t>(mix(key ^ seed_) >> 16) & mask;;
         i = (i + 1) & mask) {
      const Cell& cell = cells_[i];
      if (cell.merge.rank == no_id || cell.key == key) return cell.merge;
    }
  }

 private:
  struct Cell {
    std::uint64_t key = 0;
    Merge merge;
  };
  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) noexcept {
    return std::uint64_t{left} << 32 | right;
  }
  bool insert(const Entry& entry);

  std::vector<Cell> cells_;
  std::uint64_t seed_ = 0;
};

}  // namespace onepass::llm::text
