// head_limits [--samples 128] [--dimension 512] [--threads 2] [--gibibytes 2] [--rate 0.1]
//
// Measures this machine's limits for the parts of a head step:
// - memory, in GB/s: reads and in-place updates of a whole array in order, and of rows gathered at
//   a sample rate, which are as large as a centre in float32 or bfloat16;
// - matrix products of a tile, in GFLOP/s: by oneDNN and by pfc.
// All threads work at the same time. Each figure is the best of a few repeats, because other
// programs can only make it worse. Prints one JSON object. docs/benchmarks/head.md derives a step's
// limit from it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/runtime/aligned_memory.h"
#include "kernels/cpu/runtime/aligned_vector.h"
#include "kernels/cpu/runtime/threads.h"

namespace pfc {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::int64_t samples = 128, dimension = 512;
  int threads = 2;
  std::int64_t gibibytes = 2;  // size of each of two arrays
  double rate = 0.1;
  int repeats = 5;
};

/// Returns the shortest time of a few calls of f(), in seconds.
template <typename F>
double best_seconds(int repeats, const F& f) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const TimePoint begin = Clock::now();
    f();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

constexpr std::int64_t kLine = 16;  // floats
using Line [[gnu::vector_size(64)]] = float;

Line line_of(const float* p) {
  Line x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}

class Memory {
 public:
  explicit Memory(const Options& o)
      : o_(o),
        threads_(o.threads),
        floats_((o.gibibytes << 30) / static_cast<std::int64_t>(sizeof(float))),
        a_(static_cast<std::size_t>(o.gibibytes) << 30),
        b_(static_cast<std::size_t>(o.gibibytes) << 30),
        sums_(static_cast<std::size_t>(o.threads)) {
    threads_.each_part([&](int part) {  // allocates the pages
      const Range range = part_of(floats_, part, o_.threads, kLine);
      std::fill(a() + range.begin, a() + range.end, 1.f);
      std::fill(b() + range.begin, b() + range.end, 1.f);
    });
  }

  Json streams() {
    Json json;
    const double bytes = static_cast<double>(floats_) * sizeof(float);
    json["copy"] = gb_per_s(2 * bytes, [&](Range r) {
      for (std::int64_t i = r.begin; i < r.end; ++i) b()[i] = a()[i];
    });
    json["triad"] = gb_per_s(3 * bytes / 2, [&](Range r) {  // c is the upper half of b
      const std::int64_t half = floats_ / 2;
      for (std::int64_t i = r.begin / 2; i < r.end / 2; ++i) {
        b()[half + i] = a()[i] + 3.f * b()[i];
      }
    });
    json["read"] = rows(floats_, 1.0, false);
    json["update"] = rows(floats_, 1.0, true);
    return json;
  }

  /// Returns GB/s of rows of `row` floats: read from one array, or read and written in both.
  double rows(std::int64_t row, double rate, bool update) {
    std::vector<std::int64_t> begins = drawn(std::min<std::int64_t>(row, kChunk), rate);
    row = std::min<std::int64_t>(row, kChunk);
    const double bytes =
        static_cast<double>(begins.size()) * static_cast<double>(row) * sizeof(float);
    const auto count = static_cast<std::int64_t>(begins.size());
    const double seconds = best_seconds(o_.repeats, [&] {
      threads_.each_part([&](int part) {
        const Range range = part_of(count, part, o_.threads);
        update ? update_rows(begins, range, row, rate < 1)
               : read_rows(begins, range, row, rate < 1, part);
      });
    });
    return (update ? 4 : 1) * bytes / seconds / 1e9;
  }

 private:
  static constexpr std::int64_t kChunk = 1 << 16;  // floats read at a time
  static constexpr std::int64_t kAhead = 8;        // rows

  float* a() { return reinterpret_cast<float*>(a_.data()); }
  float* b() { return reinterpret_cast<float*>(b_.data()); }

  /// Returns the offsets of the sampled rows.
  [[nodiscard]] std::vector<std::int64_t> drawn(std::int64_t row, double rate) const {
    std::mt19937_64 generator(1);
    std::bernoulli_distribution taken(rate);
    std::vector<std::int64_t> begins;
    for (std::int64_t i = 0; i + row <= floats_; i += row) {
      if (taken(generator)) begins.push_back(i);
    }
    return begins;
  }

  template <typename F>  // void(Range)
  double gb_per_s(double bytes, const F& f) {
    const double seconds = best_seconds(o_.repeats, [&] {
      threads_.each_part([&](int part) { f(part_of(floats_, part, o_.threads, 2 * kLine)); });
    });
    return bytes / seconds / 1e9;
  }

  static void prefetch(const float* row, std::int64_t floats) {
    for (std::int64_t i = 0; i < floats; i += kLine) __builtin_prefetch(row + i);
  }

