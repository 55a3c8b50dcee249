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

template <typename Row, typename Rule>
__global__ void __launch_bounds__(kThreads)
    move_kernel(CentreTableView table, RowList active, CentreGradients gradients, Rule rule,
                Rounding rounding) {
  using Weight = typename Row::Weight;
  using State = typename Row::State;
  const std::int64_t number = index_of_warp();
  if (number >= gradients.count) return;
  const Row row(table, active, number);
  const std::int64_t d = row.dimension;
  constexpr bool kRounds = !std::is_same_v<State, float>;
  RoundingKey key{};
  if constexpr (kRounds) {
    key = rounding_key(rounding.seed, rounding.update, table.first_centre + row.number);
  }
  float squares = 0;
  each_pack_across(row, gradients, number,
                   [&](std::int64_t i, const Pack<float>& g, Pack<float>& w, Pack<float>& v) {
                     Pack<float> second{};
                     if constexpr (Rule::kSecond) second = row.load_second(i);
                     Pack<float> kept;
                     Pack<Weight> new_weight;
                     Pack<State> new_momentum, new_second;
#pragma unroll
                     for (int k = 0; k < kPack; ++k) {
                       // The stored momentum is rounded; the step uses the unrounded momentum.
                       rule(g.x[k], w.x[k], v.x[k], second.x[k]);
                       const std::uint32_t bits =
                           kRounds ? rounding_bits(key, static_cast<std::uint32_t>(i + k)) : 0u;
                       new_weight.x[k] = kept_number<Weight>(w.x[k], bits & 0xffffu);
                       new_momentum.x[k] = kept_number<State>(v.x[k], bits >> 16);
                       new_second.x[k] = kept_number<State>(second.x[k], bits >> 16);
                       kept.x[k] = i + k < d ? to_float(new_weight.x[k]) : 0.f;
                     }
                     squares += sum_of_squares(kept);
                     store_numbers(row.weight, i, d, row.packs, new_weight);
                     store_numbers(row.momentum, i, d, row.packs, new_momentum);
                     if constexpr (Rule::kSecond)
                       store_numbers(row.second, i, d, row.packs, new_second);
                   });
  const float inverse = inverse_norm_of(table, squares, [&](std::int64_t i) {
    return load_numbers(row.weight, i, d, row.packs);  // just stored by this lane
  });
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
  using Weight = typename Row::Weight;
  using State = typename Row::State;
  const std::int64_t number = index_of_warp();
  if (number >= count) return;
  const Row row(table, active, number);
  if (!row.missed) return;
  const std::int64_t d = row.dimension;
  const RoundingKey key =
      rounding_key(rounding.seed, rounding.update, table.first_centre + row.number);
  float squares = 0;
  for (std::int64_t i = threadIdx.x % kWarp * kPack; i < d; i += kWarpPacks) {
    Pack<float> w, v, second{};
    row.load(i, w, v);
    if constexpr (Row::kSecond) second = row.load_second(i);
    Pack<float> kept;
    Pack<Weight> new_weight;
    Pack<State> new_momentum, new_second;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const std::uint32_t bits = rounding_bits(key, static_cast<std::uint32_t>(i + k));
      new_weight.x[k] = kept_number<Weight>(w.x[k], bits & 0xffffu);
      new_momentum.x[k] = kept_number<State>(v.x[k], bits >> 16);
      new_second.x[k] = kept_number<State>(second.x[k], bits >> 16);
      kept.x[k] = i + k < d ? to_float(new_weight.x[k]) : 0.f;
    }
    squares += sum_of_squares(kept);
    store_numbers(row.weight, i, d, row.packs, new_weight);
    store_numbers(row.momentum, i, d, row.packs, new_momentum);
    if constexpr (Row::kSecond) store_numbers(row.second, i, d, row.packs, new_second);
  }
  const float inverse = inverse_norm_of(table, squares, [&](std::int64_t i) {
    return load_numbers(row.weight, i, d, row.packs);  // just stored by this lane
  });
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
