#include <limits>

#include "kernels/cuda/margin/margin_samples.h"
#include "kernels/cuda/margin/warp_centre.h"

namespace pfc {
namespace {

struct TargetRule {
  Margin margin;  // for samples without a margin of their own
  MarginGradient gradient;
  TargetForm form;
  double scale;  // of the logits
  double label_smoothing;
};

TargetRule target_rule(const MarginSoftmaxOptions& o) {
  return {.margin = o.margin,
          .gradient = o.margin_gradient,
          .form = o.target_form,
          .scale = o.scale,
          .label_smoothing = o.label_smoothing};
}

__device__ Margin margin_at(const MarginSamples& s, const TargetRule& rule, std::int64_t i) {
  return s.margins == nullptr ? rule.margin : s.margins[i].margin;
}

/// Returns the wanted probability of each of a sample's targets, before label smoothing.
__device__ double share_of_target(const MarginSamples& s, std::int64_t i) {
  return s.target_shares == nullptr ? 1.0 : s.target_shares[i];
}

/// Returns the logit of the target of sample i that is in this slot.
__device__ double target_logit(const MarginSamples& s, const TargetRule& rule, std::int64_t i,
                               std::int64_t slot) {
  return rule.scale *
         margin_target(margin_at(s, rule, i), rule.gradient, s.angles[slot], rule.form);
}

/// Returns whether the softmax is plain: embeddings are followed by a 1, and not normalised.
__device__ bool has_bias(const MarginSamples& s) { return s.embedding_size != s.dimension; }

/// Returns element k < dimension of embedding i.
__device__ float element_of(const MarginSamples& s, std::int64_t i, std::int64_t k) {
  return k < s.embedding_size ? s.embeddings[i * s.embedding_size + k] : 1.f;
}

// Squares are float64: for lengths of 1e+20 or 1e-20 they exceed float32's range.
template <typename T>
__global__ void normalise_kernel(MarginSamples s, T* unit) {
  const std::int64_t i = index_of_warp();
  if (i >= s.padded_samples) return;
  const unsigned lane = threadIdx.x % kWarp;
  double squares = 0;
  for (std::int64_t k = lane; i < s.samples && k < s.dimension; k += kWarp) {
    const auto x = static_cast<double>(element_of(s, i, k));
    squares += x * x;
  }
  squares = has_bias(s) ? 1.0 : warp_sum(squares);
  const double inverse = squares == 0 ? 0.0 : 1 / sqrt(squares);
  for (std::int64_t k = lane; k < s.padded_dimension; k += kWarp) {
    const bool there = i < s.samples && k < s.dimension;
    unit[i * s.padded_dimension + k] = from_float<T>(
        there ? static_cast<float>(static_cast<double>(element_of(s, i, k)) * inverse) : 0.f);
  }
  if (lane == 0 && i < s.samples) s.inverse_length[i] = inverse;
}

template <typename Row>
__global__ void angles_kernel(MarginSamples s, CentreTableView table, RowList active) {
  const std::int64_t slot = index_of_warp();
  const std::int64_t i = slot % s.padded_samples;
  if (slot >= s.most_targets * s.padded_samples || s.targets[slot] < 0) return;
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t first = s.targets[slot] * s.sub_centres;
  std::int64_t nearest = first;
  Angle angle;
  for (std::int64_t row = first; row < first + s.sub_centres; ++row) {
    const Row centre(table, active, row);
    InnerProducts products;
    for (std::int64_t k = lane; k < s.dimension; k += kWarp) {
      add_element(products, static_cast<double>(element_of(s, i, k)),
                  static_cast<double>(centre.element(k)));
    }
    products = {
        .aa = warp_sum(products.aa), .bb = warp_sum(products.bb), .ab = warp_sum(products.ab)};
    const Angle next = has_bias(s) ? plain_product(products) : angle_without_sine(products);
    if (row > first && !replaces(next.cos, angle.cos)) continue;
    angle = next;
    nearest = row;
  }
  if (angle.inverse_a != 0 && !has_bias(s)) {
    const Row centre(table, active, nearest);
    double squares = 0;
    for (std::int64_t k = lane; k < s.dimension; k += kWarp) {
      const double part = across_a(angle, static_cast<double>(element_of(s, i, k)),
                                   static_cast<double>(centre.element(k)));
      squares += part * part;
    }
    angle.sin = sqrt(warp_sum(squares));
  }
  if (lane != 0) return;
  s.angles[slot] = angle;
  if (s.target_rows != nullptr) s.target_rows[slot] = static_cast<std::int32_t>(nearest);
}

__global__ void target_cosines_kernel(MarginSamples s, float* cosines) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < s.samples) {
    cosines[i] = s.targets[i] < 0 ? 0.f : static_cast<float>(s.angles[i].cos);
  }
}

