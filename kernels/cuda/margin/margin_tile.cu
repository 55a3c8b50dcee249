#include <cfloat>
#include <cstdint>

#include "kernels/cuda/margin/margin_tile.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/warps.h"

namespace pfc {
namespace {

/// Returns the cosine, limited to [-limit, limit]; 0 above the filter's threshold. A NaN stays NaN,
/// since every comparison with it is false.
__device__ __forceinline__ float filtered_cosine(const ProductTile& t, float product,
                                                 float inverse) {
  float cosine = product * inverse;
  cosine = cosine > t.limit ? t.limit : cosine;
  cosine = cosine < -t.limit ? -t.limit : cosine;
  return cosine > t.threshold ? 0.f : cosine;
}

/// Returns 1 / (1 + exp(-x)); 0 for -infinity.
__device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + __expf(-x)); }

/// Returns log(1 + exp(x)); 0 for -infinity. A NaN stays NaN.
__device__ __forceinline__ float log1p_exp(float x) {
  return (x > 0.f ? x : 0.f) + log1pf(__expf(x > 0.f ? -x : x));
}

/// Returns the index of a sample's first target, relative to the tile's first class.
__device__ __forceinline__ std::int32_t place_of_target(const ProductTile& t, std::int64_t sample) {
  return t.targets[sample] - static_cast<std::int32_t>(t.begin);
}

/// Returns whether a row of the tile is one of a sample's targets after the first.
__device__ __forceinline__ bool is_other_target(const ProductTile& t, std::int64_t row,
                                                std::int64_t sample) {
  for (std::int32_t k = 1; k < t.most_targets; ++k) {
    if (t.targets[k * t.samples + sample] == t.begin + row) return true;
  }
  return false;
}

/// A thread computes kSamples samples from `column` on, and kRows rows of the tile at a time: first
/// row .. row + kRows - 1, then the same rows plus `stride`, and so on. Returns the next of these
/// rows for which is_other_target() is true with one of the samples. So the thread reads the
/// targets once for the whole tile, and once more for each such row.
template <int kSamples, int kRows>
__device__ __forceinline__ std::int64_t next_other_target(const ProductTile& t, std::int64_t column,
                                                          std::int64_t row, std::int64_t stride) {
  std::int64_t next = INT32_MAX;
  for (std::int32_t k = 1; k < t.most_targets; ++k) {
    for (int i = 0; i < kSamples; ++i) {
      const std::int64_t target = t.targets[k * t.samples + column + i] - t.begin;
      if (target >= row && target < next && (target - row) % stride < kRows) next = target;
    }
  }
  return next;
}

/// Returns 1 / length of a row of the tile.
__device__ __forceinline__ float inverse_norm_at(const ProductTile& t, std::int64_t row) {
  return t.inverse_norms == nullptr ? 1.f : t.inverse_norms[row];
}

/// Returns what is added to the logits of a row of the tile.
__device__ __forceinline__ float offset_of(const ProductTile& t, std::int64_t row) {
  return t.offsets == nullptr ? t.offset : t.offsets[row];
}

/// Returns the rows of the tile that are in a sample's softmax.
__device__ __forceinline__ ActiveRange rows_of_sample(const ProductTile& t, std::int64_t sample) {
  if (t.ranges == nullptr) return {0, INT32_MAX};
  const ActiveRange range = t.ranges[sample];
  const auto begin = static_cast<std::int32_t>(t.begin);
  return {range.begin - begin, range.end - begin};
}

// A lane computes four samples, so a warp computes 128. The warps of a block and the slots divide
// the classes. A warp processes four classes at a time.
constexpr int kLaneSamples = 4;
constexpr int kRowsAtOnce = 4;
constexpr unsigned kColumns = kWarp * kLaneSamples;
constexpr int kFoldBlocks = 4;  // per multiprocessor, as MarginPlan assumes

/// The largest logit so far of each of a lane's samples, and the sum of exp(logit - largest). `max`
/// starts with a finite number, because -infinity - max must be -infinity, not NaN. A lane adds at
/// most a few hundred terms of a tile in float32; the sums of warps, blocks and tiles are float64.
struct LaneStatistics {
  float max[kLaneSamples] = {-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX};
  float sum[kLaneSamples] = {0, 0, 0, 0};
  float second[kLaneSamples] = {0, 0, 0, 0};  // LogitStatistics::second
};

/// The value that replaces a cosine (CurricularFace replaces hard ones), and its derivative.
struct HardCosine {
  float value, slope;
};
/// Returns the cosine above which classes are hard for a sample.
template <bool kHard>
__device__ __forceinline__ float hard_above_of(const ProductTile& t, std::int64_t sample) {
  return kHard && t.hard_above != nullptr ? t.hard_above[sample] : INFINITY;
}

