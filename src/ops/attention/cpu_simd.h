// Attention for one instruction set. Up to four queries that share a kv head go over a chunk of
// keys together: scores, maximum, weights, weighted sum of the values. Every query's arithmetic is
// the same as if it were alone:
//   score     element i of the head in lane i % 16, fma in order, sum over lanes; times scale
//   sum       weight of key j in lane j % 16, in order, sum over lanes
//   values    fma over the keys in order
// and chunks are folded into the result in order.
#ifndef OP_ISA

#include "core/kernel_row.h"
#include "ops/attention/kernels.h"
#include "ops/attention/launch_tiling.h"
#include "ops/attention/params.h"
#include "ops/shared/cache.h"
#include "ops/shared/cpu.h"

#else

#include "ops/shared/simd16_rows.h"

namespace onepass::ops::OP_ISA {

inline constexpr int max_queries = 4;
// Keys whose scores are computed together: as many as there are registers for.
inline constexpr int key_block = Simd::max_rows >= 8 ? 4 : 1;
// Keys whose values stay in the first-level cache while all parts of the head are done.
inline constexpr std::uint32_t value_block = 32;

// Vector j of a row in the cache, of n elements; scales as row_scales left them.
template <class T>
OP_INLINE Simd::F cached(const std::byte* row, std::size_t j, std::size_t n, const float*,
                         const T*) {
  return load_some(reinterpret_cast<const T*>(row) + 16 * j, n);
}
OP_INLINE Simd::F cached(const std::byte* row, std::size_t j, std::size_t, const float* scales,
                         const quant::BlockQ8_0*) {
  const std::byte* block = row + j / 2 * sizeof(quant::BlockQ8_0);
  return Simd::mul(Simd::to_float(Simd::load_i8(block + 2 + j % 2 * 16)),
                   Simd::set1(scales[j / 2]));
}

// Scales of the up to 16 blocks of a row.
inline constexpr std::size_t max_scales = max_head_dim / 32;
template <class T>
OP_INLINE void row_scales(const std::byte*, std::size_t, float*, const T*) {}
OP_INLINE void row_scales(const std::byte* row, std::size_t head_dim, float* scales,
                          const quant::BlockQ8_0*) {
  std::uint16_t halves[max_scales] = {};
  for (std::size_t i = 0; i < head_dim / 32; ++i) {
    std::memcpy(halves + i, row + i * sizeof(quant::BlockQ8_0), 2);
  }
  Simd::store(scales, Simd::load_f16(halves));
}

OP_INLINE DType cache_type(const float*) { return DType::f32; }
OP_INLINE DType cache_type(const F16*) { return DType::f16; }
OP_INLINE DType cache_type(const quant::BlockQ8_0*) { return DType::q8_0; }

// Up to four queries and one chunk.
struct ChunkWork {
  std::uint32_t head_dim;
  float scale, softcap;
  const std::byte* keys;
  const std::byte* values;
  std::uint64_t key_bytes, value_bytes;                 // per row
  std::uint32_t begin, end;                             // keys any query sees
  std::uint32_t first[max_queries], last[max_queries];  // keys [first, last) of each
  std::uint64_t rows[key_chunk];                        // of the cache
  float q[max_queries][max_head_dim];                   // zeros up to a multiple of 16
  float weights[max_queries][key_chunk];
  float top[max_queries], sum[max_queries];
  float acc[max_queries][max_head_dim];
  float value_scales[value_block][max_scales];
};

// Rows that are asked for before they are needed: reading on demand alone leaves the memory idle
// while a core computes.
inline constexpr std::uint64_t rows_ahead = 32;
// Asks for Vectors vectors from vector j of the row that lies rows_ahead after this one; there need
// not be one.
template <class T, int Vectors>
OP_INLINE void fetch_ahead(const std::byte* row, std::uint64_t row_bytes, std::size_t j) {
  constexpr std::size_t vector =
      std::is_same_v<T, quant::BlockQ8_0> ? sizeof(T) / 2 : 16 * sizeof(T);
  const std::uintptr_t at =
      reinterpret_cast<std::uintptr_t>(row) + rows_ahead * row_bytes + vector * j;
  for (std::size_t i = 0; i < vector * Vectors; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(at + i));
  }
}