// One warp per sample; its lanes divide the slots.
__global__ void statistics_kernel(MarginSamples s, LogitStatistics running, TargetRule target,
                                  RowStatistics* statistics) {
  const std::int64_t i = index_of_warp();
  if (i >= s.samples) return;
  const unsigned lane = threadIdx.x % kWarp;
  float max = -std::numeric_limits<float>::infinity();
  for (int slot = static_cast<int>(lane); slot < running.slots; slot += static_cast<int>(kWarp)) {
    const float other = running.max[slot * s.padded_samples + i];
    max = other > max ? other : max;
  }
  max = warp_max(max);
  double sum = 0;
  for (int slot = static_cast<int>(lane); slot < running.slots; slot += static_cast<int>(kWarp)) {
    const std::int64_t place = slot * s.padded_samples + i;
    sum += running.sum[place] *
           exp(static_cast<double>(running.max[place]) - static_cast<double>(max));
  }
  sum = warp_sum(sum);
  if (lane != 0) return;
  RowStatistics row;
  if (sum != 0) {
    row.max = static_cast<double>(max);
    row.sum = sum;
  }
  double mean = 0;
  for (std::int64_t k = 0; k < s.most_targets; ++k) {
    const std::int64_t slot = k * s.padded_samples + i;
    if (s.targets[slot] < 0) continue;
    const double logit = target_logit(s, target, i, slot);
    add_target(row, logit);
    mean += share_of_target(s, i) * logit;
  }
  if (s.target_mean != nullptr) s.target_mean[i] = mean;
  statistics[i] = row;
}

__global__ void logit_sums_kernel(MarginSamples s, LogitStatistics running,
                                  const RowStatistics* statistics, std::int64_t classes,
                                  float* logits) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= s.samples) return;
  double sum = 0;
  for (int slot = 0; running.second != nullptr && slot < running.slots; ++slot) {
    sum += running.second[slot * s.padded_samples + i];
  }
  if (s.binary) {
    logits[i] = static_cast<float>(sum);
    return;
  }
  const bool several = s.target_mean != nullptr, smoothed = running.second != nullptr;
  if (several) logits[(smoothed ? 2 : 0) * s.samples + i] = static_cast<float>(s.target_mean[i]);
  if (!smoothed) return;
  double target = s.targets[i] < 0 ? 0 : statistics[i].target;
  if (several) target = s.target_mean[i] / share_of_target(s, i);
  logits[i] = static_cast<float>(target + sum);
  logits[s.samples + i] = static_cast<float>(
      s.ranges == nullptr ? classes : std::int64_t{s.ranges[i].end - s.ranges[i].begin});
}

__global__ void merge_kernel(RowStatistics* parts, std::int64_t workers, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  RowStatistics all;
  for (std::int64_t w = 0; w < workers; ++w) merge(all, parts[w * n + i]);
  parts[i] = all;
}

__global__ void combine_kernel(MarginSamples s, AllStatistics workers, double label_smoothing) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= s.padded_samples) return;
  RowStatistics all;
  if (i < s.samples) {
    all = workers.rows[i];
    s.softmax[i] = s.binary ? row_binary(all) : row_softmax(all);
    const bool smoothed = label_smoothing > 0;
    double target = all.target;
    if (s.all_targets != nullptr) {
      s.all_targets[i] = all.target;
      // The mean is rounded to float32. A single target is its own mean.
      if (share_of_target(s, i) < 1) {
        target = static_cast<double>(workers.logits[(smoothed ? 2 : 0) * s.samples + i]);
      }
      spread_over_targets(s.softmax[i], all.target, target);
    }
    if (smoothed) {
      smooth_labels(s.softmax[i], label_smoothing, target, static_cast<double>(workers.logits[i]),
                    static_cast<double>(workers.logits[s.samples + i]));
    }
  }
  s.max[i] = all.sum == 0 ? 0.f : static_cast<float>(all.max);
}