template <bool kHard>
__device__ __forceinline__ HardCosine hard_cosine(const ProductTile& t, float cosine,
                                                  float hard_above) {
  if (!kHard || !(cosine > hard_above)) return {cosine, 1.f};
  return {cosine * (t.hardness + cosine), t.hardness + 2.f * cosine};
}

/// kHard: the tile has hard_above. kGeneral: the tile may also be smoothed, and its samples may
/// have several targets. kBinary: the tile is binary.
enum class TileKind { kSoftmax, kHard, kGeneral, kBinary };
constexpr bool may_be_hard(TileKind k) { return k == TileKind::kHard || k == TileKind::kGeneral; }

template <bool kRanged, TileKind kKind>
__device__ __forceinline__ void fold_rows(const ProductTile& t, std::int64_t row,
                                          std::int64_t column,
                                          const std::int32_t (&target)[kLaneSamples],
                                          const ActiveRange (&range)[kLaneSamples],
                                          const float (&hard_above)[kLaneSamples],
                                          bool other_targets, LaneStatistics& s) {
  constexpr bool kGeneral = kKind == TileKind::kGeneral, kBinary = kKind == TileKind::kBinary;
  float logits[kRowsAtOnce][kLaneSamples];
#pragma unroll
  for (int r = 0; r < kRowsAtOnce; ++r) {
    const bool there = row + r < t.classes;
    const float inverse = there ? inverse_norm_at(t, row + r) : 0.f;
    const float offset = there ? offset_of(t, row + r) : 0.f;
    float4 products = make_float4(0.f, 0.f, 0.f, 0.f);
    if (there) {
      products = *reinterpret_cast<const float4*>(t.products + (row + r) * t.samples + column);
    }
    const float each[] = {products.x, products.y, products.z, products.w};
#pragma unroll
    for (int k = 0; k < kLaneSamples; ++k) {
      const bool inside = !kRanged || (row + r >= range[k].begin && row + r < range[k].end);
      const bool counts = there && target[k] != row + r && inside &&
                          !(kGeneral && other_targets && is_other_target(t, row + r, column + k));
      const float cosine =
          hard_cosine<may_be_hard(kKind)>(t, filtered_cosine(t, each[k], inverse), hard_above[k])
              .value;
      logits[r][k] = counts ? cosine * t.scale + offset : -INFINITY;
      if (kGeneral && counts) s.second[k] += logits[r][k];
    }
  }
  if constexpr (kBinary) {
#pragma unroll
    for (int k = 0; k < kLaneSamples; ++k) {
      s.max[k] = 0.f;
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        s.sum[k] += log1p_exp(logits[r][k]);
        s.second[k] += sigmoid(logits[r][k]);
      }
    }
  } else {
#pragma unroll
    for (int k = 0; k < kLaneSamples; ++k) {
      float max = s.max[k];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) max = logits[r][k] > max ? logits[r][k] : max;
      s.sum[k] *= __expf(s.max[k] - max);  // usually a factor of 1
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) s.sum[k] += __expf(logits[r][k] - max);
      s.max[k] = max;
    }
  }
}

template <bool kRanged, TileKind kKind>
__global__ void __launch_bounds__(kThreads, kFoldBlocks)
    fold_kernel(ProductTile t, LogitStatistics running, bool first) {
  constexpr bool kGeneral = kKind == TileKind::kGeneral,
                 kSecond = kGeneral || kKind == TileKind::kBinary;
  __shared__ float maxima[kWarps][kColumns];
  __shared__ float sums[kWarps][kColumns];
  __shared__ float second[kSecond ? kWarps : 1][kColumns];
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned place = threadIdx.x % kWarp * kLaneSamples;
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + place;
  LaneStatistics s;
  if (column < t.samples) {
    std::int32_t target[kLaneSamples];
    ActiveRange range[kLaneSamples];
    float hard_above[kLaneSamples];
#pragma unroll
    for (int k = 0; k < kLaneSamples; ++k) {
      target[k] = place_of_target(t, column + k);
      range[k] = rows_of_sample(t, column + k);
      hard_above[k] = hard_above_of<may_be_hard(kKind)>(t, column + k);
    }
    const std::int64_t stride = std::int64_t{gridDim.y} * kWarps * kRowsAtOnce;
    std::int64_t row = (std::int64_t{blockIdx.y} * kWarps + warp) * kRowsAtOnce;
    const auto next_other = [&](std::int64_t from) {
      return next_other_target<kLaneSamples, kRowsAtOnce>(t, column, from, stride);
    };
    std::int64_t other = kGeneral ? next_other(row) : INT32_MAX;
    for (; row < t.classes; row += stride) {
      const bool here = other < row + kRowsAtOnce;
      fold_rows<kRanged, kKind>(t, row, column, target, range, hard_above, here, s);
      if (kGeneral && here) other = next_other(row + stride);
    }
  }
#pragma unroll
  for (int k = 0; k < kLaneSamples; ++k) {
    maxima[warp][place + k] = s.max[k];
    sums[warp][place + k] = s.sum[k];
    if (kSecond) second[warp][place + k] = s.second[k];
  }
  __syncthreads();
  const std::int64_t sample = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  if (threadIdx.x >= kColumns || sample >= t.samples) return;

  const std::int64_t slot = blockIdx.y * t.samples + sample;
  const float before = first ? -FLT_MAX : running.max[slot];
  float max = before;
  for (unsigned w = 0; w < kWarps; ++w) max = fmaxf(max, maxima[w][threadIdx.x]);
  double sum = first ? 0 : running.sum[slot] * static_cast<double>(expf(before - max));
  for (unsigned w = 0; w < kWarps; ++w) {
    sum += static_cast<double>(sums[w][threadIdx.x] * expf(maxima[w][threadIdx.x] - max));
  }
  running.max[slot] = max;
  running.sum[slot] = sum;
  if (!kSecond || running.second == nullptr) return;
  double all = first ? 0 : running.second[slot];
  for (unsigned w = 0; w < kWarps; ++w) all += static_cast<double>(second[w][threadIdx.x]);
  running.second[slot] = all;
}

