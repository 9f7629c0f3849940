// Question C: llama layers at batch 1 as one graph: 8 or 5 kernels per layer, plain edges against
// programmatic ones, with and without weights loaded before the dependency wait.
#include <cstring>

#include "matvec.cuh"

namespace bench {
namespace {

constexpr int chunk_keys = 128;

struct NormArgs {
  const float* x;
  const float* norm_w;
  std::uint8_t* out;
  int n_blk, flags;
};

__global__ void __launch_bounds__(512) norm_quantize(const __grid_constant__ NormArgs a) {
  __shared__ float partial[16];
  release_dependents();
  float4 norm_w[norm_parts];
  load_norm_weights(a.norm_w, a.n_blk, norm_w);
  wait_for_inputs();
  quantize_row<true>(a.x, norm_w, a.n_blk, a.out, partial);
}

struct AttentionArgs {
  const float* qkv;     // heads, then kv heads of keys, then of values
  const float2* table;  // cos, sin per pair
  float* q;             // after rope
  __half* keys;         // [kv head][capacity][head dim]
  __half* values;
  float* partials;  // [head][chunk][head dim + max + sum]
  unsigned* counters;
  std::uint8_t* out;  // q8a
  int heads, kv_heads, head_dim, capacity, pos, flags;
};

__global__ void rope_store(const __grid_constant__ AttentionArgs a) {
  if (!(a.flags & late_trigger)) release_dependents();
  const int pairs = a.head_dim / 2;
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int head = i / pairs, pair = i % pairs;
  const bool live = head < a.heads + 2 * a.kv_heads;
  const float2 cs = live ? __ldg(a.table + pair) : make_float2(0.0f, 0.0f);
  wait_for_inputs();
  if (!live) return;
  const float2 x = __ldcg(reinterpret_cast<const float2*>(a.qkv) + i);
  const float2 y = make_float2(x.x * cs.x - x.y * cs.y, x.x * cs.y + x.y * cs.x);
  if (head < a.heads) {
    reinterpret_cast<float2*>(a.q)[i] = y;
  } else {
    const bool is_key = head < a.heads + a.kv_heads;
    const int kv = head - a.heads - (is_key ? 0 : a.kv_heads);
    __half2* row = reinterpret_cast<__half2*>((is_key ? a.keys : a.values) +
                                              (static_cast<std::size_t>(kv) * a.capacity + a.pos) *
                                                  a.head_dim);
    row[pair] = is_key ? __floats2half2_rn(y.x, y.y) : __floats2half2_rn(x.x, x.y);
  }
}

__device__ __forceinline__ void load_8(const float* p, float (&v)[8]) {
  const float4 a = __ldcg(reinterpret_cast<const float4*>(p));
  const float4 b = __ldcg(reinterpret_cast<const float4*>(p) + 1);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
__device__ __forceinline__ void rotate_8(const float2 (&cs)[4], float (&v)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float x = v[2 * i], y = v[2 * i + 1];
    v[2 * i] = x * cs[i].x - y * cs[i].y;
    v[2 * i + 1] = x * cs[i].y + y * cs[i].x;
  }
}
__device__ __forceinline__ uint4 to_half_8(const float (&v)[8]) {
  uint4 out;
  std::uint32_t* words[4] = {&out.x, &out.y, &out.z, &out.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __half2 h = __floats2half2_rn(v[2 * i], v[2 * i + 1]);
    *words[i] = *reinterpret_cast<const std::uint32_t*>(&h);
  }
  return out;
}
__device__ __forceinline__ float2 half_pair(const uint4& v, int i) {
  const std::uint32_t w = i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  return __half22float2(*reinterpret_cast<const __half2*>(&w));
}

// One block per (chunk of keys, head); the last block of a head combines the chunks in order.
// Rope: takes q, k, v before rope and stores the new key and value itself.
template <int HD, bool Rope>
__global__ void __launch_bounds__(2 * HD) attention(const __grid_constant__ AttentionArgs a) {
  constexpr int warps = HD / 16, lanes = HD / 8, per_warp = 32 / lanes;
  constexpr int per_step = warps * per_warp, steps = chunk_keys / per_step;
  __shared__ float scores[chunk_keys];
  __shared__ float sums[warps][HD];
  __shared__ bool is_last;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const int chunk = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int chunks = static_cast<int>(gridDim.x), group = a.heads / a.kv_heads;
  const int kv = head / group, d0 = lane % lanes * 8, n_keys = a.pos + 1;
  const int slot = warp * per_warp + lane / lanes, first = chunk * chunk_keys + slot;
  __half* keys = a.keys + static_cast<std::size_t>(kv) * a.capacity * HD + d0;
  __half* values = a.values + static_cast<std::size_t>(kv) * a.capacity * HD + d0;
  if (!(a.flags & late_trigger)) release_dependents();
  if (!(a.flags & early_loads)) wait_for_inputs();

  // Keys before pos were stored by earlier passes, so they may be read before the wait.
  uint4 k[steps], v[steps];
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    const int key = first + s * per_step;
    k[s] = v[s] = make_uint4(0, 0, 0, 0);
    if (key < a.pos) {
      k[s] = __ldcg(reinterpret_cast<const uint4*>(keys + static_cast<std::size_t>(key) * HD));
      v[s] = __ldcg(reinterpret_cast<const uint4*>(values + static_cast<std::size_t>(key) * HD));
    }
  }
  float2 cs[4];
  if constexpr (Rope) {
#pragma unroll
    for (int i = 0; i < 4; ++i) cs[i] = __ldg(a.table + d0 / 2 + i);
  }
  if (a.flags & early_loads) wait_for_inputs();