// Runs in one block, so the order of the sum is fixed.
__global__ void loss_kernel(MarginSamples s, const float* logits, double* loss) {
  double sum = 0, threshold = 0;
  for (std::int64_t i = threadIdx.x; i < s.samples; i += kThreads) {
    sum += s.softmax[i].loss;
    if (s.binary) threshold += s.softmax[i].others - static_cast<double>(logits[i]);
  }
  sum = block_sum<kThreads>(sum);
  threshold = block_sum<kThreads>(threshold);
  if (threadIdx.x != 0) return;
  loss[0] = sum;
  loss[1] = threshold;
}

// Gradients of the targets, in float64 from embedding and centre, as mutually orthogonal
// components (kernels/math/margin.h): 1 / sin theta can be huge where the orthogonal component is
// tiny.
template <typename Row>
__global__ void begin_gradients_kernel(MarginSamples s, CentreTableView table, RowList active,
                                       TargetRule target, double scale) {
  const std::int64_t i = index_of_warp();
  if (i >= s.padded_samples) return;
  const unsigned lane = threadIdx.x % kWarp;
  const bool there = i < s.samples;
  if (lane == 0) {
    s.factor[i] = there ? static_cast<float>(scale * s.softmax[i].probability) : 0.f;
    if (s.smoothing != nullptr) {
      s.smoothing[i] = there ? static_cast<float>(scale * s.softmax[i].uniform) : 0.f;
    }
  }
  float* const dx = s.d_unit + i * s.padded_dimension;
  bool begun = false;  // whether dx is written
  for (std::int64_t t = 0; there && t < s.most_targets; ++t) {
    const std::int64_t slot = t * s.padded_samples + i;
    if (s.targets[slot] < 0) continue;
    const Angle angle = s.angles[slot];
    TargetShare share;
    if (s.all_targets != nullptr) {
      share = {.wanted = share_of_target(s, i),
               .of_targets = exp(target_logit(s, target, i, slot) - s.all_targets[i])};
    }
    const double factor =
        -scale * target_pull(s.softmax[i], target.label_smoothing, share) *
        margin_slope(margin_at(s, target, i), target.gradient, angle, target.form);
    const Row centre(table, active,
                     s.target_rows == nullptr ? s.targets[slot] : s.target_rows[slot]);
    float* const dw = s.target_gradients + slot * s.padded_dimension;
    for (std::int64_t k = lane; k < s.padded_dimension; k += kWarp) {
      float to_x = 0, to_w = 0;
      if (k < s.dimension) {
        const auto x = static_cast<double>(element_of(s, i, k));
        const auto w = static_cast<double>(centre.element(k));
        to_x = static_cast<float>(factor * across_a(angle, x, w));
        to_w = static_cast<float>(factor * across_b(angle, x, w) * angle.inverse_b);
      }
      dx[k] = begun ? dx[k] + to_x : to_x;
      dw[k] = to_w;
    }
    begun = true;
  }
  for (std::int64_t k = lane; !begun && k < s.padded_dimension; k += kWarp) dx[k] = 0.f;
}

/// weight: the factor of each sample's loss.
__global__ void finish_gradients_kernel(MarginSamples s, TargetRule target, double weight,
                                        float* d_embeddings) {
  const std::int64_t i = index_of_warp();
  if (i >= s.samples) return;
  const unsigned lane = threadIdx.x % kWarp;
  const double inverse = s.inverse_length[i];
  const float* const x = s.embeddings + i * s.embedding_size;
  const float* const dy = s.d_unit + i * s.padded_dimension;
  double along = 0;
  for (std::int64_t k = lane; !has_bias(s) && k < s.dimension; k += kWarp) {
    along += static_cast<double>(dy[k]) * (static_cast<double>(x[k]) * inverse);
  }
  along = warp_sum(along);
  double d_length = 0;  // along x; not 0 only on the worker that has the sample's class
  if (s.margins != nullptr && s.targets[i] >= 0) {
    d_length = length_gradient(
        s.margins[i], target.form, s.angles[i],
        -weight * target.scale * target_pull(s.softmax[i], target.label_smoothing), weight);
  }
  for (std::int64_t k = lane; k < s.embedding_size; k += kWarp) {
    const double unit = static_cast<double>(x[k]) * inverse;
    const double across = static_cast<double>(dy[k]) - unit * along;
    d_embeddings[i * s.embedding_size + k] = static_cast<float>(across * inverse + unit * d_length);
  }
}

