// Reference quantizers of the grid formats. Beside what quant/grid.h asks for, a Block has
// top_scale (its largest n), seven_signs or shift_span (values that share a shift), and the
// functions put_half, put_scale, put_point, and put_signs (of 8 values) or put_up (of a point),
// which write into zero bits.
#ifndef ONEPASS_QUANT_GRID_QUANTIZE_H_
#define ONEPASS_QUANT_GRID_QUANTIZE_H_

#include "quant/grid.h"

namespace onepass::quant {

// Errors of what the low and the high byte of a word stand for.
struct GridErrors {
  float of[2][256];
};
template <class Grid>
OP_FN void find_errors(const float* x, const float* weights, float scale, int flip,
                       GridErrors& errors) {
  constexpr int bits = Grid::values == 8 ? 2 : 4;
  for (int h = 0; h < 2; ++h) {
    float* of = errors.of[h];
    for (int i = 0; i < 256; ++i) of[i] = 0.0f;
    for (int at = 0; at < 8; at += bits) {
      const int j = h + 2 * (at / bits);  // the value at this place of the byte
      for (int code = Grid::levels - 1; code >= 0; --code) {
        const float e = x[j] - scale * static_cast<float>(Grid::number(code, flip));
        for (int i = 0; i < 1 << at; ++i) of[i | code << at] = of[i] + weights[j] * e * e;
      }
    }
  }
}

// How many values share the choice of a shift and have one scale.
template <class Block>
OP_FN constexpr int shared_values() {
  if constexpr (Block::Grid::has_signs) {
    return Block::span;
  } else {
    return Block::shift_span < Block::span ? Block::shift_span : Block::span;
  }
}

struct GridPoint {
  int index;
  float error;
};
template <class Grid>
OP_FN GridPoint nearest_point(const float* x, const float* weights, float scale, int flip) {
  GridErrors errors;
  find_errors<Grid>(x, weights, scale, flip, errors);
  GridPoint best{0, -1.0f};
  for (int i = 0; i < Grid::points; ++i) {
    const int word = grid_word<Grid>(i);
    const float error = errors.of[0][word & 255] + errors.of[1][word >> 8];
    if (i == 0 || error < best.error) best = {i, error};
  }
  return best;
}

// Looks at every point; what quantize_grid takes to find the nearest one.
template <class Grid>
struct EveryPoint {
  OP_FN GridPoint nearest(const float* x, const float* weights, float scale, int flip) const {
    return nearest_point<Grid>(x, weights, scale, flip);
  }
};

// Sums over weights, numbers q and values x: the best scale is xq / qq.
struct GridSums {
  float xq = 0.0f, qq = 0.0f;
};
OP_FN void add_number(float x, float weight, float q, GridSums& sums) {
  sums.xq += weight * x * q;
  sums.qq += weight * q * q;
}
template <class Grid>
OP_FN void add_point(const float* x, const float* weights, int index, int flip, float factor,
                     GridSums& sums) {
  const int word = grid_word<Grid>(index);
  for (int j = 0; j < Grid::values; ++j) {
    const int q = Grid::number(grid_code<Grid>(word, j), flip);
    add_number(x[j], weights[j], factor * static_cast<float>(q), sums);
  }
}

// The nearest of all numbers, as if every point were in the grid.
template <class Grid>
OP_FN GridSums free_sums(const float* x, const float* weights, int n, float scale) {
  GridSums best;
  float best_error = -1.0f;
  for (int flip = 0; flip < 2; ++flip) {
    GridSums sums;
    float error = 0.0f;
    for (int i = 0; i < n; ++i) {
      float nearest = -1.0f, q = 0.0f;
      for (int code = 0; code < Grid::levels; ++code) {
        const float number = static_cast<float>(Grid::number(code, flip));
        const float e = x[i] - scale * number;
        if (nearest < 0.0f || e * e < nearest) {
          nearest = e * e;
          q = number;
        }
      }
      error += weights[i] * nearest;
      add_number(x[i], weights[i], q, sums);
    }
    if (flip == 0 || error < best_error) {
      best = sums;
      best_error = error;
    }
  }
  return best;
}

// Of the scales that put the extreme near the grid's end, the least squares fit with the smallest
// error; of grids without signs, of points that need not be in it.
template <class Block, class Search>
OP_FN float fit_grid(const float* x, const float* weights, [[maybe_unused]] const Search& search) {
  using Grid = typename Block::Grid;
  const float extreme = magnitude(extreme_of(x, Block::span));
  if (extreme == 0.0f) return 0.0f;
  float best_scale = 0.0f, best_gain = -1.0f;
  for (int step = 0; step < 9; ++step) {
    const float target = Grid::first_target + Grid::target_step * static_cast<float>(step);
    const float scale = extreme / target;
    GridSums sums;
    if constexpr (Grid::has_signs) {
      for (int i = 0; i < Block::span; i += Grid::values) {
        const GridPoint p = search.nearest(x + i, weights + i, scale, 0);
        add_point<Grid>(x + i, weights + i, p.index, 0, 1.0f, sums);
      }
    } else {
      constexpr int span = shared_values<Block>();
      for (int i = 0; i < Block::span; i += span) {
        const GridSums part = free_sums<Grid>(x + i, weights + i, span, scale);
        sums.xq += part.xq;
        sums.qq += part.qq;
      }
    }
    if (sums.xq > 0.0f && sums.xq * sums.xq > best_gain * sums.qq) {
      best_gain = sums.xq * sums.xq / sums.qq;
      best_scale = sums.xq / sums.qq;
    }
  }
  return best_scale;
}

// Turns x into magnitudes and stores their signs. Where seven are stored for 8 values and the
// number of minus signs is odd, the value that matters least gets the wrong sign.
template <class Block>
OP_FN void take_signs(const float* weights, float* x, Block& block) {
  for (int i = 0; i < Block::elements / 8; ++i) {
    int signs = 0, odd = 0, least = 0;
    for (int j = 0; j < 8; ++j) {
      float& y = x[8 * i + j];
      if (y < 0.0f) {
        y = -y;
        signs |= 1 << j;
        odd ^= 1;
      }
      const float& z = x[8 * i + least];
      if (weights[8 * i + j] * y * y < weights[8 * i + least] * z * z) least = j;
    }
    if (Block::seven_signs && odd != 0) {
      signs ^= 1 << least;
      x[8 * i + least] = -x[8 * i + least];
    }
    put_signs(block, i, signs);
  }
}

// The points of values that share a shift, and of grids without signs the shift.
template <class Block, class Search>
OP_FN void take_points(const float* x, const float* weights, int begin, int count, float scale,
                       float factor, const Search& search, GridSums& sums, Block& block) {
  using Grid = typename Block::Grid;
  constexpr int flips = Grid::has_signs ? 1 : 2, max = 32 / Grid::values;
  int points[flips][max] = {}, flip = 0;
  float errors[flips] = {};
  for (int f = 0; f < flips; ++f) {
    for (int i = 0; i < count; i += Grid::values) {
      const GridPoint p = search.nearest(x + begin + i, weights + begin + i, scale, f);
      points[f][i / Grid::values] = p.index;
      errors[f] += p.error;
    }
    if (errors[f] < errors[flip]) flip = f;
  }
  for (int i = 0; i < count; i += Grid::values) {
    const int at = (begin + i) / Grid::values, index = points[flip][i / Grid::values];
    put_point(block, at, index);
    if constexpr (!Grid::has_signs) put_up(block, at, flip);
    add_point<Grid>(x + begin + i, weights + begin + i, index, flip, factor, sums);
  }
}

template <class Block, class Search>
OP_FN void quantize_grid(const float* values, const float* importance, Block& block,
                         const Search& search) {
  using Grid = typename Block::Grid;
  constexpr int n = Block::elements, span = Block::span;
  float x[n], weights[n], fits[n / span], top = 0.0f;
  block = Block{};
  for (int i = 0; i < n; ++i) x[i] = values[i];
  weigh(x, importance, n, root_mean_square(x, n), weights);
  if constexpr (Grid::has_signs) take_signs(weights, x, block);
  for (int i = 0; i < n / span; ++i) {
    fits[i] = fit_grid<Block>(x + span * i, weights + span * i, search);
    if (fits[i] > top) top = fits[i];
  }
  const float most = Block::unit * static_cast<float>(2 * Block::top_scale + 1);
  const float d = Block::unit * ops::op_f16_to_f32(ops::op_f32_to_f16(top / most));
  const float inverse = inverse_or_zero(d);
  GridSums sums;
  for (int i = 0; i < n / span; ++i) {
    const int s = round_to(0.5f * (fits[i] * inverse - 1.0f), 0, Block::top_scale);
    put_scale(block, i, s);
    const float factor = static_cast<float>(2 * s + 1);
    constexpr int shared = shared_values<Block>();
    for (int j = 0; j < span; j += shared) {
      take_points(x, weights, span * i + j, shared, d * factor, factor, search, sums, block);
    }
  }
  // With the numbers chosen, the best d.
  const float best = sums.qq > 0.0f ? sums.xq / (sums.qq * Block::unit) : 0.0f;
  put_half(block, static_cast<std::uint16_t>(ops::op_f32_to_f16(top > 0.0f ? best : 0.0f)));
}

template <class Block>
OP_FN void quantize_grid(const float* values, const float* importance, Block& block) {
  quantize_grid(values, importance, block, EveryPoint<typename Block::Grid>{});
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_GRID_QUANTIZE_H_