  float q[8];
  load_8((Rope ? a.qkv : a.q) + head * HD + d0, q);
  if constexpr (Rope) rotate_8(cs, q);
  if (a.pos / chunk_keys == chunk) {
    uint4 new_k, new_v;
    const std::size_t row = static_cast<std::size_t>(a.pos) * HD;
    if constexpr (Rope) {
      float x[8];
      load_8(a.qkv + (a.heads + kv) * HD + d0, x);
      rotate_8(cs, x);
      new_k = to_half_8(x);
      load_8(a.qkv + (a.heads + a.kv_heads + kv) * HD + d0, x);
      new_v = to_half_8(x);
      if (head % group == 0 && t < lanes) {
        *reinterpret_cast<uint4*>(keys + row) = new_k;
        *reinterpret_cast<uint4*>(values + row) = new_v;
      }
    } else {
      new_k = __ldcg(reinterpret_cast<const uint4*>(keys + row));
      new_v = __ldcg(reinterpret_cast<const uint4*>(values + row));
    }
#pragma unroll
    for (int s = 0; s < steps; ++s)
      if (first + s * per_step == a.pos) k[s] = new_k, v[s] = new_v;
  }

  const float scale = 1.0f / sqrtf(static_cast<float>(HD));
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 kk = half_pair(k[s], i);
      sum = fmaf(q[2 * i], kk.x, sum);
      sum = fmaf(q[2 * i + 1], kk.y, sum);
    }
#pragma unroll
    for (int m = 1; m < lanes; m *= 2) sum += __shfl_xor_sync(~0u, sum, m);
    if (lane % lanes == 0)
      scores[slot + s * per_step] = first + s * per_step < n_keys ? sum * scale : -INFINITY;
  }
  __syncthreads();
  float top = -INFINITY, total = 0.0f;
#pragma unroll
  for (int i = lane; i < chunk_keys; i += 32) top = fmaxf(top, scores[i]);
#pragma unroll
  for (int m = 16; m > 0; m /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, m));