/// A lane has a pack of samples, keeps their values in registers, and loops over the classes.
template <typename Factor, bool kRanged, TileKind kKind>
__global__ void __launch_bounds__(kThreads)
    factors_kernel(ProductTile t, std::int64_t padded_classes, const float* max,
                   const float* factor, Factor* out) {
  constexpr bool kGeneral = kKind == TileKind::kGeneral;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + threadIdx.x % kWarp) * kPack;
  if (column >= t.samples) return;
  const Pack<float> largest = load_pack(max + column);
  const Pack<float> weight = load_pack(factor + column);
  Pack<float> smoothing{};
  if (kGeneral && t.smoothing != nullptr) smoothing = load_pack(t.smoothing + column);
  std::int32_t target[kPack];
  ActiveRange range[kPack];
  float hard_above[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    target[k] = place_of_target(t, column + k);
    range[k] = rows_of_sample(t, column + k);
    hard_above[k] = hard_above_of<may_be_hard(kKind)>(t, column + k);
  }
  const std::int64_t stride = std::int64_t{gridDim.y} * kWarps;
  std::int64_t row = std::int64_t{blockIdx.y} * kWarps + threadIdx.x / kWarp;
  const auto next_other = [&](std::int64_t from) {
    return next_other_target<kPack, 1>(t, column, from, stride);
  };
  std::int64_t other = kGeneral ? next_other(row) : INT32_MAX;
  for (; row < padded_classes; row += stride) {
    Pack<Factor> factors{};
    if (row < t.classes) {
      const float inverse = inverse_norm_at(t, row), offset = offset_of(t, row);
      const Pack<float> products = load_pack(t.products + row * t.samples + column);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const HardCosine cosine = hard_cosine<may_be_hard(kKind)>(
            t, filtered_cosine(t, products.x[k], inverse), hard_above[k]);
        const float logit = cosine.value * t.scale;
        float probability = kKind == TileKind::kBinary ? sigmoid(logit + offset)
                                                       : __expf(logit - (largest.x[k] - offset));
        probability *= weight.x[k];
        if (kGeneral) probability -= smoothing.x[k];
        const float gradient = probability * inverse * cosine.slope;
        // The logit of a filtered class is a constant: it is in the sum, but has no gradient.
        const bool constant = products.x[k] * inverse > t.threshold || target[k] == row ||
                              (kGeneral && row == other && is_other_target(t, row, column + k));
        const bool outside = kRanged && (row < range[k].begin || row >= range[k].end);
        factors.x[k] = from_float<Factor>(constant || outside ? 0.f : gradient);
      }
    }
    if (kGeneral && row == other) other = next_other(row + stride);
    store_pack(out + row * t.samples + column, factors);
  }
}

/// The sub-centre of a class that is nearest to a sample. A NaN counts as the nearest.
struct Nearest {
  std::int64_t sub_centre;
  float cosine;
};
__device__ __forceinline__ Nearest nearest_of(const SubCentreProducts& t, std::int64_t c,
                                              std::int64_t sample) {
  const std::int64_t first = c * t.sub_centres;
  Nearest nearest{0, t.products[first * t.samples + sample] * t.inverse_norms[first]};
  for (std::int64_t k = 1; k < t.sub_centres; ++k) {
    const std::int64_t row = first + k;
    const float cosine = t.products[row * t.samples + sample] * t.inverse_norms[row];
    if (cosine > nearest.cosine || cosine != cosine) nearest = {k, cosine};
  }
  return nearest;
}

