// Access of a warp to a row of class centres. Device code.
#pragma once

#include <cfloat>
#include <type_traits>

#include "common/config/choices.h"
#include "kernels/cuda/margin/centre_table_view.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/warps.h"
#include "kernels/math/bfloat16.h"
#include "kernels/math/one_byte.h"

namespace pfc {

/// Number of elements that a warp processes at once.
constexpr std::int64_t kWarpPacks = std::int64_t{kWarp} * kPack;

/// A number of the format Numbers (kernels/math/one_byte.h), before it is multiplied by its row's
/// scale.
template <typename Numbers>
struct OneByteNumber {
  std::uint8_t code;
};
template <typename Numbers>
__device__ __forceinline__ float to_float(OneByteNumber<Numbers> x) {
  return Numbers::template decode<float>(std::uint32_t{x.code});
}
template <typename T>
constexpr bool kIsOneByte = false;
template <typename Numbers>
constexpr bool kIsOneByte<OneByteNumber<Numbers>> = true;

/// Loads elements [i, i + 8) of a row of d elements, with zeros after its end. packs: the row
/// starts at a multiple of 16 bytes and d is a multiple of 8.
template <typename T>
__device__ __forceinline__ Pack<float> load_numbers(const T* row, std::int64_t i, std::int64_t d,
                                                    bool packs) {
  Pack<float> out;
  if (packs) {
    const Pack<T> in = load_pack(row + i);
#pragma unroll
    for (int k = 0; k < kPack; ++k) out.x[k] = to_float(in.x[k]);
  } else {
#pragma unroll
    for (int k = 0; k < kPack; ++k) out.x[k] = i + k < d ? to_float(row[i + k]) : 0.f;
  }
  return out;
}

/// Stores elements [i, i + 8) of a row in the form that load_numbers() reads.
template <typename T>
__device__ __forceinline__ void store_numbers(T* row, std::int64_t i, std::int64_t d, bool packs,
                                              const Pack<T>& numbers) {
  if (packs) return store_pack(row + i, numbers);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if (i + k < d) row[i + k] = numbers.x[k];
  }
}

/// Returns x in its storage type; a bfloat16 is rounded stochastically, with 16 random bits.
template <typename T>
__device__ __forceinline__ T kept_number(float x, std::uint32_t random);
template <>
__device__ __forceinline__ float kept_number<float>(float x, std::uint32_t /*random*/) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 kept_number<__nv_bfloat16>(float x, std::uint32_t random) {
  const BFloat16 bits = stochastic_bfloat16(x, random);
  __nv_bfloat16 number;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

/// Returns what load_numbers() returns, times the scale of one-byte numbers.
template <typename T>
__device__ __forceinline__ Pack<float> load_scaled(const T* row, std::int64_t i, std::int64_t d,
                                                   bool packs, float scale) {
  Pack<float> out = load_numbers(row, i, d, packs);
  if constexpr (kIsOneByte<T>) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) out.x[k] *= scale;
  }
  return out;
}

/// A row of the table. Weight and State are the types of its centre and its optimizer state: float,
/// __nv_bfloat16 or OneByteNumber. kSecond: the optimizer has a second moment (AdamW).
template <typename WeightNumber, typename StateNumber, bool kHasSecond>
struct WarpCentre {
  using Weight = WeightNumber;
  using State = StateNumber;
  static constexpr bool kSecond = kHasSecond;

  std::int64_t number;  ///< number of the row in the table
  std::int64_t dimension;
  Weight* weight;
  State* momentum;  ///< nullptr: SGD without momentum
  State* second;
  float weight_scale = 1.f, momentum_scale = 1.f;  ///< of one-byte numbers
  bool packs;
  bool missed;
  CatchUp catch_up;

  __device__ WarpCentre(const CentreTableView& table, const RowList& active, std::int64_t i)
      : number(active.rows == nullptr ? active.first + i : std::int64_t{active.rows[i]}),
        dimension(table.dimension),
        weight(static_cast<Weight*>(table.weight) + number * dimension),
        momentum(table.momentum == nullptr
                     ? nullptr
                     : static_cast<State*>(table.momentum) + number * dimension),
        second(static_cast<State*>(table.second) + (kSecond ? number * dimension : 0)),
        packs(table.packs),
        missed(active.missed != nullptr && active.missed[i] != 0) {
    if (missed) catch_up = active.catch_ups[active.missed[i]];
    if constexpr (kIsOneByte<Weight>) {
      weight_scale = table.weight_scales[number];
      if (momentum != nullptr) momentum_scale = table.momentum_scales[number];
    }
  }

