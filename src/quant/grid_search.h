// A faster search for quantizers of whole files: of a grid's points only the neighbours of the
// nearest numbers are looked at. On the host only.
//
//   quantize_grid(x, importance, block, neighbours<Block::Grid>());
#ifndef ONEPASS_QUANT_GRID_SEARCH_H_
#define ONEPASS_QUANT_GRID_SEARCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "quant/grid_quantize.h"

namespace onepass::quant {

template <class Grid>
class Neighbours {
 public:
  Neighbours() : numbers_(std::size_t{Grid::points} * Grid::values) {
    for (int p = 0; p < Grid::points; ++p) {
      for (int j = 0; j < Grid::values; ++j) {
        numbers_[at(p) + static_cast<std::size_t>(j)] =
            static_cast<float>(Grid::number(grid_code<Grid>(Grid::words.at[p], j), 0));
      }
    }
    for (int code = 0; code + 1 < Grid::levels; ++code) {
      middles_[code] = 0.5f * static_cast<float>(Grid::number(code, 0) + Grid::number(code + 1, 0));
    }
    std::size_t keys = 1;
    for (int j = 0; j < Grid::values; ++j) keys *= Grid::levels;
    first_.push_back(0);
    for (std::size_t key = 0; key < keys; ++key) add(key);
  }

  // As nearest_point, of the points around; a point with the nearest number everywhere is it.
  GridPoint nearest(const float* x, const float* weights, float scale, int flip) const {
    float y[Grid::values];
    const float shift = static_cast<float>(Grid::number(0, flip) - Grid::number(0, 0)) * scale;
    std::size_t key = 0;
    for (int j = Grid::values - 1; j >= 0; --j) {
      y[j] = x[j] - shift;
      std::size_t code = 0;
      for (int k = 0; k + 1 < Grid::levels; ++k) code += y[j] > scale * middles_[k] ? 1 : 0;
      key = key * Grid::levels + code;
    }
    GridPoint best{0, -1.0f};
    for (std::size_t i = first_[key]; i < first_[key + 1]; ++i) {
      const float* n = &numbers_[at(points_[i])];
      float sums[4] = {};
      for (int h = 0; h < Grid::values; h += 4) {
        for (int l = 0; l < 4; ++l) {
          const float e = y[h + l] - scale * n[h + l];
          sums[l] += weights[h + l] * e * e;
        }
      }
      const float error = (sums[0] + sums[2]) + (sums[1] + sums[3]);
      if (best.error < 0.0f || error < best.error) best = {points_[i], error};
    }
    return best;
  }

 private:
  static constexpr std::size_t most = 16;  // neighbours
  static constexpr std::size_t at(int point) {
    return static_cast<std::size_t>(point) * Grid::values;
  }

  // The points around the codes of a key.
  void add(std::size_t key) {
    float wanted[Grid::values];
    for (int j = 0; j < Grid::values; ++j, key /= Grid::levels) {
      wanted[j] = static_cast<float>(Grid::number(static_cast<int>(key % Grid::levels), 0));
    }
    struct Point {
      float distance;
      std::uint16_t index;
    };
    std::vector<Point> all(Grid::points);
    for (int p = 0; p < Grid::points; ++p) {
      float distance = 0.0f;
      for (int j = 0; j < Grid::values; ++j) {
        const float d = wanted[j] - numbers_[at(p) + static_cast<std::size_t>(j)];
        distance += d * d;
      }
      all[static_cast<std::size_t>(p)] = {distance, static_cast<std::uint16_t>(p)};
    }
    const auto closer = [](const Point& a, const Point& b) {
      return a.distance != b.distance ? a.distance < b.distance : a.index < b.index;
    };
    std::nth_element(all.begin(), all.begin() + most, all.end(), closer);
    std::sort(all.begin(), all.begin() + most, closer);
    const std::size_t n = all[0].distance == 0.0f ? 1 : most;
    for (std::size_t i = 0; i < n; ++i) points_.push_back(all[i].index);
    first_.push_back(static_cast<std::uint32_t>(points_.size()));
  }

  std::vector<float> numbers_;        // of each point, where shifts are down
  float middles_[Grid::levels] = {};  // between the numbers of a code and the next
  std::vector<std::uint32_t> first_;  // of each key, of points_
  std::vector<std::uint16_t> points_;
};

// Made when it is first asked for.
template <class Grid>
const Neighbours<Grid>& neighbours() {
  static const Neighbours<Grid> all;
  return all;
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_GRID_SEARCH_H_
