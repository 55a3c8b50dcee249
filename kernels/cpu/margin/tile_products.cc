#include "kernels/cpu/margin/tile_products.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "common/error.h"
#include "kernels/cpu/runtime/aligned_vector.h"
#include "kernels/cpu/runtime/threads.h"

namespace pfc {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// A tile's factors as bfloat16: pairs of samples per class, pairs of classes per sample, and a
/// panel of the centres with pairs of classes.
struct RoundedTile {
  std::int64_t stride = 0;  // numbers per row, with zeros after N
  AlignedVector<BFloat16> rows;
  AlignedVector<std::uint32_t> pairs, panel;

  /// Calls f(array, elements) for each array. Used to allocate and to count, so both agree.
  template <typename F>
  void each_array(std::int64_t samples, std::int64_t panel_columns, const F& f) {
    stride = tile_row_stride(samples);
    f(rows, static_cast<std::size_t>(kTileRows * stride));
    f(pairs, static_cast<std::size_t>(kTileRows / 2 * stride));
    f(panel, static_cast<std::size_t>(kTileRows / 2 * panel_columns));
  }
};

/// Multiplies with the vector kernels. A word is a float, or a pair of bfloat16.
class VectorTileProducts : public TileProducts {
 public:
  VectorTileProducts(const VectorKernels& kernels, bool bfloat16)
      : kernels_(kernels), panel_(kernels.product_panel), half_(bfloat16) {}

  [[nodiscard]] DType row_type() const override {
    return half_ ? DType::kBFloat16 : DType::kFloat32;
  }
  [[nodiscard]] std::int64_t prefetch_steps(std::int64_t classes) const override {
    return classes * n_ * words(d_) / (kernels_.product_rows * panel_);
  }
  void set_embeddings(const float* unit, std::int64_t samples, std::int64_t dimension,
                      int parts) override;
  bool forward(int part, const void* rows, std::int64_t classes, float* products,
               PrefetchList& soon) override;
  void set_factors(int part, float* g, std::int64_t classes) override;
  bool add_embedding_gradients(int part, const void* rows, float* d_unit,
                               PrefetchList& soon) override;
  bool centre_gradients(int part, std::int64_t first, std::int64_t count, float* gradients,
                        PrefetchList& soon) override;

  [[nodiscard]] std::int64_t bytes(std::int64_t samples, std::int64_t dimension, int parts);

 private:
  /// Data of one thread.
  struct Part {
    const float* g = nullptr;
    std::int64_t classes = 0;
    RoundedTile rounded;
  };

  /// Returns the number of words for n adjacent numbers.
  [[nodiscard]] std::int64_t words(std::int64_t n) const { return half_ ? (n + 1) / 2 : n; }

  void multiply(const TileProduct& p, PrefetchList& soon) const {
    half_ ? kernels_.bfloat16_product(p, soon) : kernels_.float_product(p, soon);
  }
  void add_panel(Part& part, const BFloat16* rows, std::int64_t first, float* d_unit,
                 PrefetchList& soon) const;
  template <typename F>
  void each_array(std::int64_t samples, std::int64_t dimension, const F& f);
  template <typename At>
  void pack(AlignedVector<std::uint32_t>& panels, std::int64_t depth, std::int64_t columns,
            const At& at) const;
  template <typename At>
  void pack_panel(std::uint32_t* to, std::int64_t depth, std::int64_t columns, const At& at) const;