// Products of Keys rows from key `key` with Q queries, by lane: sums[query * stride + i].
template <class K, int Q, int Keys>
OP_INLINE void dot_products(const ChunkWork& w, std::uint32_t key, Simd::F* sums, int stride) {
  using S = Simd;
  constexpr const K* type = nullptr;
  const std::byte* row[Keys];
  float scales[Keys][max_scales];
  for (std::uint32_t i = 0; i < Keys; ++i) {
    row[i] = w.keys + w.rows[key + i] * w.key_bytes;
    row_scales(row[i], w.head_dim, scales[i], type);
  }
  S::F acc[Q][Keys];
  for (int i = 0; i < Q; ++i) {
    for (int j = 0; j < Keys; ++j) acc[i][j] = S::zero();
  }
  const std::size_t whole = w.head_dim / 16;
  for (std::size_t v = 0; v < whole; ++v) {
    S::F k[Keys];
    for (int j = 0; j < Keys; ++j) {
      k[j] = cached(row[j], v, 16, scales[j], type);
      if (v % 2 == 0) fetch_ahead<K, 2>(row[j], w.key_bytes, v);
    }
    for (int i = 0; i < Q; ++i) {
      const S::F q = S::load(w.q[i] + 16 * v);
      for (int j = 0; j < Keys; ++j) acc[i][j] = S::fma(q, k[j], acc[i][j]);
    }
  }
  if (const std::size_t rest = w.head_dim % 16; rest != 0) {
    for (int j = 0; j < Keys; ++j) {
      const S::F k = cached(row[j], whole, rest, scales[j], type);
      for (int i = 0; i < Q; ++i) {
        acc[i][j] = S::fma(S::load(w.q[i] + 16 * whole), k, acc[i][j]);
      }
    }
  }
  for (int i = 0; i < Q; ++i) {
    for (int j = 0; j < Keys; ++j) sums[i * stride + j] = acc[i][j];
  }
}

// Products of all keys with the queries, not scaled: w.weights.
template <class K, int Q>
OP_INLINE void chunk_products(ChunkWork& w) {
  using S = Simd;
  constexpr int group = Q == 1 ? 16 : Q == 2 ? 8 : 4;  // keys whose lanes are summed together
  std::uint32_t key = w.begin;
  for (; key + group <= w.end; key += group) {
    S::F sums[16];
    for (int i = Q * group; i < 16; ++i) sums[i] = S::zero();
    for (int j = 0; j < group; j += key_block) {
      dot_products<K, Q, key_block>(w, key + static_cast<std::uint32_t>(j), sums + j, group);
    }
    float lanes[16];
    S::store(lanes, S::sums(sums));
    for (int i = 0; i < Q; ++i) {
      std::memcpy(w.weights[i] + key, lanes + i * group, group * sizeof(float));
    }
  }
  for (; key < w.end; ++key) {
    S::F sums[Q];
    dot_products<K, Q, 1>(w, key, sums, 1);
    for (int i = 0; i < Q; ++i) w.weights[i][key] = S::sum(sums[i]);
  }
}

// Scores of the keys, minus infinity for those a query does not see, and their maxima.
template <class K, int Q>
OP_INLINE void chunk_scores(ChunkWork& w) {
  using S = Simd;
  chunk_products<K, Q>(w);
  const S::F hidden = S::set1(-__builtin_inff()), scale = S::set1(w.scale);
  const S::F lane = S::to_float(S::iota());
  const std::uint32_t begin = w.begin / 16 * 16, end = (w.end + 15) / 16 * 16;
  for (int i = 0; i < Q; ++i) {
    for (std::uint32_t key = begin; key < w.begin; ++key) w.weights[i][key] = 0.0f;
    for (std::uint32_t key = w.end; key < end; ++key) w.weights[i][key] = 0.0f;
    S::F top = hidden;
    for (std::uint32_t at = begin; at < end; at += 16) {
      S::F s = S::mul(S::load(w.weights[i] + at), scale);
      if (w.softcap != 0.0f) s = softcap(s, S::set1(w.softcap));
      if (at < w.first[i] || at + 16 > w.last[i]) {
        const S::F low = S::set1(static_cast<float>(w.first[i]) - static_cast<float>(at));
        const S::F high = S::set1(static_cast<float>(w.last[i]) - static_cast<float>(at));
        s = S::select(S::ge(lane, low), S::select(S::lt(lane, high), s, hidden), hidden);
      }
      S::store(w.weights[i] + at, s);
      top = S::max(s, top);
    }
    w.top[i] = S::max_lane(top);
  }
}