#pragma unroll
  for (int i = lane; i < chunk_keys; i += 32) total += expf(scores[i] - top);
  total = warp_sum(total);

  float acc[8] = {};
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    const float p = expf(scores[slot + s * per_step] - top);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 vv = half_pair(v[s], i);
      acc[2 * i] = fmaf(p, vv.x, acc[2 * i]);
      acc[2 * i + 1] = fmaf(p, vv.y, acc[2 * i + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int m = lanes; m < 32; m *= 2) acc[i] += __shfl_xor_sync(~0u, acc[i], m);
    if (lane < lanes) sums[warp][d0 + i] = acc[i];
  }
  if (a.flags & late_trigger) release_dependents();
  __syncthreads();
  float* mine = a.partials + (static_cast<std::size_t>(head) * chunks + chunk) * (HD + 2);
  if (t < HD) {
    float sum = sums[0][t];
#pragma unroll
    for (int w = 1; w < warps; ++w) sum += sums[w][t];
    mine[t] = sum;
    if (t == 0) mine[HD] = top, mine[HD + 1] = total;
  }
  __threadfence();
  __syncthreads();
  if (t == 0) is_last = atomicAdd(a.counters + head, 1u) == static_cast<unsigned>(chunks) - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  if (t < HD) {
    const float* parts = a.partials + static_cast<std::size_t>(head) * chunks * (HD + 2);
    float best = -INFINITY, sum = 0.0f, weight = 0.0f;
    for (int c = 0; c < chunks; ++c) best = fmaxf(best, __ldcg(parts + c * (HD + 2) + HD));
    for (int c = 0; c < chunks; ++c) {
      const float* part = parts + c * (HD + 2);
      const float f = expf(__ldcg(part + HD) - best);
      sum = fmaf(__ldcg(part + t), f, sum);
      weight = fmaf(__ldcg(part + HD + 1), f, weight);
    }
    store_q8a_block(a.out, a.heads * HD, (head * HD + t) / 32, sum / weight);
  }
  if (t == 0) a.counters[head] = 0;
}

struct Model {
  const char* name;
  int d, f, heads, kv_heads, head_dim, layers, real_layers, vocab;
};

enum Kind { eight_kernels, five_f32, five_q8a };
const char* const kind_names[] = {"8 kernels", "5, quantize in down", "5, quantize in gate/up"};

struct Mode {
  const char* name;
  bool programmatic;
  int flags;
};
const Mode modes[] = {{"plain", false, 0},
                      {"prog", true, 0},
                      {"+early", true, early_loads},
                      {"+L2", true, early_loads | l2_prefetch},
                      {"+early,late", true, early_loads | late_trigger}};

