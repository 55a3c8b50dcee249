// Optimizer step of class centres: one pass over centre and momentum of each row.

#include <type_traits>

#include "kernels/cuda/margin/centre_rows.h"
#include "kernels/cuda/margin/warp_centre.h"
#include "kernels/math/optimizer.h"

namespace pfc {
namespace {

/// The gradient of row i: the sum of the matrix products and of the row's targets.
class GradientRow {
 public:
  __device__ GradientRow(const CentreGradients& g, std::int64_t dimension, std::int64_t i)
      : g_(g),
        dimension_(dimension),
        row_(g.gradients + (g.slots == nullptr ? i : std::int64_t{g.slots[i]}) * g.stride),
        packs_(g.stride % kPack == 0),
        active_row_(g.first_row + i) {
    const std::int64_t wanted = active_row_ / g.sub_centres;
    std::int32_t low = 0, high = g.positives;
    while (low < high) {  // binary search for the first positive of this row's class
      const std::int32_t middle = low + (high - low) / 2;
      if (g.positive_classes[middle] < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    first_ = last_ = low;
    while (last_ < g.positives && g.positive_classes[last_] == wanted) ++last_;
  }

  __device__ Pack<float> load(std::int64_t i) const {
    Pack<float> sum = load_numbers(row_, i, dimension_, packs_);
    for (std::int32_t k = first_; k < last_; ++k) {
      const std::int32_t slot = g_.positive_slots[k];
      if (g_.target_rows != nullptr && g_.target_rows[slot] != active_row_) continue;
      const float* target = g_.target_gradients + std::int64_t{slot} * g_.stride;
      const Pack<float> part = load_pack(target + i);
#pragma unroll
      for (int e = 0; e < kPack; ++e) sum.x[e] += part.x[e];
    }
    return sum;
  }

 private:
  const CentreGradients& g_;
  const std::int64_t dimension_;
  const float* const row_;
  const bool packs_;
  const std::int64_t active_row_;
  std::int32_t first_, last_;
};

/// Subtracts the gradient's component along the centre, and calls f(i, gradient, centre, momentum)
/// for each of the lane's packs of a row. That component is known only after a first pass over the
/// row. The first 512 elements stay in registers meanwhile; the others are read twice, the second
/// time from a cache.
template <typename Row, typename F>
__device__ __forceinline__ void each_pack_across(const Row& row, const CentreGradients& gradients,
                                                 std::int64_t number, const F& f) {
  constexpr int kHeld = 2;
  const GradientRow gradient(gradients, row.dimension, number);
  const float inverse = gradients.inverse_norms == nullptr ? 0.f : gradients.inverse_norms[number];
  const std::int64_t first = threadIdx.x % kWarp * kPack;
  Pack<float> g[kHeld], w[kHeld], v[kHeld];
  float along = 0;
  const auto add_along = [&](const Pack<float>& a, const Pack<float>& b) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) along += a.x[k] * (b.x[k] * inverse);
  };
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const std::int64_t i = first + h * kWarpPacks;
    if (i >= row.dimension) break;
    g[h] = gradient.load(i);
    row.load(i, w[h], v[h]);
    add_along(g[h], w[h]);
  }
  for (std::int64_t i = first + kHeld * kWarpPacks; i < row.dimension; i += kWarpPacks) {
    add_along(gradient.load(i), row.load(i));
  }
  along = warp_sum(along);
  const auto take_off = [&](Pack<float>& a, const Pack<float>& b) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) a.x[k] -= b.x[k] * inverse * along;
  };
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const std::int64_t i = first + h * kWarpPacks;
    if (i >= row.dimension) break;
    take_off(g[h], w[h]);
    f(i, g[h], w[h], v[h]);
  }
  for (std::int64_t i = first + kHeld * kWarpPacks; i < row.dimension; i += kWarpPacks) {
    g[0] = gradient.load(i);
    row.load(i, w[0], v[0]);
    take_off(g[0], w[0]);
    f(i, g[0], w[0], v[0]);
  }
}

/// Source of the random bits for stochastic rounding.
struct Rounding {
  std::uint64_t seed;
  std::int64_t update;
};

/// Stores the new numbers of a float32 or bfloat16 row. Returns the sum of squares of the stored
/// centre, for this lane's part. each_pack(f) calls f(i, centre, momentum, second moment) for each
/// of the lane's packs.
template <typename Row, typename EachPack>
__device__ __forceinline__ float store_row(Row& row, const CentreTableView& /*table*/,
                                           const RoundingKey& key, const EachPack& each_pack) {
  using Weight = typename Row::Weight;
  using State = typename Row::State;
  constexpr bool kRounds = !std::is_same_v<State, float>;
  const std::int64_t d = row.dimension;
  float squares = 0;
  each_pack(
      [&](std::int64_t i, const Pack<float>& w, const Pack<float>& v, const Pack<float>& second) {
        Pack<float> kept;
        Pack<Weight> new_weight;
        Pack<State> new_momentum, new_second;
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          const std::uint32_t bits =
              kRounds ? rounding_bits(key, static_cast<std::uint32_t>(i + k)) : 0u;
          new_weight.x[k] = kept_number<Weight>(w.x[k], bits & 0xffffu);
          new_momentum.x[k] = kept_number<State>(v.x[k], bits >> 16);
          new_second.x[k] = kept_number<State>(second.x[k], bits >> 16);
          kept.x[k] = i + k < d ? to_float(new_weight.x[k]) : 0.f;
        }
        squares += sum_of_squares(kept);
        store_numbers(row.weight, i, d, row.packs, new_weight);
        if (row.momentum != nullptr) store_numbers(row.momentum, i, d, row.packs, new_momentum);
        if constexpr (Row::kSecond) store_numbers(row.second, i, d, row.packs, new_second);
      });
  return squares;
}