  const VectorKernels& kernels_;
  const std::int64_t panel_;
  const bool half_;
  std::int64_t n_ = 0, d_ = 0;
  AlignedVector<BFloat16> rounded_;            // unit [N, D]
  AlignedVector<std::uint32_t> right_, left_;  // panels of transposed unit, and of unit
  std::vector<Part> parts_;
};

template <typename F>
void VectorTileProducts::each_array(std::int64_t samples, std::int64_t dimension, const F& f) {
  const auto panels = [this](std::int64_t depth, std::int64_t columns) {
    return static_cast<std::size_t>(words(depth) * round_up(columns, panel_));
  };
  f(rounded_, static_cast<std::size_t>(half_ ? samples * dimension : 0));
  f(right_, panels(dimension, samples));
  f(left_, panels(samples, dimension));
  for (Part& part : parts_) {
    if (half_) part.rounded.each_array(samples, panel_, f);
  }
}

std::int64_t VectorTileProducts::bytes(std::int64_t samples, std::int64_t dimension, int parts) {
  parts_.resize(static_cast<std::size_t>(parts));
  std::size_t sum = 0;
  each_array(samples, dimension,
             [&](const auto& array, std::size_t n) { sum += n * sizeof(array[0]); });
  return static_cast<std::int64_t>(sum);
}

/// Packs the matrix with word at(k, j) in row k and column j into panels, with zeros after its
/// columns. The threads of the team divide the panels.
template <typename At>
void VectorTileProducts::pack(AlignedVector<std::uint32_t>& panels, std::int64_t depth,
                              std::int64_t columns, const At& at) const {
  const Threads threads(static_cast<int>(parts_.size()));
  const std::int64_t count = round_up(columns, panel_) / panel_;
  threads.each_range(count, 1, depth * columns, [&](const Range& range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const std::int64_t first = i * panel_;
      pack_panel(panels.data() + first * depth, depth, std::min(panel_, columns - first),
                 [&](std::int64_t k, std::int64_t j) { return at(k, first + j); });
    }
  });
}

template <typename At>
void VectorTileProducts::pack_panel(std::uint32_t* to, std::int64_t depth, std::int64_t columns,
                                    const At& at) const {
  for (std::int64_t k = 0; k < depth; ++k, to += panel_) {
    for (std::int64_t j = 0; j < columns; ++j) to[j] = at(k, j);
    std::fill(to + columns, to + panel_, 0u);
  }
}

void VectorTileProducts::set_embeddings(const float* unit, std::int64_t samples,
                                        std::int64_t dimension, int parts) {
  const std::int64_t n = samples, d = dimension;
  if (n != n_ || d != d_ || parts != static_cast<int>(parts_.size())) {
    n_ = n;
    d_ = d;
    parts_.resize(static_cast<std::size_t>(parts));
    each_array(n, d, [](auto& array, std::size_t elements) { array.assign(elements, 0); });
  }
  if (!half_) {
    pack(right_, d, n, [&](std::int64_t k, std::int64_t j) { return bits_of(unit[j * d + k]); });
    pack(left_, n, d, [&](std::int64_t k, std::int64_t j) { return bits_of(unit[k * d + j]); });
    return;
  }
  kernels_.to_bfloat16(unit, rounded_.data(), n * d);
  const auto number = [&](std::int64_t sample, std::int64_t i) -> std::uint32_t {
    return sample < n && i < d ? rounded_[static_cast<std::size_t>(sample * d + i)] : 0u;
  };
  pack(right_, words(d), n, [&](std::int64_t k, std::int64_t j) {
    return number(j, 2 * k) | number(j, 2 * k + 1) << 16;
  });
  pack(left_, words(n), d, [&](std::int64_t k, std::int64_t j) {
    return number(2 * k, j) | number(2 * k + 1, j) << 16;
  });
}

bool VectorTileProducts::forward(int /*part*/, const void* rows, std::int64_t classes,
                                 float* products, PrefetchList& soon) {
  multiply({.rows = classes,
            .columns = n_,
            .depth = words(d_),
            .a = rows,
            .a_row = words(tile_row_stride(d_)),
            .a_step = 1,
            .b = right_.data(),
            .b_panel = words(d_) * panel_,
            .b_step = panel_,
            .c = products,
            .c_row = n_,
            .add = false},
           soon);
  return true;
}

void VectorTileProducts::set_factors(int part, float* g, std::int64_t classes) {
  Part& p = parts_[static_cast<std::size_t>(part)];
  p.g = g;
  p.classes = classes;
  if (!half_) return;
  RoundedTile& r = p.rounded;
  for (std::int64_t i = 0; i < classes; ++i) {
    kernels_.to_bfloat16(g + i * n_, r.rows.data() + i * r.stride, n_);
  }
  kernels_.pair_rows(r.rows.data(), r.stride, classes, r.stride, r.pairs.data(), r.stride);
}

