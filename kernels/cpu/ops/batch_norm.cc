#include <cmath>

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {
namespace {

constexpr std::int64_t kRowAlignment = 4;  // the vector kernels process four rows at once

// Allocates arrays of [channels] in scratch: shared coefficients, and each thread's sums.
class ChannelScratch {
 public:
  ChannelScratch(std::byte* base, std::int64_t channels)
      : next_(base), stride_(align_up(static_cast<std::size_t>(channels) * sizeof(double))) {}
  float* floats() { return reinterpret_cast<float*>(take()); }
  double* doubles() { return reinterpret_cast<double*>(take()); }

  static std::size_t bytes(std::int64_t channels, int arrays) {
    return align_up(static_cast<std::size_t>(channels) * sizeof(double)) *
           static_cast<std::size_t>(arrays);
  }

 private:
  std::byte* take() {
    std::byte* const p = next_;
    next_ += stride_;
    return p;
  }
  std::byte* next_;
  std::size_t stride_;
};

constexpr int kSharedArrays = 4;     // coefficients
constexpr int kArraysPerThread = 6;  // sums of a block of rows, and of all rows of the thread

class CpuBatchNorm : public BatchNorm {
 public:
  CpuBatchNorm(CpuDevice& device, const BatchNormShape& shape, DType activations)
      : BatchNorm(shape, activations), device_(device) {
    device.scratch.reserve(ChannelScratch::bytes(
        shape.channels, kSharedArrays + kArraysPerThread * device.threads.count()));
  }

 private:
  void run_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) override {
    with_numbers_of(x, [&]<typename T>() { statistics_of<T>(x, mean, variance); });
  }
  void run_forward(const Forward& f) override {
    with_numbers_of(f.x, [&]<typename T>() { forward_of<T>(f); });
  }
  void run_backward_reduce(const Backward& b) override {
    with_numbers_of(b.x, [&]<typename T>() { backward_reduce_of<T>(b); });
  }
  void run_backward_apply(const Backward& b) override {
    with_numbers_of(b.x, [&]<typename T>() { backward_apply_of<T>(b); });
  }

  template <typename T>
  [[nodiscard]] const ActivationKernels<T>& kernels() const {
    return device_.vector.template of<T>();
  }

  template <typename T>
  void statistics_of(const Tensor& x, const Tensor& mean, const Tensor& variance) {
    const T* const values = numbers<T>(x);
    device_.threads.each_part([&](int part) {
      const Range range = rows_of(part);
      if (range.size() == 0) return;
      kernels<T>().moments(values + range.begin * shape_.channels, range.size(), shape_.channels,
                           moments_of(part));
    });
    merge_moments(mean, variance);
  }

  template <typename T>
  void forward_of(const Forward& f) {
    ChannelScratch shared(device_.scratch.data(), shape_.channels);
    float* const scale = shared.floats();
    const float* const variance = f.variance.f32();
    const float* const gamma = f.gamma.f32();
    for (std::int64_t c = 0; c < shape_.channels; ++c) {
      scale[c] = gamma[c] / std::sqrt(variance[c] + shape_.eps);
    }
    const NormForward<T> whole{.rows = shape_.rows,
                               .channels = shape_.channels,
                               .x = numbers<T>(f.x),
                               .mean = f.mean.f32(),
                               .scale = scale,
                               .beta = f.beta.f32(),
                               .slope = f.slope ? f.slope.f32() : nullptr,
                               .residual = numbers<T>(f.residual),
                               .y = numbers<T>(f.y),
                               .moments = nullptr};
    const bool with_moments = static_cast<bool>(f.y_mean);
    device_.threads.each_part([&](int part) { forward_part(whole, part, with_moments); });
    if (with_moments) merge_moments(f.y_mean, f.y_variance);
  }

  template <typename T>
  void backward_reduce_of(const Backward& b) {
    const NormBackward<T> whole = backward_of<T>(b);
    device_.threads.each_part([&](int part) {
      const Range range = rows_of(part);
      if (range.size() > 0) kernels<T>().norm_backward_reduce(slice(whole, range, part));
    });
    float* const sum_dz = b.sum_dz.f32();
    float* const sum_dz_xhat = b.sum_dz_xhat.f32();
    float* const dslope = b.slope ? b.dslope.f32() : nullptr;
    for (std::int64_t c = 0; c < shape_.channels; ++c) {
      double dz = 0, dz_xhat = 0, slope = 0;
      for (int part = 0; part < device_.threads.count(); ++part) {
        const Range range = rows_of(part);
        if (range.size() == 0) continue;
        const NormBackward<T> sums = slice(whole, range, part);
        dz += sums.sum_dz[c];
        dz_xhat += sums.sum_dz_xhat[c];
        slope += sums.sum_dslope[c];
      }
      sum_dz[c] = static_cast<float>(dz);
      sum_dz_xhat[c] = static_cast<float>(dz_xhat);
      if (dslope != nullptr) dslope[c] = static_cast<float>(slope);
    }
  }

  template <typename T>
  void backward_apply_of(const Backward& b) {
    NormBackward<T> whole = backward_of<T>(b);
    ChannelScratch shared(device_.scratch.data(), shape_.channels);
    shared.floats();  // scale, filled by backward_of()
    shared.floats();  // inverse, filled by backward_of() too
    float* const mean_dz = shared.floats();
    float* const mean_dz_xhat = shared.floats();
    const float* const sum_dz = b.sum_dz.f32();
    const float* const sum_dz_xhat = b.sum_dz_xhat.f32();
    const auto total = static_cast<float>(b.total_rows);
    for (std::int64_t c = 0; c < shape_.channels; ++c) {
      mean_dz[c] = sum_dz[c] / total;
      mean_dz_xhat[c] = sum_dz_xhat[c] / total;
    }
    whole.mean_dz = mean_dz;
    whole.mean_dz_xhat = mean_dz_xhat;
    whole.add = numbers<T>(b.add);
    whole.dx = numbers<T>(b.dx);
    device_.threads.each_part([&](int part) {
      const Range range = rows_of(part);
      if (range.size() > 0) kernels<T>().norm_backward_apply(slice(whole, range, part));
    });
  }

  [[nodiscard]] Range rows_of(int part) const {
    return part_of(shape_.rows, part, device_.threads.count(), kRowAlignment);
  }
  [[nodiscard]] ChannelScratch scratch_of(int part) const {
    return {device_.scratch.data() +
                ChannelScratch::bytes(shape_.channels, kSharedArrays + kArraysPerThread * part),
            shape_.channels};
  }
  [[nodiscard]] Moments moments_of(int part) const {
    ChannelScratch own = scratch_of(part);
    return {.shift = own.floats(),
            .block1 = own.floats(),
            .block2 = own.floats(),
            .sum1 = own.doubles(),
            .sum2 = own.doubles()};
  }

  template <typename T>
  void forward_part(const NormForward<T>& whole, int part, bool with_moments) {
    const Range range = rows_of(part);
    if (range.size() == 0) return;
    NormForward<T> f = whole;
    const std::int64_t offset = range.begin * shape_.channels;
    f.rows = range.size();
    f.x += offset;
    f.y += offset;
    if (f.residual != nullptr) f.residual += offset;
    const Moments moments = moments_of(part);
    if (with_moments) f.moments = &moments;
    kernels<T>().norm_forward(f);
  }

  // Merges the parts in order, in float64: Chan, Golub and LeVeque, "Updating formulae and a
  // pairwise algorithm for computing sample variances", 1979, equation 2.1.
  void merge_moments(const Tensor& mean, const Tensor& variance) {
    float* const means = mean.f32();
    float* const variances = variance.f32();
    for (std::int64_t c = 0; c < shape_.channels; ++c) {
      double n = 0, m = 0, m2 = 0;
      for (int part = 0; part < device_.threads.count(); ++part) {
        const auto part_n = static_cast<double>(rows_of(part).size());
        if (part_n == 0) continue;
        const Moments sums = moments_of(part);
        const double part_mean = sums.shift[c] + sums.sum1[c] / part_n;
        const double part_m2 = sums.sum2[c] - sums.sum1[c] * sums.sum1[c] / part_n;
        const double delta = part_mean - m;
        const double total = n + part_n;
        m += delta * part_n / total;
        m2 += part_m2 + delta * delta * n * part_n / total;
        n = total;
      }
      means[c] = static_cast<float>(m);
      variances[c] = static_cast<float>(std::max(0.0, m2 / n));
    }
  }

  // Returns the input of both backward passes. Stores the coefficients in the shared scratch.
  template <typename T>
  NormBackward<T> backward_of(const Backward& b) {
    ChannelScratch shared(device_.scratch.data(), shape_.channels);
    float* const scale = shared.floats();
    float* const inverse = shared.floats();
    const float* const variance = b.variance.f32();
    const float* const gamma = b.gamma.f32();
    for (std::int64_t c = 0; c < shape_.channels; ++c) {
      inverse[c] = 1.f / std::sqrt(variance[c] + shape_.eps);
      scale[c] = gamma[c] / std::sqrt(variance[c] + shape_.eps);
    }
    NormBackward<T> whole{};
    whole.rows = shape_.rows;
    whole.channels = shape_.channels;
    whole.dy = numbers<T>(b.dy);
    whole.x = numbers<T>(b.x);
    whole.mean = b.mean.f32();
    whole.inverse = inverse;
    whole.scale = scale;
    whole.beta = b.beta.f32();
    whole.slope = b.slope ? b.slope.f32() : nullptr;
    return whole;
  }

  // Returns the rows of one thread, with its own sums.
  template <typename T>
  [[nodiscard]] NormBackward<T> slice(NormBackward<T> b, const Range& range, int part) const {
    const std::int64_t offset = range.begin * shape_.channels;
    b.rows = range.size();
    b.dy += offset;
    b.x += offset;
    if (b.add != nullptr) b.add += offset;
    if (b.dx != nullptr) b.dx += offset;
    ChannelScratch own = scratch_of(part);
    b.block_dz = own.floats();
    b.block_dz_xhat = own.floats();
    b.block_dslope = own.floats();
    b.sum_dz = own.doubles();
    b.sum_dz_xhat = own.doubles();
    b.sum_dslope = own.doubles();
    return b;
  }

  CpuDevice& device_;
};

}  // namespace

std::unique_ptr<BatchNorm> CpuOps::batch_norm(const BatchNormShape& shape) {
  return std::make_unique<CpuBatchNorm>(device_, shape, activations_);
}

}  // namespace pfc
