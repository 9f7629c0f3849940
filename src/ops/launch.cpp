#include "ops/launch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace onepass::ops {

std::uint64_t product(std::initializer_list<std::uint64_t> factors) noexcept {
  std::uint64_t p = 1;
  for (const std::uint64_t f : factors) {
    if (f == 0) return 0;
    if (__builtin_mul_overflow(p, f, &p)) p = std::numeric_limits<std::uint64_t>::max();
  }
  return p;
}

std::uint64_t matrix_bytes(Format format, std::uint64_t rows, std::uint64_t cols) noexcept {
  return storage_bytes(format, rows, cols).value_or(std::numeric_limits<std::uint64_t>::max());
}

std::uint32_t tiles_for(std::uint64_t units, std::uint64_t unit_elements) noexcept {
  constexpr std::uint64_t tile_elements = 16384, max_tiles = 4096;
  const std::uint64_t wanted = product({units, unit_elements}) / tile_elements;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(std::min({units, wanted, max_tiles}), 1, max_tiles));
}

void cover(Launch& launch, std::uint64_t n, std::uint32_t threads) noexcept {
  const std::uint64_t groups = n / threads + (n % threads != 0 ? 1 : 0);
  launch.grid = {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(groups, 1, max_cuda_grid_x)),
                 1, 1};
  launch.group = {threads, 1, 1};
}

Status expect_views(const Dispatch& d, std::initializer_list<std::uint64_t> needs) {
  if (d.n_views != needs.size()) {
    return fail(ErrorCode::invalid_argument,
                std::string(info(d.op).name) + ": " + std::to_string(d.n_views) +
                    " views, expected " + std::to_string(needs.size()),
                d.file, d.line);
  }
  return expect_views(d, std::span(needs.begin(), needs.size()));
}

Status expect_views(const Dispatch& d, std::span<const std::uint64_t> needs) {
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const std::uint64_t bytes = i < d.n_views ? d.views[i].bytes : 0;
    if (bytes >= needs[i]) continue;
    return fail(ErrorCode::invalid_argument,
                std::string(info(d.op).name) + ": view " + std::to_string(i) + " has " +
                    std::to_string(bytes) + " bytes, its params need " + std::to_string(needs[i]),
                d.file, d.line);
  }
  return {};
}

std::uint64_t view_bytes(const Dispatch& d) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < d.n_views && i < max_views; ++i) sum += d.views[i].bytes;
  return sum;
}

}  // namespace onepass::ops