// One thread per class and sample.
__global__ void largest_cosines_kernel(SubCentreProducts t, float* cosines) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < t.classes * t.samples) {
    cosines[i] = nearest_of(t, i / t.samples, i % t.samples).cosine;
  }
}

// One thread per class and sample, also for the classes of the padding. A thread reads all its
// products before it overwrites them.
template <typename Factor>
__global__ void spread_kernel(SubCentreProducts t, const float* factors, std::int64_t padded_rows,
                              Factor* out) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t c = i / t.samples, sample = i % t.samples;
  const bool there = c < t.classes;
  const std::int64_t nearest = there ? nearest_of(t, c, sample).sub_centre : -1;
  for (std::int64_t k = 0; k < t.sub_centres; ++k) {
    const std::int64_t row = c * t.sub_centres + k;
    if (row >= padded_rows) return;
    const float factor = k == nearest ? factors[i] * t.inverse_norms[row] : 0.f;
    out[row * t.samples + sample] = from_float<Factor>(factor);
  }
}

/// Calls f.template operator()<kRanged, kKind>() as the tile needs.
template <typename F>
void for_tile(const ProductTile& t, const F& f) {
  if (t.smoothed || t.most_targets > 1) return f.template operator()<true, TileKind::kGeneral>();
  const auto go = [&]<TileKind kKind>() {
    t.ranges != nullptr ? f.template operator()<true, kKind>()
                        : f.template operator()<false, kKind>();
  };
  if (t.binary) return go.template operator()<TileKind::kBinary>();
  t.hard_above != nullptr ? go.template operator()<TileKind::kHard>()
                          : go.template operator()<TileKind::kSoftmax>();
}

unsigned blocks_for(std::int64_t n, std::int64_t each) {
  return static_cast<unsigned>((n + each - 1) / each);
}

LaunchShape one_thread_each(std::int64_t n) {
  return {.blocks = dim3(blocks_for(n, kThreads)), .threads = dim3(kThreads)};
}

}  // namespace

void largest_cosines(const CudaDevice& device, const SubCentreProducts& tile, float* cosines) {
  launch("largest cosines", one_thread_each(tile.classes * tile.samples), device.compute.get(),
         largest_cosines_kernel, tile, cosines);
}

void spread_factors(const CudaDevice& device, const SubCentreProducts& tile, const float* factors,
                    const Tensor& out) {
  const std::int64_t rows = out.shape[0];
  const std::int64_t classes = (rows + tile.sub_centres - 1) / tile.sub_centres;
  const auto go = [&](auto* to) {
    launch("spreading factors", one_thread_each(classes * tile.samples), device.compute.get(),
           spread_kernel<std::remove_pointer_t<decltype(to)>>, tile, factors, rows, to);
  };
  out.dtype == DType::kFloat32 ? go(out.f32()) : go(static_cast<__nv_bfloat16*>(out.data));
}

void fold_tile(const CudaDevice& device, const ProductTile& tile, const LogitStatistics& running,
               bool first) {
  const dim3 blocks(blocks_for(tile.samples, kColumns), static_cast<unsigned>(running.slots));
  for_tile(tile, [&]<bool kRanged, TileKind kKind>() {
    launch("folding logits", {.blocks = blocks, .threads = dim3(kThreads)}, device.compute.get(),
           fold_kernel<kRanged, kKind>, tile, running, first);
  });
}

void make_factors(const CudaDevice& device, const ProductTile& tile, const float* max,
                  const float* factor, const Tensor& out) {
  const std::int64_t classes = out.shape[0];
  const unsigned columns = blocks_for(tile.samples, std::int64_t{kWarp} * kPack);
  constexpr unsigned kBlocksEach = 5;  // as many as run at once on sm_90
  const auto most = static_cast<unsigned>(device.properties.multiProcessorCount) * kBlocksEach;
  const unsigned rows = std::min(blocks_for(classes, kWarps), std::max(most / columns, 1u));
  const LaunchShape shape{.blocks = dim3(columns, rows), .threads = dim3(kThreads)};
  const auto go = [&](auto* to) {
    using Factor = std::remove_pointer_t<decltype(to)>;
    for_tile(tile, [&]<bool kRanged, TileKind kKind>() {
      launch("making factors", shape, device.compute.get(), factors_kernel<Factor, kRanged, kKind>,
             tile, classes, max, factor, to);
    });
  };
  out.dtype == DType::kFloat32 ? go(out.f32()) : go(static_cast<__nv_bfloat16*>(out.data));
}

}  // namespace pfc