// Scores become weights.
template <int Q>
OP_INLINE void chunk_weights(ChunkWork& w) {
  using S = Simd;
  for (int i = 0; i < Q; ++i) {
    // Scores of minus infinity alone have no maximum to subtract.
    const S::F base = S::set1(w.top[i] > -__builtin_inff() ? w.top[i] : 0.0f);
    S::F sum = S::zero();
    for (std::uint32_t at = w.begin / 16 * 16; at < w.end; at += 16) {
      const S::F e = exp(S::sub(S::load(w.weights[i] + at), base));
      S::store(w.weights[i] + at, e);
      sum = S::add(sum, e);
    }
    w.sum[i] = S::sum(sum);
  }
}

// acc += weight * value over keys [begin, end) for queries i0 .. i0 + Q and vectors j0 .. j0 + N,
// the last of n elements.
template <class V, int Q, int N>
OP_INLINE void add_values(ChunkWork& w, int i0, std::uint32_t begin, std::uint32_t end,
                          std::size_t j0, std::size_t n) {
  using S = Simd;
  S::F acc[Q][N];
  for (int i = 0; i < Q; ++i) {
    for (std::size_t j = 0; j < N; ++j) acc[i][j] = S::load(w.acc[i0 + i] + 16 * (j0 + j));
  }
  for (std::uint32_t key = begin; key < end; ++key) {
    const std::byte* row = w.values + w.rows[key] * w.value_bytes;
    fetch_ahead<V, N>(row, w.value_bytes, j0);
    S::F v[N];
    const float* scales = w.value_scales[key - begin];
    for (std::size_t j = 0; j < N; ++j) {
      v[j] = cached(row, j0 + j, n, scales, static_cast<const V*>(nullptr));
    }
    for (int i = 0; i < Q; ++i) {
      const S::F weight = S::set1(w.weights[i0 + i][key]);
      for (int j = 0; j < N; ++j) acc[i][j] = S::fma(weight, v[j], acc[i][j]);
    }
  }
  for (int i = 0; i < Q; ++i) {
    for (std::size_t j = 0; j < N; ++j) S::store(w.acc[i0 + i] + 16 * (j0 + j), acc[i][j]);
  }
}

template <class V, int Q>
OP_INLINE void add_values(ChunkWork& w, int i0, std::uint32_t begin, std::uint32_t end) {
  constexpr int together = Simd::max_rows >= 8 ? 4 : 1;
  const std::size_t whole = w.head_dim / 16;
  for (std::uint32_t at = begin; at < end; at += value_block) {
    const std::uint32_t to = at + value_block < end ? at + value_block : end;
    for (std::uint32_t key = at; key < to; ++key) {
      row_scales(w.values + w.rows[key] * w.value_bytes, w.head_dim, w.value_scales[key - at],
                 static_cast<const V*>(nullptr));
    }
    std::size_t j = 0;
    for (; j + together <= whole; j += together) {
      add_values<V, Q, together>(w, i0, at, to, j, 16);
    }
    if constexpr (together > 1) {
      for (; j < whole; ++j) add_values<V, Q, 1>(w, i0, at, to, j, 16);
    }
    if (w.head_dim % 16 != 0) add_values<V, Q, 1>(w, i0, at, to, whole, w.head_dim % 16);
  }
}