template <int F>
class LayerBench {
 public:
  LayerBench(const Model& m, cudaStream_t stream)
      : m_(m),
        stream_(stream),
        chunks_((pos + chunk_keys) / chunk_keys),
        n_qkv_((m.heads + 2 * m.kv_heads) * m.head_dim),
        layer_bytes_(bytes_of(n_qkv_, m.d) + bytes_of(m.d, m.d) + bytes_of(2 * m.f, m.d) +
                     bytes_of(m.d, m.f)),
        weights_(layer_bytes_ * m.layers),
        norm_w_(static_cast<std::size_t>(m.d) * 2 * m.layers),
        x_(static_cast<std::size_t>(m.d) * (2 * m.layers + 1)),
        normed_(q8a_bytes(m.d)),
        normed2_(q8a_bytes(m.d)),
        attended_(q8a_bytes(m.d)),
        act_q8a_(q8a_bytes(m.f)),
        qkv_(n_qkv_),
        q_(m.d),
        act_(m.f),
        partials_(static_cast<std::size_t>(m.heads) * chunks_ * (m.head_dim + 2)),
        counters_(m.heads),
        table_(m.head_dim / 2),
        keys_(cache_count()),
        values_(cache_count()) {
    for (int layer = 0; layer < m.layers; ++layer)
      for (int i = 0; i < 4; ++i)
        fill<F>(weight(layer, i), nullptr, seed(layer, i), rows(i), cols(i), stream);
    BENCH_CHECK(cudaStreamSynchronize(stream));
    counters_.fill_bytes(0);
    set_random(norm_w_, 21, 0.2f, 1.0f);
    std::vector<float> x(static_cast<std::size_t>(m.d));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = random_normal(22, 0, static_cast<std::uint32_t>(i));
    x_.set(x);
    std::vector<float2> table(table_.count);
    for (std::size_t i = 0; i < table.size(); ++i) {
      const double angle = pos * std::pow(500000.0, -2.0 * static_cast<double>(i) / m.head_dim);
      table[i] =
          make_float2(static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle)));
    }
    table_.set(table);
    set_random(keys_, 23, 1.0f, 0.0f);
    set_random(values_, 24, 1.0f, 0.0f);
  }

  void run(std::FILE* csv) {
    check_layer();
    double ideal = 0;
    for (int i = 0; i < 4; ++i)
      ideal += ceiling_us(static_cast<double>(bytes_of(rows(i), cols(i))));
    const double head =
        2.0 + 1.03 * ceiling_us(static_cast<double>(m_.vocab) * (m_.d / 32) * row_block_bytes(F));
    std::printf("C %s %s: us/layer, weights alone at the ceiling %.2f; head + rest %.1f us\n",
                m_.name, F == q4 ? "q4_0" : "q8_0", ideal, head + 6);
    for (const Kind kind : {eight_kernels, five_f32, five_q8a}) {
      std::printf("  %-23s", kind_names[kind]);
      std::vector<float> expected;
      double best = 1e9;
      for (const Mode& mode : modes) {
        Graph graph;
        build(graph, kind, mode, m_.layers);
        if (!graph.instantiate(stream_)) {
          std::printf(" %s:%s", mode.name, graph.error());
          continue;
        }
        for (int launch = 0; launch < 3; ++launch) {
          poison();
          graph.launch(stream_);
          BENCH_CHECK(cudaStreamSynchronize(stream_));
          const std::vector<float> got = x_.get();
          if (expected.empty()) {
            expected = got;
            bool finite = true;
            for (const float f : got) finite = finite && std::isfinite(f);
            expect(finite, what(kind, mode) + ": finite", 0, 0);
          } else {
            expect(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0,
                   what(kind, mode) + ": same bits as with plain edges", 1, 0);
          }
        }
        const double us = graph.median_us(stream_, 41) / m_.layers;
        best = std::min(best, us);
        std::printf(" %s %.2f", mode.name, us);
        std::fprintf(csv, "layer,%s,%s,%s,%s,%.3f\n", m_.name, F == q4 ? "q4_0" : "q8_0",
                     kind_names[kind], mode.name, us);
      }
      std::printf("  -> %.0f tok/s\n", 1e6 / (best * m_.real_layers + head + 6));
      std::fflush(stdout);
    }
  }

 private:
  static constexpr int pos = 511, capacity = 512;

  static std::size_t bytes_of(int n, int k) {
    return static_cast<std::size_t>(n) * (k / 32) * row_block_bytes(F);
  }
  static std::size_t q8a_bytes(int k) { return static_cast<std::size_t>(k) / 32 * 40; }
  static std::uint32_t seed(int layer, int i) {
    return static_cast<std::uint32_t>(100 + 4 * layer + i);
  }
  std::size_t cache_count() const {
    return static_cast<std::size_t>(m_.layers) * m_.kv_heads * capacity * m_.head_dim;
  }

  // 0 qkv, 1 o, 2 gate/up: groups of 16 rows of gate and up take turns, 3 down.
  int rows(int i) const { return i == 0 ? n_qkv_ : i == 2 ? 2 * m_.f : m_.d; }
  int cols(int i) const { return i == 3 ? m_.f : m_.d; }
  std::uint8_t* weight(int layer, int i) {
    std::size_t offset = layer_bytes_ * layer;
    for (int j = 0; j < i; ++j) offset += bytes_of(rows(j), cols(j));
    return weights_.data + offset;
  }

  void set_random(Device<float>& to, std::uint32_t s, float spread, float middle) {
    std::vector<float> v(to.count);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = middle + spread * random_normal(s, 0, static_cast<std::uint32_t>(i));
    to.set(v);
  }
  void set_random(Device<__half>& to, std::uint32_t s, float spread, float middle) {
    std::vector<__half> v(to.count);
    parallel_for(v.size(), [&v, s, spread, middle](std::size_t i) {
      v[i] = __float2half(middle + spread * random_normal(s, 0, static_cast<std::uint32_t>(i)));
    });
    to.set(v);
  }

  std::string what(Kind kind, const Mode& mode) const {
    return std::string(m_.name) + (F == q4 ? " q4_0 " : " q8_0 ") + kind_names[kind] + " " +
           mode.name;
  }

  void poison() {
    for (Device<std::uint8_t>* d : {&normed_, &normed2_, &attended_, &act_q8a_})
      d->fill_bytes(0xFF);
    for (Device<float>* d : {&qkv_, &q_, &act_, &partials_}) d->fill_bytes(0xFF);
    BENCH_CHECK(cudaMemset(x_.data + m_.d, 0xFF, (x_.count - m_.d) * sizeof(float)));
    const std::size_t row = static_cast<std::size_t>(m_.head_dim) * sizeof(__half);
    for (Device<__half>* cache : {&keys_, &values_})
      BENCH_CHECK(cudaMemset2D(cache->data + static_cast<std::size_t>(pos) * m_.head_dim,
                               row * capacity, 0xFF, row,
                               static_cast<std::size_t>(m_.layers) * m_.kv_heads));
    BENCH_CHECK(cudaDeviceSynchronize());
  }

  template <int W, int G, int X, int E>
  int add_mv(Graph& graph, const MvArgs& a) {
    return graph.add(mv_r16 < F, W, G, F == q4 ? 4 : 2, X, E >, dim3((a.n / 16 + G - 1) / G),
                     dim3(32 * W * G), q8a_bytes(a.n_blk * 32), a);
  }
  template <int X, int E>
  int add_mv(Graph& graph, const MvArgs& a) {
    if (a.n_blk <= 24) return add_mv<4, 1, X, E>(graph, a);
    if (a.n_blk <= (X == x_norm ? 64 : 128)) return add_mv<8, 1, X, E>(graph, a);
    return add_mv<16, 1, X, E>(graph, a);
  }

  void build(Graph& graph, Kind kind, const Mode& mode, int layers) {
    int last = -1;
    const auto chain = [&](int node) {
      if (last >= 0) graph.edge(last, node, mode.programmatic);
      last = node;
    };
    for (int layer = 0; layer < layers; ++layer) {
      const auto mv = [&](int i, const void* x, void* out) {
        MvArgs a{};
        a.w = weight(layer, i);
        a.x = x;
        a.out = out;
        a.n = rows(i);
        a.n_blk = cols(i) / 32;
        a.flags = mode.flags;
        return a;
      };
      const auto norm = [&](const float* x, int i, std::uint8_t* out) {
        const int n4 = m_.d / 4;
        chain(graph.add(
            norm_quantize, dim3(1), dim3(std::min(512, (n4 + 31) / 32 * 32)), 0,
            NormArgs{x, norm_w_.data + (2 * layer + i) * m_.d, out, m_.d / 32, mode.flags}));
      };
      float* x0 = x_.data + static_cast<std::size_t>(2 * layer) * m_.d;
      float *x1 = x0 + m_.d, *x2 = x1 + m_.d;
      const std::size_t cache =
          static_cast<std::size_t>(layer) * m_.kv_heads * capacity * m_.head_dim;
      const AttentionArgs at{qkv_.data,
                             table_.data,
                             q_.data,
                             keys_.data + cache,
                             values_.data + cache,
                             partials_.data,
                             counters_.data,
                             attended_.data,
                             m_.heads,
                             m_.kv_heads,
                             m_.head_dim,
                             capacity,
                             pos,
                             mode.flags};
      const dim3 at_grid(chunks_, m_.heads), at_block(2 * m_.head_dim);

      if (kind == eight_kernels) {
        norm(x0, 0, normed_.data);
        chain(add_mv<x_shared, out_store>(graph, mv(0, normed_.data, qkv_.data)));
        chain(graph.add(rope_store, dim3((n_qkv_ / 2 + 127) / 128), dim3(128), 0, at));
        chain(graph.add(m_.head_dim == 64 ? attention<64, false> : attention<128, false>, at_grid,
                        at_block, 0, at));
      } else {
        MvArgs a = mv(0, x0, qkv_.data);
        a.norm_w = norm_w_.data + 2 * layer * m_.d;
        chain(add_mv<x_norm, out_store>(graph, a));
        chain(graph.add(m_.head_dim == 64 ? attention<64, true> : attention<128, true>, at_grid,
                        at_block, 0, at));
      }
      MvArgs o = mv(1, attended_.data, x1);
      o.residual = x0;
      chain(add_mv<x_shared, out_residual>(graph, o));
      MvArgs up = mv(2, x1, act_q8a_.data);
      up.norm_w = norm_w_.data + (2 * layer + 1) * m_.d;
      MvArgs down = mv(3, act_q8a_.data, x2);
      down.residual = x1;
      if (kind == eight_kernels) {
        norm(x1, 1, normed2_.data);
        up.x = normed2_.data;
        chain(add_mv<4, 4, x_shared, out_silu_q8a>(graph, up));
        chain(add_mv<x_shared, out_residual>(graph, down));
      } else if (kind == five_q8a) {
        chain(add_mv<4, 4, x_norm, out_silu_q8a>(graph, up));
        chain(add_mv<x_shared, out_residual>(graph, down));
      } else {
        up.out = act_.data;
        chain(up.n_blk <= 64 ? add_mv<4, 2, x_norm, out_silu_f32>(graph, up)
                             : add_mv<8, 2, x_norm, out_silu_f32>(graph, up));
        down.x = act_.data;
        chain(add_mv<x_f32, out_residual>(graph, down));
      }
    }
  }

  // Values of a q8a row must be the reference within half a step, the sums exact.
  void check_q8a(const char* name, const std::vector<double>& ref,
                 const std::vector<std::uint8_t>& row) {
    const std::size_t k = ref.size();
    double worst = 0;
    for (std::size_t b = 0; b < k / 32; ++b) {
      float d;
      std::int16_t stored[2];
      std::memcpy(&d, &row[k + 8 * b], 4);
      std::memcpy(stored, &row[k + 8 * b + 4], 4);
      int sums[2] = {0, 0}, top = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        const int q = static_cast<signed char>(row[32 * b + i]);
        sums[i / 16] += q;
        top = std::max(top, std::abs(q));
        const double e = std::fabs(ref[32 * b + i] / static_cast<double>(d) - q);
        worst = std::isfinite(e) ? std::max(worst, e) : 1e30;
      }
      if (top != 127 || sums[0] != stored[0] || sums[1] != stored[1]) worst = 1e30;
    }
    expect(worst < 0.51, std::string(m_.name) + " " + name + ": steps off", worst, 0.51);
  }

  void check_f32(const char* name, const std::vector<double>& ref, const std::vector<float>& got,
                 double limit) {
    const double e = relative_error(ref, got.data());
    expect(e < limit, std::string(m_.name) + " " + name + ": relative error", e, limit);
  }

  std::vector<double> norm_reference(const std::vector<float>& x, int i) {
    const std::vector<float> w = norm_w_.get(static_cast<std::size_t>(i) * m_.d, m_.d);
    double sum = 0;
    for (const float f : x) sum += static_cast<double>(f) * f;
    const double scale = 1.0 / std::sqrt(sum / m_.d + 1e-5);
    std::vector<double> ref(x.size());
    for (std::size_t j = 0; j < ref.size(); ++j) ref[j] = x[j] * scale * w[j];
    return ref;
  }

  std::vector<double> matvec_reference(int i, const std::vector<std::uint8_t>& x) {
    std::vector<double> ref(static_cast<std::size_t>(rows(i)));
    parallel_for(ref.size(), [&ref, &x, k = cols(i), s = seed(0, i)](std::size_t r) {
      ref[r] = reference_dot<F>(s, static_cast<std::uint32_t>(r), k, x.data());
    });
    return ref;
  }

  std::vector<double> attention_reference(const std::vector<float>& q) {
    const std::size_t hd = static_cast<std::size_t>(m_.head_dim), n = pos + 1;
    const std::size_t count = static_cast<std::size_t>(m_.kv_heads) * capacity * hd;
    const std::vector<__half> keys = keys_.get(0, count), values = values_.get(0, count);
    std::vector<double> ref(q.size(), 0.0);
    for (int head = 0; head < m_.heads; ++head) {
      const std::size_t base =
          static_cast<std::size_t>(head / (m_.heads / m_.kv_heads)) * capacity * hd;
      std::vector<double> p(n);
      double top = -1e300, total = 0;
      for (std::size_t key = 0; key < n; ++key) {
        double dot = 0;
        for (std::size_t i = 0; i < hd; ++i)
          dot += static_cast<double>(q[head * hd + i]) *
                 static_cast<double>(__half2float(keys[base + key * hd + i]));
        p[key] = dot / std::sqrt(static_cast<double>(hd));
        top = std::max(top, p[key]);
      }
      for (double& s : p) total += s = std::exp(s - top);
      for (std::size_t key = 0; key < n; ++key)
        for (std::size_t i = 0; i < hd; ++i)
          ref[head * hd + i] +=
              p[key] / total * static_cast<double>(__half2float(values[base + key * hd + i]));
    }
    return ref;
  }

  // Each kernel of one layer against double, computed from what the kernel before it wrote.
  void check_layer() {
    const std::size_t d = static_cast<std::size_t>(m_.d),
                      hd = static_cast<std::size_t>(m_.head_dim);
    launch_layer(eight_kernels);
    const std::vector<float> x = x_.get(0, 3 * d), qkv = qkv_.get(), q = q_.get();
    const std::vector<float> x0(x.begin(), x.begin() + m_.d);
    const std::vector<float> x1(x.begin() + m_.d, x.begin() + 2 * m_.d);
    const std::vector<float> x2(x.begin() + 2 * m_.d, x.end());
    const std::vector<float2> table = table_.get();
    check_q8a("norm", norm_reference(x0, 0), normed_.get());
    check_f32("qkv", matvec_reference(0, normed_.get()), qkv, 5e-6);
    std::vector<double> turned(qkv.begin(), qkv.end());
    const std::size_t n_turned = static_cast<std::size_t>(m_.heads + m_.kv_heads) * hd;
    for (std::size_t i = 0; i < n_turned; i += 2) {
      const double c = table[i % hd / 2].x, s = table[i % hd / 2].y;
      const double a = qkv[i], b = qkv[i + 1];
      turned[i] = a * c - b * s;
      turned[i + 1] = a * s + b * c;
    }
    check_f32("rope", std::vector<double>(turned.begin(), turned.begin() + m_.d), q, 5e-6);
    for (const bool value : {false, true}) {
      std::vector<double> ref;
      std::vector<float> got;
      for (int kv = 0; kv < m_.kv_heads; ++kv) {
        const std::size_t from = (static_cast<std::size_t>(kv) * capacity + pos) * hd;
        const std::size_t first =
            static_cast<std::size_t>(m_.heads + kv + (value ? m_.kv_heads : 0)) * hd;
        for (const __half h : (value ? values_ : keys_).get(from, hd))
          got.push_back(__half2float(h));
        ref.insert(ref.end(), turned.begin() + static_cast<std::ptrdiff_t>(first),
                   turned.begin() + static_cast<std::ptrdiff_t>(first + hd));
      }
      check_f32(value ? "stored value" : "stored key", ref, got, 5e-4);
    }
    check_q8a("attention", attention_reference(q), attended_.get());
    std::vector<double> ref = matvec_reference(1, attended_.get());
    for (std::size_t i = 0; i < d; ++i) ref[i] += static_cast<double>(x0[i]);
    check_f32("o", ref, x1, 5e-6);
    check_q8a("norm 2", norm_reference(x1, 1), normed2_.get());
    const std::vector<double> both = matvec_reference(2, normed2_.get());
    ref.assign(static_cast<std::size_t>(m_.f), 0.0);
    for (std::size_t i = 0; i < ref.size(); ++i) {
      const double gate = both[i / 16 * 32 + i % 16], up = both[i / 16 * 32 + 16 + i % 16];
      ref[i] = gate / (1.0 + std::exp(-gate)) * up;
    }
    check_q8a("gate/up", ref, act_q8a_.get());
    ref = matvec_reference(3, act_q8a_.get());
    for (std::size_t i = 0; i < d; ++i) ref[i] += static_cast<double>(x1[i]);
    check_f32("down", ref, x2, 5e-6);
    for (const Kind kind : {five_f32, five_q8a}) {
      launch_layer(kind);
      const std::vector<float> y = x_.get(0, 3 * d), other = qkv_.get();
      check_f32("fused qkv", std::vector<double>(qkv.begin(), qkv.end()), other, 5e-3);
      std::vector<double> step(2 * d);
      std::vector<float> fused_step(2 * d);
      for (std::size_t i = 0; i < 2 * d; ++i) {
        step[i] = static_cast<double>(x[i + d]) - static_cast<double>(x[i]);
        fused_step[i] = y[i + d] - y[i];
      }
      check_f32(kind_names[kind], step, fused_step, 2e-2);
    }
  }

  void launch_layer(Kind kind) {
    Graph graph;
    build(graph, kind, modes[0], 1);
    if (!graph.instantiate(stream_)) expect(false, std::string("graph: ") + graph.error(), 0, 0);
    poison();
    graph.launch(stream_);
    BENCH_CHECK(cudaStreamSynchronize(stream_));
  }

  Model m_;
  cudaStream_t stream_;
  int chunks_, n_qkv_;
  std::size_t layer_bytes_;
  Device<std::uint8_t> weights_;
  Device<float> norm_w_, x_;
  Device<std::uint8_t> normed_, normed2_, attended_, act_q8a_;
  Device<float> qkv_, q_, act_, partials_;
  Device<unsigned> counters_;
  Device<float2> table_;
  Device<__half> keys_, values_;
};

}  // namespace

void run_layers(cudaStream_t stream, std::FILE* csv) {
  const Model smollm = {"smollm135m", 576, 1536, 9, 3, 64, 60, 30, 49152};
  const Model llama1b = {"llama1b", 2048, 8192, 32, 8, 64, 16, 16, 128256};
  const Model llama8b = {"llama8b", 4096, 14336, 32, 8, 128, 16, 32, 128256};
  LayerBench<q8>(smollm, stream).run(csv);
  LayerBench<q4>(llama1b, stream).run(csv);
  LayerBench<q8>(llama1b, stream).run(csv);
  LayerBench<q4>(llama8b, stream).run(csv);
  LayerBench<q8>(llama8b, stream).run(csv);
}

}  // namespace bench