  void read_rows(const std::vector<std::int64_t>& begins, Range range, std::int64_t row, bool ahead,
                 int part) {
    Line sums[4] = {};
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      if (ahead && i + kAhead < range.end) prefetch(a() + at(begins, i + kAhead), row);
      const float* p = a() + at(begins, i);
      for (std::int64_t k = 0; k < row; k += 4 * kLine) {
        for (int j = 0; j < 4; ++j) sums[j] += line_of(p + k + j * kLine);
      }
    }
    sums_[static_cast<std::size_t>(part)] = (sums[0] + sums[1] + sums[2] + sums[3])[0];
  }

  void update_rows(const std::vector<std::int64_t>& begins, Range range, std::int64_t row,
                   bool ahead) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      if (ahead && i + kAhead < range.end) {
        prefetch(a() + at(begins, i + kAhead), row);
        prefetch(b() + at(begins, i + kAhead), row);
      }
      float* const weight = a() + at(begins, i);
      float* const momentum = b() + at(begins, i);
      for (std::int64_t k = 0; k < row; ++k) {
        momentum[k] = 0.5f * momentum[k];
        weight[k] -= momentum[k];
      }
    }
  }
  static std::int64_t at(const std::vector<std::int64_t>& begins, std::int64_t i) {
    return begins[static_cast<std::size_t>(i)];
  }

  const Options& o_;
  const Threads threads_;
  const std::int64_t floats_;
  AlignedMemory a_, b_;
  std::vector<float> sums_;  // keeps the reads from being optimised away
};

constexpr std::int64_t kTile = 192;  // classes; enough for a library to be fast
constexpr int kProducts = 50;

/// Returns GFLOP/s of a function that multiplies a tile `times` times, on all threads.
template <typename F>  // void(int part)
double gflops(const Options& o, std::int64_t classes, const F& f) {
  const Threads threads(o.threads);
  const double seconds = best_seconds(4 * o.repeats, [&] { threads.each_part(f); });
  return 2.0 * static_cast<double>(classes * o.samples * o.dimension) * kProducts * o.threads /
         seconds / 1e9;
}

struct Operands {
  explicit Operands(const Options& o)
      : rows(static_cast<std::size_t>(kTile * o.dimension), 0.1f),
        unit(static_cast<std::size_t>(o.samples * o.dimension), 0.1f),
        products(static_cast<std::size_t>(kTile * o.samples), 0.1f),
        gradients(rows.size()),
        d_unit(unit.size()) {}
  AlignedVector<float> rows, unit, products, gradients, d_unit;
};

std::vector<Operands> operands_of_each_thread(const Options& o) {
  return std::vector<Operands>(static_cast<std::size_t>(o.threads), Operands(o));
}

/// Measures the three products of a head: a tile's rows with the embeddings, and both gradients.
Json dnnl_sgemm_gflops(const Options& o) {
  std::vector<Operands> all = operands_of_each_thread(o);
  const std::int64_t n = o.samples, d = o.dimension, t = kTile;
  const auto of = [&](int part) -> Operands& { return all[static_cast<std::size_t>(part)]; };
  const auto times = [](const auto& call) {
    for (int i = 0; i < kProducts; ++i) call();
  };
  Json json;
  json["products"] = gflops(o, t, [&](int part) {
    Operands& x = of(part);
    times([&] {
      dnnl_sgemm('N', 'N', t, n, d, 1.f, x.rows.data(), d, x.unit.data(), n, 0.f, x.products.data(),
                 n);
    });
  });
  json["embeddings"] = gflops(o, t, [&](int part) {
    Operands& x = of(part);
    times([&] {
      dnnl_sgemm('T', 'N', n, d, t, 1.f, x.products.data(), n, x.rows.data(), d, 1.f,
                 x.d_unit.data(), d);
    });
  });
  json["centres"] = gflops(o, t, [&](int part) {
    Operands& x = of(part);
    times([&] {
      dnnl_sgemm('N', 'N', t, d, n, 1.f, x.products.data(), n, x.unit.data(), d, 0.f,
                 x.gradients.data(), d);
    });
  });
  return json;
}