/// Stores a row of one-byte numbers in two passes: measure() all numbers, set_scale(), then store()
/// all numbers and finish().
template <typename Numbers>
class OneByteWriter {
 public:
  using Number = OneByteNumber<Numbers>;
  /// first_element: index of the random bits of the row's first element.
  __device__ OneByteWriter(Number* row, std::int64_t dimension, bool packs, const RoundingKey& key,
                           std::uint32_t first_element)
      : row_(row), d_(dimension), packs_(packs), key_(key), first_(first_element) {}

  __device__ void measure(std::int64_t i, const Pack<float>& x) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const std::uint32_t bits = i + k < d_ ? bits_of(x.x[k]) & 0x7fffffffu : 0u;
      largest_ = bits > largest_ ? bits : largest_;
    }
  }
  /// Sets the scale from all numbers that the warp's lanes have measured.
  __device__ void set_scale() {
    scale_ = row_scale<Numbers>(warp_max(largest_));
    largest_ = 0;
  }
  __device__ void store(std::int64_t i, const Pack<float>& x) {
    const bool there = scale_ > 0;  // otherwise the row has only zeros, or becomes NaN
    const float inverse = there ? 1.f / scale_ : 0.f;
    Pack<Number> codes;
    Pack<float> stored;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const float u =
          uniform_of_bits<float>(rounding_bits(key_, first_ + static_cast<std::uint32_t>(i + k)));
      // The scale was computed from another evaluation of x, which may differ in its last bit.
      const auto most = same_bits<float>(Numbers::kLargest);
      const float number = fminf(fmaxf(x.x[k] * inverse, -most), most);
      const auto rounded = Numbers::template encode<float, std::uint32_t>(number, u);
      codes.x[k].code = static_cast<std::uint8_t>(there ? rounded.code : 0u);
      stored.x[k] = there ? rounded.number * scale_ : 0.f;
    }
    measure(i, stored);
    store_numbers(row_, i, d_, packs_, codes);
  }
  /// Returns the final scale. If rounding has made the largest number so small that a smaller scale
  /// fits, first stores the same numbers with that scale (as cpu/vector/centres/one_byte_rows.cc
  /// does).
  __device__ float finish() {
    const float before = scale_;
    if (!(before > 0)) return before;
    set_scale();
    if (scale_ == before) return before;
    for (std::int64_t i = threadIdx.x % kWarp * kPack; i < d_; i += kWarpPacks) {
      store(i, load_scaled(row_, i, d_, packs_, before));
    }
    return scale_;
  }

 private:
  Number* const row_;
  const std::int64_t d_;
  const bool packs_;
  const RoundingKey key_;
  const std::uint32_t first_;
  std::uint32_t largest_ = 0;
  float scale_ = 0;
};

/// Same as store_row() above for one-byte numbers. Sets the row's scales, also in the table.
template <typename Numbers, typename State, typename EachPack>
__device__ __forceinline__ float store_row(
    WarpCentre<OneByteNumber<Numbers>, OneByteNumber<State>, false>& row,
    const CentreTableView& table, const RoundingKey& key, const EachPack& each_pack) {
  const std::int64_t d = row.dimension;
  OneByteWriter<Numbers> weight(row.weight, d, row.packs, key, 0);
  OneByteWriter<State> momentum(row.momentum, d, row.packs, key, 0x80000000u);
  const bool has_momentum = row.momentum != nullptr;
  each_pack([&](std::int64_t i, const Pack<float>& w, const Pack<float>& v, const Pack<float>&) {
    weight.measure(i, w);
    if (has_momentum) momentum.measure(i, v);
  });
  weight.set_scale();
  if (has_momentum) momentum.set_scale();
  each_pack([&](std::int64_t i, const Pack<float>& w, const Pack<float>& v, const Pack<float>&) {
    weight.store(i, w);
    if (has_momentum) momentum.store(i, v);
  });
  row.weight_scale = weight.finish();
  const float momentum_scale = has_momentum ? momentum.finish() : 0.f;
  if (threadIdx.x % kWarp == 0) {
    table.weight_scales[row.number] = row.weight_scale;
    if (has_momentum) table.momentum_scales[row.number] = momentum_scale;
  }
  float squares = 0;
  for (std::int64_t i = threadIdx.x % kWarp * kPack; i < d; i += kWarpPacks) {
    squares += sum_of_squares(row.load_weight(i));  // just stored by this lane
  }
  return squares;
}