// A key that a query does not see may hold anything: it is left out, not weighted with 0.
template <class V, int Q>
OP_NOINLINE void chunk_values(ChunkWork& w) {
  std::uint32_t begin = w.begin, end = w.end;  // seen by all that see any
  for (int i = 0; i < Q; ++i) {
    for (std::size_t j = 0; j < w.head_dim; j += 16) Simd::store(w.acc[i] + j, Simd::zero());
    if (w.first[i] >= w.last[i]) continue;
    begin = w.first[i] > begin ? w.first[i] : begin;
    end = w.last[i] < end ? w.last[i] : end;
  }
  if (end < begin) end = begin;
  for (int i = 0; i < Q; ++i) {
    const std::uint32_t to = w.last[i] < begin ? w.last[i] : begin;
    if (w.first[i] < to) add_values<V, 1>(w, i, w.first[i], to);
  }
  if (begin < end) add_values<V, Q>(w, 0, begin, end);
  for (int i = 0; i < Q; ++i) {
    const std::uint32_t from = w.first[i] > end ? w.first[i] : end;
    if (from < w.last[i]) add_values<V, 1>(w, i, from, w.last[i]);
  }
}

template <class K, int Q>
OP_NOINLINE void chunk_keys(ChunkWork& w) {
  chunk_scores<K, Q>(w);
  chunk_weights<Q>(w);
}

using ChunkFn = void (*)(ChunkWork&);
template <class K>
OP_INLINE void choose_keys(ChunkFn* by_queries) {
  by_queries[1] = chunk_keys<K, 1>;
  by_queries[2] = chunk_keys<K, 2>;
  by_queries[3] = chunk_keys<K, 3>;
  by_queries[4] = chunk_keys<K, 4>;
}
template <class V>
OP_INLINE void choose_values(ChunkFn* by_queries) {
  by_queries[1] = chunk_values<V, 1>;
  by_queries[2] = chunk_values<V, 2>;
  by_queries[3] = chunk_values<V, 3>;
  by_queries[4] = chunk_values<V, 4>;
}

// The result so far of one query, or of one chunk: maximum and sum of weights relative to it,
// values from float 16.
OP_INLINE void clear_part(float* part, std::size_t head_dim) {
  part[0] = -__builtin_inff();
  part[1] = 0.0f;
  for (std::size_t j = 0; j < head_dim; j += 16) Simd::store(part + 16 + j, Simd::zero());
}

OP_INLINE void fold(float* into, float top, float sum, const float* values, std::size_t head_dim) {
  using S = Simd;
  const float highest = top > into[0] ? top : into[0];
  const float base = highest > -__builtin_inff() ? highest : 0.0f;
  const float old_scale = op_exp(into[0] - base), new_scale = op_exp(top - base);
  into[0] = highest;
  into[1] = into[1] * old_scale + sum * new_scale;
  const S::F shrink = S::set1(old_scale), grow = S::set1(new_scale);
  for (std::size_t j = 0; j < head_dim; j += 16) {
    const S::F kept = S::mul(S::load(into + 16 + j), shrink);
    S::store(into + 16 + j, S::fma(S::load(values + j), grow, kept));
  }
}

// Values of a finished query, in place. The sink is one more score with no value.
OP_INLINE void finish_query(float* part, const float* sink, std::size_t head_dim) {
  using S = Simd;
  float total = part[1];
  S::F scale = S::set1(1.0f);
  if (sink != nullptr) {
    const float highest = *sink > part[0] ? *sink : part[0];
    const float base = highest > -__builtin_inff() ? highest : 0.0f;
    const float factor = op_exp(part[0] - base);
    total = part[1] * factor + op_exp(*sink - base);
    scale = S::set1(factor);
  }
  // No keys, or none with weight: zeros.
  const bool none = total == 0.0f;
  const S::F divisor = S::set1(none ? 1.0f : total);
  for (std::size_t j = 0; j < head_dim; j += 16) {
    const S::F x = none ? S::zero() : S::mul(S::load(part + 16 + j), scale);
    S::store(part + 16 + j, S::div(x, divisor));
  }
}