LaunchShape thread_a_sample(std::int64_t samples) {
  return {.blocks = dim3(static_cast<unsigned>((samples + kThreads - 1) / kThreads)),
          .threads = dim3(kThreads)};
}

}  // namespace

void normalise_embeddings(const CudaDevice& device, const MarginSamples& s, const Tensor& unit) {
  const auto go = [&](auto* out) {
    launch("normalising embeddings", one_warp_each(s.padded_samples), device.compute.get(),
           normalise_kernel<Pointee<decltype(out)>>, s, out);
  };
  unit.dtype == DType::kFloat32 ? go(unit.f32()) : go(static_cast<__nv_bfloat16*>(unit.data));
}

void find_angles(const CudaDevice& device, const MarginSamples& s, const CudaCentreRows& rows,
                 const RowList& active) {
  with_warp_centre(rows.precision(), rows.has_second(), [&](auto* row) {
    launch("targets' angles", one_warp_each(s.most_targets * s.padded_samples),
           device.compute.get(), angles_kernel<Pointee<decltype(row)>>, s, rows.view(), active);
  });
}

void write_target_cosines(const CudaDevice& device, const MarginSamples& s, float* cosines) {
  launch("targets' cosines", thread_a_sample(s.samples), device.compute.get(),
         target_cosines_kernel, s, cosines);
}

void finish_statistics(const CudaDevice& device, const MarginSamples& s,
                       const LogitStatistics& running, const MarginSoftmaxOptions& options,
                       RowStatistics* statistics) {
  launch("row statistics", one_warp_each(s.samples), device.compute.get(), statistics_kernel, s,
         running, target_rule(options), statistics);
}

void sum_logits(const CudaDevice& device, const MarginSamples& s, const LogitStatistics& running,
                const RowStatistics* statistics, std::int64_t classes, float* logits) {
  launch("sums of logits", thread_a_sample(s.samples), device.compute.get(), logit_sums_kernel, s,
         running, statistics, classes, logits);
}

void merge_statistics(const CudaDevice& device, RowStatistics* parts, std::int64_t workers,
                      std::int64_t n) {
  launch("merging row statistics", thread_a_sample(n), device.compute.get(), merge_kernel, parts,
         workers, n);
}

void combine_statistics(const CudaDevice& device, const MarginSamples& s, const AllStatistics& all,
                        double label_smoothing, double* loss) {
  launch("combining row statistics", thread_a_sample(s.padded_samples), device.compute.get(),
         combine_kernel, s, all, label_smoothing);
  launch("the loss", {.blocks = dim3(1), .threads = dim3(kThreads)}, device.compute.get(),
         loss_kernel, s, all.logits, loss);
}

void begin_gradients(const CudaDevice& device, const MarginSamples& s, const CudaCentreRows& rows,
                     const RowList& active, const MarginSoftmaxOptions& options,
                     double gradient_scale) {
  const double scale = gradient_scale * options.scale / static_cast<double>(s.samples);
  with_warp_centre(rows.precision(), rows.has_second(), [&](auto* row) {
    launch("targets' gradients", one_warp_each(s.padded_samples), device.compute.get(),
           begin_gradients_kernel<Pointee<decltype(row)>>, s, rows.view(), active,
           target_rule(options), scale);
  });
}

void finish_gradients(const CudaDevice& device, const MarginSamples& s,
                      const MarginSoftmaxOptions& options, double gradient_scale,
                      float* d_embeddings) {
  const double weight = gradient_scale / static_cast<double>(s.samples);
  launch("embeddings' gradients", one_warp_each(s.samples), device.compute.get(),
         finish_gradients_kernel, s, target_rule(options), weight, d_embeddings);
}

}  // namespace pfc