/// One bfloat16 product by oneDNN.
class DnnlProduct {
 public:
  using Layout = dnnl::memory::format_tag;
  DnnlProduct(std::int64_t m, std::int64_t k, std::int64_t n, Layout src, Layout weights)
      : stream_(engine_) {
    using Type = dnnl::memory::data_type;
    const dnnl::matmul::desc product({{m, k}, Type::bf16, src}, {{k, n}, Type::bf16, weights},
                                     {{m, n}, Type::f32, Layout::ab});
    const dnnl::matmul::primitive_desc plan(product, engine_);
    const auto memory = [&](const dnnl::memory::desc& layout) {
      dnnl::memory made(layout, engine_);
      std::fill_n(static_cast<std::byte*>(made.get_data_handle()), layout.get_size(), std::byte{0});
      return made;
    };
    arguments_ = {{DNNL_ARG_SRC, memory(plan.src_desc())},
                  {DNNL_ARG_WEIGHTS, memory(plan.weights_desc())},
                  {DNNL_ARG_DST, memory(plan.dst_desc())}};
    primitive_ = dnnl::matmul(plan);
  }
  void run() {
    for (int i = 0; i < kProducts; ++i) primitive_.execute(stream_, arguments_);
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
  dnnl::matmul primitive_;
};

Json dnnl_bf16_gflops(const Options& o) {
  using Layout = dnnl::memory::format_tag;
  const std::int64_t n = o.samples, d = o.dimension, t = kTile;
  const auto measured = [&](std::int64_t m, std::int64_t k, std::int64_t columns, Layout src,
                            Layout weights) {
    std::vector<std::unique_ptr<DnnlProduct>> each(static_cast<std::size_t>(o.threads));
    const Threads threads(o.threads);
    threads.each_part([&](int part) {  // in a thread of the team, so oneDNN plans for one thread
      each[static_cast<std::size_t>(part)] =
          std::make_unique<DnnlProduct>(m, k, columns, src, weights);
    });
    return gflops(o, t, [&](int part) { each[static_cast<std::size_t>(part)]->run(); });
  };
  return {{"products", measured(t, d, n, Layout::ab, Layout::any)},
          {"embeddings", measured(n, t, d, Layout::ba, Layout::ab)},
          {"centres", measured(t, n, d, Layout::ab, Layout::any)}};
}

Json own_gflops(const Options& o, TileProducts& products) {
  constexpr std::int64_t kClasses = kTileRows;
  std::vector<Operands> all = operands_of_each_thread(o);
  const std::int64_t stride = tile_row_stride(o.dimension);
  const AlignedVector<BFloat16> halves(static_cast<std::size_t>(kTile * stride));
  const AlignedVector<float> floats(halves.size());
  const bool half = products.row_type() == DType::kBFloat16;
  const void* const rows = half ? static_cast<const void*>(halves.data()) : floats.data();
  products.set_embeddings(all[0].unit.data(), o.samples, o.dimension, o.threads);
  const auto measured = [&](const auto& call) {
    return gflops(o, kClasses, [&](int part) {
      Operands& x = all[static_cast<std::size_t>(part)];
      PrefetchList nothing;
      products.set_factors(part, x.products.data(), kClasses);
      for (int i = 0; i < kProducts; ++i) call(part, x, nothing);
    });
  };
  Json json;
  json["products"] = measured([&](int part, Operands& x, PrefetchList& nothing) {
    products.forward(part, rows, kClasses, x.products.data(), nothing);
  });
  json["embeddings"] = measured([&](int part, Operands& x, PrefetchList& nothing) {
    products.add_embedding_gradients(part, rows, x.d_unit.data(), nothing);
  });
  json["centres"] = measured([&](int part, Operands& x, PrefetchList& nothing) {
    for (std::int64_t first = 0; first < kClasses; first += kGradientRows) {
      products.centre_gradients(part, first, kGradientRows, x.gradients.data(), nothing);
    }
  });
  return json;
}

Json measure(const Options& o) {
  constexpr std::int64_t kMultiple = 8 * kLine;  // bfloat16 rows are read four lines at a time
  if (o.dimension % kMultiple != 0) {
    throw InputError("--dimension: found " + std::to_string(o.dimension) +
                     ", expected a multiple of " + std::to_string(kMultiple));
  }
  Json json;
  {
    Memory memory(o);
    json["stream"] = memory.streams();
    for (const std::int64_t bytes : {o.dimension * 4, o.dimension * 2}) {
      const std::string row = std::to_string(bytes);
      json["gathered"][row] = {{"read", memory.rows(bytes / 4, o.rate, false)},
                               {"update", memory.rows(bytes / 4, o.rate, true)}};
    }
  }
  json["fp32"] = {{"oneDNN", dnnl_sgemm_gflops(o)},
                  {"pfc", own_gflops(o, *make_float_tile_products(best_vector_kernels()))}};
  if (cpu_has_bfloat16()) {
    json["bf16"] = {{"oneDNN", dnnl_bf16_gflops(o)},
                    {"pfc", own_gflops(o, *make_bfloat16_tile_products())}};
  }
  return json;
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  CLI::App app("Measures what limits a head step");
  pfc::Options o;
  app.add_option("--samples", o.samples, "N")->check(CLI::PositiveNumber);
  app.add_option("--dimension", o.dimension, "D, a multiple of 128")->check(CLI::PositiveNumber);
  app.add_option("--threads", o.threads)->check(CLI::PositiveNumber);
  app.add_option("--gibibytes", o.gibibytes, "of each of two arrays")->check(CLI::PositiveNumber);
  app.add_option("--rate", o.rate, "of the rows that are gathered");
  app.add_option("--repeats", o.repeats)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    std::printf("%s\n", pfc::measure(o).dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "head_limits: %s\n", error.what());
    return 2;
  }
}
