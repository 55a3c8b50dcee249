// Max pooling, averages over the pixels of a sample, and gates.
#include "kernels/math/pooling.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {
namespace {

template <typename T>
MaxPool<T> max_pool_of(const Conv2dShape& s, const Tensor& x, const Tensor& y,
                       const Tensor& winners) {
  return {.rows = {s.in_h, s.out_h(), s.kernel, s.stride, s.pad},
          .columns = {s.in_w, s.out_w(), s.kernel, s.stride, s.pad},
          .channels = s.in_c,
          .x = numbers<T>(x),
          .y = numbers<T>(y),
          .winners = static_cast<std::uint8_t*>(winners.data)};
}

float number_at(const Tensor& t, std::int64_t i) {
  return t.dtype == DType::kFloat32 ? t.f32()[i] : float_of(numbers<BFloat16>(t)[i]);
}

void set_number(const Tensor& t, std::int64_t i, float value) {
  if (t.dtype == DType::kFloat32) {
    t.f32()[i] = value;
  } else {
    numbers<BFloat16>(t)[i] = nearest_bfloat16(value);
  }
}

/// One sample of a gate as a batch norm with mean 0, variance 1 and weight sigmoid(logits).
class GateNorm {
 public:
  explicit GateNorm(std::int64_t n)
      : n_(n),
        zeros_(static_cast<std::size_t>(n)),
        ones_(static_cast<std::size_t>(n), 1.f),
        gate_(static_cast<std::size_t>(n)),
        blocks_(static_cast<std::size_t>(3 * n)),
        sums_(static_cast<std::size_t>(3 * n)) {}

  template <typename T>
  void set_logits(const T* logits) {
    for (std::int64_t i = 0; i < n_; ++i) {
      gate_[static_cast<std::size_t>(i)] = sigmoid(as_float(logits[i]));
    }
  }

  /// x, residual, y: [pixels, n].
  template <typename T>
  [[nodiscard]] NormForward<T> forward(std::int64_t pixels, const T* x, const T* residual,
                                       T* y) const {
    NormForward<T> f{};
    f.rows = pixels;
    f.channels = n_;
    f.x = x;
    f.mean = f.beta = zeros_.data();
    f.scale = gate_.data();
    f.residual = residual;
    f.y = y;
    return f;
  }

  /// Returns the input of the batch norm's backward passes. The reduce pass fills the sums that
  /// store_gradient() uses.
  template <typename T>
  [[nodiscard]] NormBackward<T> backward(std::int64_t pixels, const T* dy, const T* x) {
    NormBackward<T> b{};
    b.rows = pixels;
    b.channels = n_;
    b.dy = dy;
    b.x = x;
    b.mean = b.beta = zeros_.data();
    b.inverse = b.scale = ones_.data();
    b.block_dz = blocks_.data();
    b.block_dz_xhat = b.block_dz + n_;
    b.block_dslope = b.block_dz_xhat + n_;
    b.sum_dz = sums_.data();
    b.sum_dz_xhat = b.sum_dz + n_;
    b.sum_dslope = b.sum_dz_xhat + n_;
    return b;
  }

  template <typename T>
  void store_gradient(T* dlogits) const {
    for (std::int64_t i = 0; i < n_; ++i) {
      const float gate = gate_[static_cast<std::size_t>(i)];
      const auto sum = static_cast<float>(sums_[static_cast<std::size_t>(n_ + i)]);
      store(dlogits[i], sum * gate * (1 - gate));
    }
  }

 private:
  static float as_float(float x) { return x; }
  static float as_float(BFloat16 x) { return float_of(x); }
  static void store(float& to, float x) { to = x; }
  static void store(BFloat16& to, float x) { to = nearest_bfloat16(x); }

  const std::int64_t n_;
  const std::vector<float> zeros_, ones_;
  std::vector<float> gate_, blocks_;
  std::vector<double> sums_;
};

}  // namespace

void CpuOps::run_max_pool(const Conv2dShape& shape, const Tensor& x, const Tensor& y,
                          const Tensor& winners) {
  with_numbers_of(x, [&]<typename T>() {
    const MaxPool<T> pool = max_pool_of<T>(shape, x, y, winners);
    device_.threads.each_range(shape.batch * shape.out_h(), 1, x.elements(), [&](const Range& r) {
      device_.vector.template of<T>().max_pool(pool, r.begin, r.end);
    });
  });
}