bool VectorTileProducts::add_embedding_gradients(int part, const void* rows, float* d_unit,
                                                 PrefetchList& soon) {
  Part& p = parts_[static_cast<std::size_t>(part)];
  if (half_) {
    for (std::int64_t first = 0; first < d_; first += panel_) {
      add_panel(p, static_cast<const BFloat16*>(rows), first, d_unit, soon);
    }
    return true;
  }
  multiply({.rows = n_,
            .columns = d_,
            .depth = p.classes,
            .a = p.g,
            .a_row = 1,
            .a_step = n_,
            .b = rows,
            .b_panel = panel_,
            .b_step = tile_row_stride(d_),
            .c = d_unit,
            .c_row = d_,
            .add = true},
           soon);
  return true;
}

void VectorTileProducts::add_panel(Part& part, const BFloat16* rows, std::int64_t first,
                                   float* d_unit, PrefetchList& soon) const {
  RoundedTile& r = part.rounded;
  const std::int64_t stride = tile_row_stride(d_);
  kernels_.pair_rows(rows + first, stride, part.classes, std::min(panel_, stride - first),
                     r.panel.data(), panel_);
  multiply({.rows = n_,
            .columns = std::min(panel_, d_ - first),
            .depth = words(part.classes),
            .a = r.pairs.data(),
            .a_row = 1,
            .a_step = r.stride,
            .b = r.panel.data(),
            .b_panel = 0,
            .b_step = panel_,
            .c = d_unit + first,
            .c_row = d_,
            .add = true},
           soon);
}

bool VectorTileProducts::centre_gradients(int part, std::int64_t first, std::int64_t count,
                                          float* gradients, PrefetchList& soon) {
  const Part& p = parts_[static_cast<std::size_t>(part)];
  TileProduct product{.rows = count,
                      .columns = d_,
                      .depth = words(n_),
                      .a = p.g + first * n_,
                      .a_row = n_,
                      .a_step = 1,
                      .b = left_.data(),
                      .b_panel = words(n_) * panel_,
                      .b_step = panel_,
                      .c = gradients,
                      .c_row = d_,
                      .add = false};
  if (half_) {
    product.a = p.rounded.rows.data() + first * p.rounded.stride;
    product.a_row = words(p.rounded.stride);
  }
  multiply(product, soon);
  return true;
}

}  // namespace

std::unique_ptr<TileProducts> make_float_tile_products(const VectorKernels& kernels) {
  return std::make_unique<VectorTileProducts>(kernels, false);
}

std::unique_ptr<TileProducts> make_vector_bfloat16_tile_products(const VectorKernels& kernels) {
  check(kernels.bfloat16_product != nullptr, "tile products: kernels without bfloat16 products");
  return std::make_unique<VectorTileProducts>(kernels, true);
}

std::int64_t tile_products_bytes(bool bfloat16, std::int64_t samples, std::int64_t dimension,
                                 int parts) {
  return VectorTileProducts(best_vector_kernels(), bfloat16).bytes(samples, dimension, parts);
}

/// Also false if the environment tells oneDNN not to use the processor's bfloat16 support.
bool cpu_has_bfloat16() {
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return best_vector_kernels().bfloat16_product != nullptr && (used & kNeeded) == kNeeded;
}

std::unique_ptr<TileProducts> make_bfloat16_tile_products() {
  if (!cpu_has_bfloat16()) {
    throw InputError(
        "precision: found bf16 or fp16, but this CPU lacks the instructions for the head's bf16 "
        "products (avx512_bf16); set \"precision\" to \"fp32\"");
  }
  // AMX multiplies matrices several times faster than the vector instructions.
  if (__builtin_cpu_supports("amx-bf16")) return make_dnnl_tile_products();
  return make_vector_bfloat16_tile_products(best_vector_kernels());
}

}  // namespace pfc