  /// Loads elements [i, i + 8) of centre and momentum, after the missed updates.
  __device__ void load(std::int64_t i, Pack<float>& w, Pack<float>& v) const {
    w = load_weight(i);
    v = momentum == nullptr ? Pack<float>{}
                            : load_scaled(momentum, i, dimension, packs, momentum_scale);
    if (!missed) return;
    Pack<float> s{};
    if constexpr (kSecond) s = load_numbers(second, i, dimension, packs);
#pragma unroll
    for (int k = 0; k < kPack; ++k) apply(w.x[k], v.x[k], s.x[k]);
  }
  /// Returns elements [i, i + 8) of the second moment, after the missed updates.
  __device__ Pack<float> load_second(std::int64_t i) const {
    Pack<float> s = load_numbers(second, i, dimension, packs);
    if (!missed) return s;
#pragma unroll
    for (int k = 0; k < kPack; ++k) s.x[k] *= catch_up.second;
    return s;
  }
  /// Returns elements [i, i + 8) of the centre. Reads the state only if updates were missed.
  __device__ Pack<float> load(std::int64_t i) const {
    Pack<float> w, v;
    if (missed) {
      load(i, w, v);
      return w;
    }
    return load_weight(i);
  }
  /// Returns elements [i, i + 8) of the centre as it is stored.
  __device__ Pack<float> load_weight(std::int64_t i) const {
    return load_scaled(weight, i, dimension, packs, weight_scale);
  }
  /// Returns element i of the centre, after the missed updates.
  __device__ float element(std::int64_t i) const {
    float w = to_float(weight[i]) * weight_scale;
    if (!missed) return w;
    float v = momentum == nullptr ? 0.f : to_float(momentum[i]) * momentum_scale, s = 0.f;
    if constexpr (kSecond) s = to_float(second[i]);
    apply(w, v, s);
    return w;
  }

 private:
  __device__ void apply(float& w, float& v, float& s) const {
    if constexpr (kSecond) {
      apply_adamw(catch_up, w, v, s);
    } else {
      apply_sgd(catch_up, w, v);
    }
  }
};

/// All kernels add a row's squares with this function, so that a norm has the same bits whether a
/// row was just updated or read from a checkpoint. Elements beyond the row are 0.
__device__ __forceinline__ float sum_of_squares(const Pack<float>& p) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kPack; ++k) sum = fmaf(p.x[k], p.x[k], sum);
  return sum;
}

/// Returns 1 / length of a row; 0 for a row of zeros; 1 if rows are not normalised. lane_squares is
/// this lane's part of the sum of squares, in float32. If that sum overflows or loses digits, it is
/// recomputed in float64 from load(i), the pack at element i.
template <typename Load>
__device__ float inverse_norm_of(const CentreTableView& table, float lane_squares,
                                 const Load& load) {
  if (table.plain) return 1.f;
  const std::int64_t d = table.dimension;
  constexpr float kTiny = 1e-30f, kHuge = 1e+30f;
  const float squares = warp_sum(lane_squares);
  auto exact = static_cast<double>(squares);
  if (!(squares > kTiny && squares < kHuge)) {
    exact = 0;
    for (std::int64_t i = threadIdx.x % kWarp * kPack; i < d; i += kWarpPacks) {
      const Pack<float> p = load(i);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        exact += static_cast<double>(p.x[k]) * static_cast<double>(p.x[k]);
      }
    }
    exact = warp_sum(exact);
  }
  if (exact == 0) return 0.f;
  const double inverse = 1 / sqrt(exact);
  return static_cast<float>(inverse > FLT_MAX ? FLT_MAX : inverse);
}

/// Calls f with a null WarpCentre pointer for this precision, with or without second moment.
template <typename F>
void with_warp_centre(CentrePrecision precision, bool second, const F& f) {
  const auto with_types = [&](auto* weight, auto* state) {
    using Weight = std::remove_pointer_t<decltype(weight)>;
    using State = std::remove_pointer_t<decltype(state)>;
    if (second) return f(static_cast<WarpCentre<Weight, State, true>*>(nullptr));
    return f(static_cast<WarpCentre<Weight, State, false>*>(nullptr));
  };
  using Int8 = OneByteNumber<Int8Numbers>;
  auto* const single = static_cast<float*>(nullptr);
  auto* const half = static_cast<__nv_bfloat16*>(nullptr);
  switch (precision) {
    case CentrePrecision::kFp32:
      return with_types(single, single);
    case CentrePrecision::kBf16Momentum:
      return with_types(single, half);
    case CentrePrecision::kBf16:
      return with_types(half, half);
    case CentrePrecision::kInt8:
      return f(static_cast<WarpCentre<Int8, Int8, false>*>(nullptr));
    default:
      return f(static_cast<WarpCentre<OneByteNumber<Fp8Numbers>, Int8, false>*>(nullptr));
  }
}
template <typename Pointer>
using Pointee = std::remove_pointer_t<Pointer>;

}  // namespace pfc
