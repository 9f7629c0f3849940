// Question B: how fast is a mat-vec on the r16 layout, by variant, next to a rows layout and to the
// streaming ceiling of its size.
#include <cstring>
#include <functional>
#include <map>

#include "matvec.cuh"

namespace bench {
namespace {

struct Shape {
  int n, k;
};
const Shape shapes[] = {{3072, 576},  {3072, 2048},  {16384, 2048}, {2048, 8192},  {6144, 4096},
                        {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}};
constexpr std::size_t n_shapes = sizeof(shapes) / sizeof(shapes[0]);
constexpr std::size_t rotation_bytes = 220u << 20;

struct Variant {
  const char* name;
  bool rows_layout;
  void (*kernel)(MvArgs);
  int rows_per_block;  // 0: only reads
  int threads;
  std::size_t shared;  // besides the activations
};

template <int F, int W, int G, int U, int X = x_shared>
Variant r16(const char* name) {
  return {name, false, mv_r16<F, W, G, U, X, out_store>, 16 * G, 32 * W * G, 0};
}
template <int F, int W, int SB, int S>
Variant bulk(const char* name) {
  return {name, false,  mv_bulk<F, W, SB, S>,
          16,   32 * W, static_cast<std::size_t>(W) * S * SB * block_bytes(F)};
}
template <int F, int R, int S, int U>
Variant rows(const char* name) {
  return {name, true, mv_rows<F, R, S, U>, 8 / S * R, 256, 0};
}

template <int F>
std::vector<Variant> variants() {
  return {
      r16<F, 1, 4, 8>("r16 w1 g4 u8"),       r16<F, 2, 2, 4>("r16 w2 g2 u4"),
      r16<F, 4, 1, 4>("r16 w4 u4"),          r16<F, 4, 2, 4>("r16 w4 g2 u4"),
      r16<F, 8, 1, 2>("r16 w8 u2"),          r16<F, 8, 1, 4>("r16 w8 u4"),
      r16<F, 16, 1, 4>("r16 w16 u4"),        r16<F, 8, 1, 4, x_l1>("r16 w8 u4 L1"),
      r16<F, 4, 1, 4, x_l1>("r16 w4 u4 L1"), bulk<F, 8, 4, 4>("bulk w8 4x4"),
      bulk<F, 4, 8, 3>("bulk w4 8x3"),       rows<F, 1, 1, 4>("rows 1/warp"),
      rows<F, 2, 1, 2>("rows 2/warp"),       rows<F, 2, 4, 2>("rows 2/4warps"),
      rows<F, 1, 2, 4>("rows 1/2warps"),     {"read only", false, stream_weights<8>, 0, 256, 0}};
}

struct Result {
  double us[2] = {0, 0};  // plain edges, programmatic edges
};

// All variants of one layout on one shape.
template <int F>
class ShapeBench {
 public:
  ShapeBench(Shape shape, cudaStream_t stream)
      : shape_(shape),
        stream_(stream),
        bytes_(static_cast<std::size_t>(shape.n) * (shape.k / 32) * row_block_bytes(F)),
        copies_(static_cast<int>((rotation_bytes + bytes_ - 1) / bytes_)),
        nodes_(std::max(copies_, bytes_ < (20u << 20) ? 240 : 100)),
        w_(bytes_ * copies_),
        x_(static_cast<std::size_t>(shape.k) / 32 * 40),
        out_(static_cast<std::size_t>(shape.n) * copies_) {
    std::vector<float> x(static_cast<std::size_t>(shape.k));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = random_normal(5, 1, static_cast<std::uint32_t>(i));
    const std::vector<std::uint8_t> row = quantize_host(x);
    x_.set(row);
    for (const int copy : {0, copies_ - 1}) {
      std::vector<double>& ref = ref_[copy];
      ref.resize(static_cast<std::size_t>(shape.n));
      const std::uint32_t first = static_cast<std::uint32_t>(copy) * shape.n;
      parallel_for(ref.size(), [&ref, &row, first, k = shape.k](std::size_t i) {
        ref[i] = reference_dot<F>(seed, first + static_cast<std::uint32_t>(i), k, row.data());
      });
    }
  }

  void fill_layout(bool rows_layout) {
    const std::size_t rows = static_cast<std::size_t>(shape_.n) * copies_;
    scales_ =
        rows_layout
            ? reinterpret_cast<__half*>(w_.data + rows * (shape_.k / 32) * (row_block_bytes(F) - 2))
            : nullptr;
    fill<F>(w_.data, scales_, seed, rows, shape_.k, stream_);
    BENCH_CHECK(cudaStreamSynchronize(stream_));
  }