struct AttentionTile {
  const KernelArgs& a;
  const AttentionParams& p;
  AttentionTiling tiling;
  CachePlaces places;
  StepReader step;
  std::uint64_t shares;   // tiles that share the chunks of a row
  std::uint64_t n_parts;  // kept per query
  std::uint64_t group;    // queries per kv head
  std::uint64_t row_begin, row_end, kv_head, share;
  ChunkFn keys[max_queries + 1], values[max_queries + 1];  // by number of queries

  OP_INLINE float* part(std::uint64_t row, std::uint64_t head, std::uint64_t i) const {
    const std::uint64_t at = (row * p.heads + head) * n_parts + i;
    return reinterpret_cast<float*>(a.scratch) + at * tiling.part_floats;
  }
};

// One chunk for up to four consecutive queries, from query i0 of rows that share a slot.
OP_INLINE void attend_chunk(const AttentionTile& t, const AttentionKeys* keys, std::uint64_t row0,
                            std::uint64_t i0, int n, std::uint64_t chunk_index, ChunkWork& w) {
  const std::uint64_t chunk_begin = chunk_index * key_chunk;
  w.begin = key_chunk;
  w.end = 0;
  for (int i = 0; i < n; ++i) {
    const AttentionKeys& k = keys[(i0 + static_cast<std::uint64_t>(i)) / t.group];
    const std::uint64_t from = k.begin > chunk_begin ? k.begin - chunk_begin : 0;
    const std::uint64_t to = k.end > chunk_begin ? k.end - chunk_begin : 0;
    w.first[i] = static_cast<std::uint32_t>(from);
    w.last[i] = static_cast<std::uint32_t>(to < key_chunk ? to : key_chunk);
    if (w.first[i] >= w.last[i]) {
      w.first[i] = w.last[i] = 0;
      continue;
    }
    w.begin = w.first[i] < w.begin ? w.first[i] : w.begin;
    w.end = w.last[i] > w.end ? w.last[i] : w.end;
  }
  if (w.begin >= w.end) return;
  for (int i = 0; i < n; ++i) {
    const std::uint64_t query = i0 + static_cast<std::uint64_t>(i);
    const std::uint64_t head = t.kv_head * t.group + query % t.group;
    const float* q =
        in<float>(t.a, 0) + ((row0 + query / t.group) * t.p.heads + head) * t.p.head_dim;
    for (std::size_t j = 0; j < t.p.head_dim; j += 16) {
      Simd::store(w.q[i] + j, load_some(q + j, lanes_left(j, t.p.head_dim)));
    }
  }
  t.keys[n](w);
  t.values[n](w);
  for (int i = 0; i < n; ++i) {
    if (w.first[i] >= w.last[i]) continue;
    const std::uint64_t query = i0 + static_cast<std::uint64_t>(i), row = query / t.group;
    const std::uint64_t head = t.kv_head * t.group + query % t.group;
    if (t.n_parts == 1) {
      fold(t.part(row0 + row, head, 0), w.top[i], w.sum[i], w.acc[i], t.p.head_dim);
      continue;
    }
    float* part = t.part(row0 + row, head, chunk_index - keys[row].first_chunk());
    part[0] = w.top[i];
    part[1] = w.sum[i];
    for (std::size_t j = 0; j < t.p.head_dim; j += 16) {
      Simd::store(part + 16 + j, Simd::load(w.acc[i] + j));
    }
  }
}

// Places of a chunk's keys [begin, end); false where the cache has none.
OP_INLINE bool find_keys(const AttentionTile& t, const AttentionKeys& slot, std::uint64_t begin,
                         std::uint64_t end, std::uint64_t* rows) {
  std::uint64_t row = 0, wrap_in = 0;
  for (std::uint64_t at = begin; at < end; ++at, ++row, --wrap_in) {
    if (wrap_in == 0) {
      if (!t.places.find(slot.slot, slot.page_offset, t.kv_head, at, row)) return false;
      wrap_in = t.places.capacity - row % t.places.capacity;
    }
    rows[at % key_chunk] = row;
  }
  return true;
}

