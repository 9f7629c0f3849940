#include "text/tokenizer/tables.h"

#include <algorithm>
#include <bit>

namespace onepass::llm::text {
namespace {

std::size_t cells_for(std::size_t n) { return std::bit_ceil(n * 2 + 2); }

tl::unexpected<Error> too_many_collisions() {
  return fail(ErrorCode::limit, "the vocabulary's texts or merges collide in a hash table");
}

}  // namespace

bool TextTable::insert(std::string_view text, std::uint32_t id) {
  const std::uint64_t hash = hash_bytes(text, seed_);
  const std::size_t mask = cells_.size() - 1;
  std::size_t i = static_cast<std::size_t>(hash) & mask;
  for (std::size_t probes = 0; probes < max_probes; ++probes, i = (i + 1) & mask) {
    Cell& cell = cells_[i];
    if (cell.id == no_id) {
      cell = {text.data(), static_cast<std::uint32_t>(text.size()), tag_of(hash), id};
      return true;
    }
    if (cell.tag == tag_of(hash) && std::string_view(cell.text, cell.size) == text) return true;
  }
  return false;
}

Status TextTable::build(const std::vector<std::string_view>& texts,
                        const std::vector<std::uint32_t>& ids) {
  for (const std::string_view text : texts) longest_ = std::max(longest_, text.size());
  for (seed_ = 0; seed_ < max_seeds; ++seed_) {
    cells_.assign(cells_for(texts.size()), Cell{});
    std::size_t i = 0;
    while (i < texts.size() && insert(texts[i], ids[i])) ++i;
    if (i == texts.size()) return {};
  }
  return too_many_collisions();
}

bool MergeTable::insert(const Entry& entry) {
  const std::uint64_t key = key_of(entry.left, entry.right);
  const std::size_t mask = cells_.size() - 1;
  std::size_t i = static_cast<std::size_t>(mix(key ^ seed_) >> 16) & mask;
  for (std::size_t probes = 0; probes < max_probes; ++probes, i = (i + 1) & mask) {
    Cell& cell = cells_[i];
    if (cell.merge.rank == no_id) {
      cell = {key, entry.merge};
      return true;
    }
    if (cell.key == key) return true;
  }
  return false;
}

Status MergeTable::build(const std::vector<Entry>& entries) {
  for (seed_ = 0; seed_ < max_seeds; ++seed_) {
    cells_.assign(cells_for(entries.size()), Cell{});
    std::size_t i = 0;
    while (i < entries.size() && insert(entries[i])) ++i;
    if (i == entries.size()) return {};
  }
  return too_many_collisions();
}

}  // namespace onepass::llm::text