  Result run(const Variant& v) {
    Result result;
    const std::size_t shared = v.shared + static_cast<std::size_t>(shape_.k) / 32 * 40;
    if (shared > 48 * 1024)
      BENCH_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(v.kernel),
                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared)));
    std::vector<float> first;
    for (int programmatic = 0; programmatic < 2; ++programmatic) {
      Graph graph;
      for (int i = 0; i < nodes_; ++i) {
        const std::size_t copy = static_cast<std::size_t>(i % copies_);
        MvArgs a{};
        const std::size_t rows = copy * shape_.n, blocks = rows * (shape_.k / 32);
        a.w = w_.data + (scales_ ? blocks * (row_block_bytes(F) - 2) : copy * bytes_);
        a.scales = scales_ ? scales_ + blocks : nullptr;
        a.x = x_.data;
        a.out = out_.data + rows;
        a.n = shape_.n;
        a.n_blk = shape_.k / 32;
        a.flags = v.rows_per_block ? early_loads : row_block_bytes(F);
        graph.add(v.kernel, dim3(static_cast<unsigned>(blocks_of(v))), dim3(v.threads), shared, a);
        if (i > 0) graph.edge(i - 1, i, programmatic != 0);
      }
      if (!graph.instantiate(stream_)) {
        std::printf("%s: %s\n", v.name, graph.error());
        expect(false, std::string(v.name) + ": graph", 0, 0);
        return result;
      }
      for (int launch = 0; launch < 2; ++launch) {
        out_.fill_bytes(0xFF);
        graph.launch(stream_);
        BENCH_CHECK(cudaStreamSynchronize(stream_));
        const std::vector<float> out = out_.get();
        if (first.empty()) {
          first = out;
          check(v, out);
        } else {
          expect(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)) == 0,
                 what(v) + ": same bits in every launch", 1, 0);
        }
      }
      result.us[programmatic] = graph.median_us(stream_) / nodes_;
    }
    return result;
  }

  double bytes() const { return static_cast<double>(bytes_); }

 private:
  static constexpr std::uint32_t seed = 11;

  std::string what(const Variant& v) const {
    return std::string(F == q4 ? "q4_0 " : "q8_0 ") + v.name + " " + std::to_string(shape_.n) +
           "x" + std::to_string(shape_.k);
  }

  int blocks_of(const Variant& v) const {
    if (v.rows_per_block == 0) return std::min(256, shape_.n / 8);  // one result per warp
    return (shape_.n + v.rows_per_block - 1) / v.rows_per_block;
  }

  void check(const Variant& v, const std::vector<float>& out) {
    if (v.rows_per_block == 0) return check_read(v, out);
    for (const auto& [copy, ref] : ref_) {
      const double e =
          relative_error(ref, out.data() + static_cast<std::size_t>(copy) * ref.size());
      expect(e < 5e-6, what(v) + ": relative error", e, 5e-6);
    }
    std::size_t unwritten = 0;
    for (const float f : out) unwritten += !std::isfinite(f);
    expect(unwritten == 0, what(v) + ": values not written", static_cast<double>(unwritten), 0);
  }

  void check_read(const Variant& v, const std::vector<float>& out) {
    std::uint32_t ref = 0, got = 0, word;
    const std::vector<std::uint8_t> bytes = w_.get(0, bytes_);
    for (std::size_t i = 0; i < bytes_; i += 4) {
      std::memcpy(&word, &bytes[i], 4);
      ref ^= word;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(8 * blocks_of(v)); ++i) {
      std::memcpy(&word, &out[i], 4);
      got ^= word;
    }
    expect(ref == got, what(v) + ": xor", got, ref);
  }

  Shape shape_;
  cudaStream_t stream_;
  std::size_t bytes_;
  int copies_, nodes_;
  Device<std::uint8_t> w_;
  Device<std::uint8_t> x_;
  Device<float> out_;
  __half* scales_ = nullptr;
  std::map<int, std::vector<double>> ref_;
};

template <int F>
void run_format(cudaStream_t stream, std::FILE* csv, bool with_bulk) {
  std::vector<Variant> all = variants<F>();
  if (!with_bulk) std::erase_if(all, [](const Variant& v) { return v.name[0] == 'b'; });
  std::vector<std::vector<Result>> results(all.size(), std::vector<Result>(n_shapes));
  std::vector<double> bytes(n_shapes);
  for (std::size_t s = 0; s < n_shapes; ++s) {
    ShapeBench<F> bench(shapes[s], stream);
    bytes[s] = bench.bytes();
    for (const bool rows_layout : {false, true}) {
      bench.fill_layout(rows_layout);
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].rows_layout != rows_layout) continue;
        results[i][s] = bench.run(all[i]);
        std::fprintf(csv, "matvec,%s,%s,%d,%d,%.3f,%.3f\n", F == q4 ? "q4_0" : "q8_0", all[i].name,
                     shapes[s].n, shapes[s].k, results[i][s].us[0], results[i][s].us[1]);
        std::fflush(csv);
      }
    }
  }
  std::printf("B %s: us per node, plain/programmatic edges\n%-14s", F == q4 ? "q4_0" : "q8_0",
              "variant");
  for (const Shape& s : shapes)
    std::printf(" %11s", (std::to_string(s.n) + "x" + std::to_string(s.k)).c_str());
  std::printf("\n");
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::printf("%-14s", all[i].name);
    for (const Result& r : results[i]) std::printf(" %5.2f/%5.2f", r.us[0], r.us[1]);
    std::printf("\n");
  }
  for (const bool rows_layout : {false, true}) {
    std::printf("%-14s", rows_layout ? "rows best TB/s" : "r16 best TB/s");
    for (std::size_t s = 0; s < n_shapes; ++s) {
      double best[2] = {1e9, 1e9};
      for (std::size_t i = 0; i < all.size(); ++i)
        for (int e = 0; e < 2; ++e)
          if (all[i].rows_layout == rows_layout && all[i].rows_per_block && results[i][s].us[e] > 0)
            best[e] = std::min(best[e], results[i][s].us[e]);
      std::printf(" %5.2f/%5.2f", bytes[s] / best[0] / 1e6, bytes[s] / best[1] / 1e6);
    }
    std::printf("\n");
  }
  std::printf("%-14s", "ceiling us,TB");
  for (const double b : bytes) std::printf(" %5.1f,%5.2f", ceiling_us(b), b / ceiling_us(b) / 1e6);
  std::printf("\n");
}

}  // namespace

void run_matvec(cudaStream_t stream, std::FILE* csv, bool q8_0, bool with_bulk) {
  if (q8_0) {
    run_format<q8>(stream, csv, with_bulk);
  } else {
    run_format<q4>(stream, csv, with_bulk);
  }
}

}  // namespace bench