// Rows [row0, row0 + n) share a slot.
OP_INLINE void attend_rows(const AttentionTile& t, const AttentionKeys* keys, std::uint64_t row0,
                           std::uint64_t n, ChunkWork& w) {
  std::uint64_t begin = ~std::uint64_t{0}, end = 0;
  for (std::uint64_t r = 0; r < n; ++r) {
    if (keys[r].begin >= keys[r].end) continue;
    begin = keys[r].begin < begin ? keys[r].begin : begin;
    end = keys[r].end > end ? keys[r].end : end;
  }
  if (begin >= end) return;
  const std::uint64_t first = begin / key_chunk;
  const std::uint64_t count = (end + key_chunk - 1) / key_chunk - first;
  const std::uint64_t from = first + count * t.share / t.shares;
  const std::uint64_t to = first + count * (t.share + 1) / t.shares;
  for (std::uint64_t c = from; c < to; ++c) {
    const std::uint64_t low = c * key_chunk > begin ? c * key_chunk : begin;
    const std::uint64_t high = (c + 1) * key_chunk < end ? (c + 1) * key_chunk : end;
    if (!find_keys(t, keys[0], low, high, w.rows)) continue;
    const std::uint64_t queries = n * t.group;
    for (std::uint64_t i = 0; i < queries; i += max_queries) {
      const int left = queries - i < max_queries ? static_cast<int>(queries - i) : max_queries;
      attend_chunk(t, keys, row0, i, left, c, w);
    }
  }
}

// Combines the chunks of heads [head_begin, head_end) and writes them.
template <bool Quantized>
OP_INLINE void finish_row(const AttentionTile& t, const AttentionKeys& keys, std::uint64_t row,
                          std::uint64_t head_begin, std::uint64_t head_end) {
  const std::size_t dim = t.p.head_dim;
  for (std::uint64_t head = head_begin; head < head_end; ++head) {
    float* result = t.part(row, head, 0);
    float folded[16 + max_head_dim];
    if (t.n_parts > 1) {
      clear_part(folded, dim);
      std::uint64_t place;
      for (std::uint64_t c = keys.first_chunk(); keys.begin < keys.end && c < keys.end_chunk();
           ++c) {
        const std::uint64_t low = c * key_chunk > keys.begin ? c * key_chunk : keys.begin;
        if (!t.places.find(keys.slot, keys.page_offset, 0, low, place)) continue;
        const float* part = t.part(row, head, c - keys.first_chunk());
        fold(folded, part[0], part[1], part + 16, dim);
      }
      std::memcpy(result, folded, t.tiling.part_floats * sizeof(float));
    }
    finish_query(result, t.a.bytes[5] != 0 ? in<float>(t.a, 5) + head : nullptr, dim);
    if constexpr (!Quantized) {
      std::memcpy(out<float>(t.a, 6) + (row * t.p.heads + head) * dim, result + 16,
                  dim * sizeof(float));
    }
  }
  if constexpr (Quantized) {
    const std::size_t k = t.p.heads * dim;
    std::byte* y = out<std::byte>(t.a, 6) + row * (k / 32 * 40);
    for (std::size_t b = head_begin * dim / 32; b < head_end * dim / 32; ++b) {
      float block[32];
      for (std::size_t j = 0; j < 32; ++j) {
        const std::size_t at = 32 * b + j;
        block[j] = t.part(row, at / dim, 0)[16 + at % dim];
      }
      store_q8a(y, k, b, Simd::load(block), Simd::load(block + 16));
    }
  }
}