void CpuOps::run_max_pool_backward(const Conv2dShape& shape, const Tensor& dy,
                                   const Tensor& winners, const Tensor& dx) {
  with_numbers_of(dy, [&]<typename T>() {
    const MaxPool<T> pool = max_pool_of<T>(shape, dx, dy, winners);
    device_.threads.each_range(shape.batch * shape.in_h, 1, dx.elements(), [&](const Range& r) {
      device_.vector.template of<T>().max_pool_backward(pool, r.begin, r.end);
    });
  });
}

void CpuOps::run_average_pool(const Tensor& x, const Tensor& y) {
  const std::int64_t n = x.shape[3], pixels = x.shape[1] * x.shape[2];
  with_numbers_of(x, [&]<typename T>() {
    const auto add_columns = device_.vector.template of<T>().add_columns;
    device_.threads.each_range(x.shape[0], 1, x.elements(), [&](const Range& samples) {
      constexpr std::int64_t kStrip = 64;
      for (std::int64_t b = samples.begin; b < samples.end; ++b) {
        for (std::int64_t begin = 0; begin < n; begin += kStrip) {
          const std::int64_t width = std::min(kStrip, n - begin);
          double sums[kStrip] = {};
          add_columns(numbers<T>(x) + b * pixels * n + begin, pixels, n, width, sums);
          for (std::int64_t i = 0; i < width; ++i) {
            const auto mean = static_cast<float>(sums[i] / static_cast<double>(pixels));
            set_number(y, b * n + begin + i, mean);
          }
        }
      }
    });
  });
}

void CpuOps::run_average_pool_backward(const Tensor& dy, const Tensor& dx, bool accumulate) {
  const std::int64_t n = dx.shape[3], pixels = dx.shape[1] * dx.shape[2];
  with_numbers_of(dx, [&]<typename T>() {
    T* const to = numbers<T>(dx);
    device_.threads.each_range(dx.shape[0], 1, dx.elements(), [&](const Range& samples) {
      std::vector<float> share(static_cast<std::size_t>(n));
      for (std::int64_t b = samples.begin; b < samples.end; ++b) {
        for (std::int64_t i = 0; i < n; ++i) {
          share[static_cast<std::size_t>(i)] =
              number_at(dy, b * n + i) / static_cast<float>(pixels);
        }
        T* const sample = to + b * pixels * n;
        if (!accumulate) std::fill_n(sample, pixels * n, T{});
        device_.vector.template of<T>().add_bias(sample, share.data(), pixels, n, false);
      }
    });
  });
}

void CpuOps::run_gate(const Tensor& x, const Tensor& logits, const Tensor& residual,
                      const Tensor& y) {
  const std::int64_t n = x.shape[3], pixels = x.shape[1] * x.shape[2];
  with_numbers_of(x, [&]<typename T>() {
    device_.threads.each_range(x.shape[0], 1, x.elements(), [&](const Range& samples) {
      GateNorm norm(n);
      for (std::int64_t b = samples.begin; b < samples.end; ++b) {
        const std::int64_t sample = b * pixels * n;
        norm.set_logits(numbers<T>(logits) + b * n);
        device_.vector.template of<T>().norm_forward(norm.forward<T>(
            pixels, numbers<T>(x) + sample, numbers<T>(residual) + sample, numbers<T>(y) + sample));
      }
    });
  });
}

void CpuOps::run_gate_backward(const Tensor& dy, const Tensor& x, const Tensor& logits,
                               const Tensor& dx, const Tensor& dlogits) {
  const std::int64_t n = x.shape[3], pixels = x.shape[1] * x.shape[2];
  with_numbers_of(x, [&]<typename T>() {
    const ActivationKernels<T>& kernels = device_.vector.template of<T>();
    device_.threads.each_range(x.shape[0], 1, x.elements(), [&](const Range& samples) {
      GateNorm norm(n);
      for (std::int64_t b = samples.begin; b < samples.end; ++b) {
        const std::int64_t sample = b * pixels * n;
        const T* const d = numbers<T>(dy) + sample;
        norm.set_logits(numbers<T>(logits) + b * n);
        kernels.norm_backward_reduce(norm.backward<T>(pixels, d, numbers<T>(x) + sample));
        norm.store_gradient(numbers<T>(dlogits) + b * n);
        if (!dx) continue;
        kernels.norm_forward(norm.forward<T>(pixels, d, nullptr, numbers<T>(dx) + sample));
      }
    });
  });
}

}  // namespace pfc
