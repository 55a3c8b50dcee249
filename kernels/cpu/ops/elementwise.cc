#include <algorithm>

#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/math/running_statistics.h"

namespace pfc {

void CpuOps::run_normalise_images(const Tensor& images, const Tensor& y) {
  const std::int64_t n = images.elements();
  const auto* const from = static_cast<const std::uint8_t*>(images.data);
  with_numbers_of(y, [&]<typename T>() {
    T* const to = numbers<T>(y);
    device_.threads.each_range(n, kFloatsOfLine, n, [&](const Range& r) {
      device_.vector.template of<T>().normalise_images(from + r.begin, to + r.begin, r.size());
    });
  });
}

void CpuOps::run_convert(const Tensor& from, const Tensor& to) {
  if (from.dtype == to.dtype) return run_copy(from, to);
  const std::int64_t n = from.elements();
  device_.threads.each_range(n, kFloatsOfLine, n, [&](const Range& r) {
    if (to.dtype == DType::kFloat32) {
      device_.vector.to_float(numbers<BFloat16>(from) + r.begin, to.f32() + r.begin, r.size());
    } else {
      device_.vector.to_bfloat16(from.f32() + r.begin, numbers<BFloat16>(to) + r.begin, r.size());
    }
  });
}

void CpuOps::run_add(const Tensor& a, const Tensor& b, const Tensor& y) {
  const std::int64_t n = a.elements();
  with_numbers_of(y, [&]<typename T>() {
    const T* const left = numbers<T>(a);
    const T* const right = numbers<T>(b);
    T* const sum = numbers<T>(y);
    device_.threads.each_range(n, kFloatsOfLine, n, [&](const Range& r) {
      device_.vector.template of<T>().add(left + r.begin, right + r.begin, sum + r.begin, r.size());
    });
  });
}

void CpuOps::run_scale(const Tensor& x, float factor, const Tensor& y) {
  const std::int64_t n = x.elements();
  const float* const from = x.f32();
  float* const to = y.f32();
  device_.threads.each_range(n, kFloatsOfLine, n, [&](const Range& r) {
    for (std::int64_t i = r.begin; i < r.end; ++i) to[i] = factor * from[i];
  });
}

void CpuOps::run_average(const Tensor& value, float part, const Tensor& average) {
  const std::int64_t n = value.elements();
  const float* const from = value.f32();
  float* const to = average.f32();
  device_.threads.each_range(n, kFloatsOfLine, n, [&](const Range& r) {
    for (std::int64_t i = r.begin; i < r.end; ++i) to[i] += part * (from[i] - to[i]);
  });
}

void CpuOps::run_add_bias(const Tensor& y, const Tensor& bias, bool relu6) {
  const std::int64_t n = bias.elements();
  const float* const b = bias.f32();
  with_numbers_of(y, [&]<typename T>() {
    T* const values = numbers<T>(y);
    device_.threads.each_range(y.elements() / n, 1, y.elements(), [&](const Range& r) {
      device_.vector.template of<T>().add_bias(values + r.begin * n, b, r.size(), n, relu6);
    });
  });
}

void CpuOps::run_relu(const Tensor& y) {
  const std::int64_t n = y.elements();
  with_numbers_of(y, [&]<typename T>() {
    T* const values = numbers<T>(y);
    device_.threads.each_range(n, 2 * kFloatsOfLine, n, [&](const Range& r) {
      device_.vector.template of<T>().relu(values + r.begin, r.size());
    });
  });
}

void CpuOps::run_relu_backward(const Tensor& y, const Tensor& dy, float bound) {
  const std::int64_t n = y.elements();
  with_numbers_of(y, [&]<typename T>() {
    const T* const result = numbers<T>(y);
    T* const gradient = numbers<T>(dy);
    device_.threads.each_range(n, 2 * kFloatsOfLine, n, [&](const Range& r) {
      device_.vector.template of<T>().relu_backward(result + r.begin, gradient + r.begin, r.size(),
                                                    bound);
    });
  });
}

void CpuOps::run_column_sums(const Tensor& x, const Tensor& sums, bool accumulate,
                             const Tensor& places) {
  const std::int64_t n = sums.elements();
  const std::int64_t rows = x.elements() / n;
  const auto* const place = static_cast<const std::int64_t*>(places.data);
  float* const out = sums.f32();
  with_numbers_of(x, [&]<typename T>() {
    const T* const values = numbers<T>(x);
    const auto add_columns = device_.vector.template of<T>().add_columns;
    // Threads divide the columns, so one thread computes each sum, in float64.
    constexpr std::int64_t kStrip = 64;
    device_.threads.each_range(n, kStrip, x.elements(), [&](const Range& columns) {
      for (std::int64_t begin = columns.begin; begin < columns.end; begin += kStrip) {
        const std::int64_t width = std::min(kStrip, columns.end - begin);
        double strip[kStrip] = {};
        if (place == nullptr) add_columns(values + begin, rows, n, width, strip);
        for (std::int64_t row = 0; row < rows && place != nullptr; ++row) {
          if (place[row] < 0) add_columns(values + begin + row * n, 1, n, width, strip);
        }
        for (std::int64_t i = 0; i < width; ++i) {
          out[begin + i] = static_cast<float>((accumulate ? out[begin + i] : 0.0) + strip[i]);
        }
      }
    });
  });
}

void CpuOps::run_update_running_statistics(const RunningStatistics& r) {
  const std::int64_t n = r.mean.elements();
  const float* const mean = r.mean.f32();
  const float* const variance = r.variance.f32();
  float* const running_mean = r.running_mean.f32();
  float* const running_variance = r.running_variance.f32();
  const RunningStatisticsRule rule = running_statistics_rule(r.momentum, r.total_rows);
  for (std::int64_t c = 0; c < n; ++c) {
    update_running(rule, mean[c], variance[c], running_mean[c], running_variance[c]);
  }
}

}  // namespace pfc