template <typename Row, typename Rule>
__global__ void __launch_bounds__(kThreads)
    move_kernel(CentreTableView table, RowList active, CentreGradients gradients, Rule rule,
                Rounding rounding) {
  const std::int64_t number = index_of_warp();
  if (number >= gradients.count) return;
  Row row(table, active, number);
  RoundingKey key{};
  if constexpr (!std::is_same_v<typename Row::State, float>) {
    key = rounding_key(rounding.seed, rounding.update, table.first_centre + row.number);
  }
  const auto each_pack = [&](const auto& f) {
    each_pack_across(row, gradients, number,
                     [&](std::int64_t i, const Pack<float>& g, Pack<float>& w, Pack<float>& v) {
                       Pack<float> second{};
                       if constexpr (Rule::kSecond) second = row.load_second(i);
#pragma unroll
                       for (int k = 0; k < kPack; ++k) {
                         // The stored momentum is rounded; the step uses the unrounded momentum.
                         rule(g.x[k], w.x[k], v.x[k], second.x[k]);
                       }
                       f(i, w, v, second);
                     });
  };
  const float squares = store_row(row, table, key, each_pack);
  const float inverse =
      inverse_norm_of(table, squares, [&](std::int64_t i) { return row.load_weight(i); });
  if (threadIdx.x % kWarp == 0) table.inverse_norm[row.number] = inverse;
}

template <typename Row>
__global__ void add_gradients_kernel(CentreTableView table, RowList active,
                                     CentreGradients gradients, float* sums,
                                     const std::int32_t* slots) {
  const std::int64_t number = index_of_warp();
  if (number >= gradients.count) return;
  const Row row(table, active, number);
  float* const sum = sums + slots[number] * row.dimension;
  each_pack_across(
      row, gradients, number,
      [&](std::int64_t i, const Pack<float>& g, const Pack<float>&, const Pack<float>&) {
        const bool packs = row.dimension % kPack == 0;
        Pack<float> total = load_numbers(sum, i, row.dimension, packs);
#pragma unroll
        for (int k = 0; k < kPack; ++k) total.x[k] += g.x[k];
        store_numbers(sum, i, row.dimension, packs, total);
      });
}

template <typename Row>
__global__ void settle_kernel(CentreTableView table, RowList active, std::int64_t count,
                              Rounding rounding) {
  const std::int64_t number = index_of_warp();
  if (number >= count) return;
  Row row(table, active, number);
  if (!row.missed) return;
  const RoundingKey key =
      rounding_key(rounding.seed, rounding.update, table.first_centre + row.number);
  const auto each_pack = [&](const auto& f) {
    for (std::int64_t i = threadIdx.x % kWarp * kPack; i < row.dimension; i += kWarpPacks) {
      Pack<float> w, v, second{};
      row.load(i, w, v);
      if constexpr (Row::kSecond) second = row.load_second(i);
      f(i, w, v, second);
    }
  };
  const float squares = store_row(row, table, key, each_pack);
  const float inverse =
      inverse_norm_of(table, squares, [&](std::int64_t i) { return row.load_weight(i); });
  if (threadIdx.x % kWarp == 0) table.inverse_norm[row.number] = inverse;
}

}  // namespace

void CudaCentreRows::settle(const RowList& rows, std::int64_t count, std::int64_t updates) const {
  const Rounding rounding{.seed = options_.seed, .update = updates};
  with_warp_centre(precision_, has_second(), [&](auto* row) {
    launch("settling centres", one_warp_each(count), device_.compute.get(),
           settle_kernel<Pointee<decltype(row)>>, view_, rows, count, rounding);
  });
}

void CudaCentreRows::move(const RowList& active, const CentreGradients& gradients,
                          const MarginSoftmax::Update& update) const {
  if (gradients.count == 0) return;
  const Rounding rounding{.seed = options_.seed, .update = update.number};
  with_warp_centre(precision_, has_second(), [&](auto* row) {
    using Row = Pointee<decltype(row)>;
    const auto go = [&](const auto& rule) {
      launch("moving centres", one_warp_each(gradients.count), device_.compute.get(),
             move_kernel<Row, std::decay_t<decltype(rule)>>, view_, active, gradients, rule,
             rounding);
    };
    if constexpr (Row::kSecond) {
      go(AdamWRule{adamw_options(update.lr, options_.weight_decay, update.number)});
    } else {
      go(SgdRule{sgd_options(options_, update)});
    }
  });
}

void CudaCentreRows::add_gradients(const RowList& active, const CentreGradients& gradients,
                                   float* sums, const std::int32_t* slots) const {
  if (gradients.count == 0) return;
  with_warp_centre(precision_, has_second(), [&](auto* row) {
    launch("adding centres' gradients", one_warp_each(gradients.count), device_.compute.get(),
           add_gradients_kernel<Pointee<decltype(row)>>, view_, active, gradients, sums, slots);
  });
}

}  // namespace pfc