template <class K, bool Quantized>
OP_NOINLINE void attend(const KernelArgs& a) noexcept {
  const auto& p = params<AttentionParams>(a);
  const std::uint64_t n_pages = a.bytes[4] / 4;
  AttentionTile t{
      a,
      p,
      AttentionTiling(p, n_pages),
      {p.slots, p.kv_heads, p.capacity, p.ring != 0, n_pages != 0 ? a.data[4] : nullptr, n_pages},
      StepReader(a.data[3], a.bytes[3]),
      1,
      1,
      p.heads / p.kv_heads,
      0,
      0,
      0,
      0,
      {},
      {}};
  t.shares = a.tiles / (t.tiling.row_blocks * p.kv_heads);
  t.n_parts = t.shares > 1 ? t.tiling.max_chunks : 1;
  t.share = a.tile % t.shares;
  t.kv_head = a.tile / t.shares % p.kv_heads;
  // The last rows see the most keys: they start first.
  const std::uint64_t block = t.tiling.row_blocks - 1 - a.tile / t.shares / p.kv_heads;
  t.row_begin = block * t.tiling.block_rows;
  t.row_end = t.row_begin + t.tiling.block_rows;
  if (t.row_end > p.rows) t.row_end = p.rows;
  const DType v_type = static_cast<DType>(p.v_type);
  choose_keys<K>(t.keys);
  if (v_type == DType::f16) {
    choose_values<F16>(t.values);
  } else if (v_type == DType::f32) {
    choose_values<float>(t.values);
  } else {
    choose_values<quant::BlockQ8_0>(t.values);
  }

  AttentionKeys keys[64];
  for (std::uint64_t r = t.row_begin; r < t.row_end; ++r) {
    AttentionKeys& k = keys[r - t.row_begin];
    k = visible_keys(p, t.places, t.step, static_cast<std::uint32_t>(r));
    if (!k.active || t.n_parts > 1) continue;
    for (std::uint64_t i = 0; i < t.group; ++i) {
      clear_part(t.part(r, t.kv_head * t.group + i, 0), p.head_dim);
    }
  }
  ChunkWork w;
  w.head_dim = p.head_dim;
  w.scale = p.scale;
  w.softcap = p.softcap;
  w.keys = a.data[1];
  w.values = a.data[2];
  w.key_bytes = cache_row_bytes(cache_type(static_cast<const K*>(nullptr)), p.head_dim);
  w.value_bytes = cache_row_bytes(v_type, p.head_dim);
  for (std::uint64_t r = t.row_begin; r < t.row_end;) {
    const AttentionKeys* run = keys + (r - t.row_begin);
    std::uint64_t n = 1;
    while (r + n < t.row_end && run[n].active && run[n].same_slot(run[0])) ++n;
    if (!run[0].active) break;
    attend_rows(t, run, r, n, w);
    r += n;
  }

  // Blocks of 32 that cross heads can be written only when all heads are there.
  const bool all_heads = Quantized && t.group * p.head_dim % 32 != 0;
  const std::uint64_t others = all_heads ? t.shares * p.kv_heads : t.shares;
  if (others > 1) {
    std::uint32_t* done = reinterpret_cast<std::uint32_t*>(a.persistent) +
                          (all_heads ? block : block * p.kv_heads + t.kv_head);
    if (__atomic_add_fetch(done, 1u, __ATOMIC_ACQ_REL) != others) return;
    __atomic_store_n(done, 0u, __ATOMIC_RELAXED);
  }
  const std::uint64_t head = all_heads ? 0 : t.kv_head * t.group;
  for (std::uint64_t r = t.row_begin; r < t.row_end; ++r) {
    const AttentionKeys& k = keys[r - t.row_begin];
    if (k.active) finish_row<Quantized>(t, k, r, head, all_heads ? p.heads : head + t.group);
  }
}

template <class K>
void attention(const KernelArgs& a) noexcept {
  if ((params<AttentionParams>(a).form & form_quantized) != 0) {
    attend<K, true>(a);
  } else {
    attend<K, false>(a);
  }
}

constexpr KernelRow attention_row(Format format, const char* name, CpuKernelFn cpu) {
  KernelRow row = cpu_row(Op::attention, format, name, launch_attention, cpu, OP_ISA_FEATURE);
  row.forms = form_quantized;
  return row;
}
constexpr KernelRow attention_rows[] = {
    attention_row(DType::f32, "attention_f32_f32", attention<float>),
    attention_row(DType::f16, "attention_f16_f32", attention<F16>),
    attention_row(DType::q8_0, "attention_q8_0_f32", attention<quant::BlockQ8_0>)};

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
