// Attention, one head of one sample at a time: the products and the softmax of a head stay in a
// core's cache. Arithmetic is float32, as in arcface_torch.

#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {
namespace {

/// A matrix whose element (i, j) is at i * row + j * step.
struct StridedMatrix {
  const float* x;
  std::int64_t row, step;

  [[nodiscard]] StridedMatrix transposed() const { return {x, step, row}; }
};

/// Memory of a thread for one head. Rows of the weights are `stride` numbers apart.
struct HeadMemory {
  float *weights, *gradients;  ///< [tokens, stride]
  float* columns;              ///< [head_size, stride]: a transposed operand
  float *qkv, *dqkv, *y;       ///< float32 copies of bfloat16 numbers, [3, tokens, head_size]
};

constexpr std::int64_t kMatrices = 3;  // queries, keys and values

class CpuAttention : public Attention {
 public:
  CpuAttention(CpuDevice& device, const AttentionShape& shape, DType activations)
      : Attention(shape, activations),
        device_(device),
        tokens_(shape.tokens),
        size_(shape.head_size),
        width_(shape.heads * shape.head_size),
        stride_((shape.tokens + 15) / 16 * 16),
        scale_(1.f / std::sqrt(static_cast<float>(shape.head_size))) {
    const auto parts = static_cast<std::size_t>(device.threads.count());
    device.scratch.reserve(parts * static_cast<std::size_t>(floats_each()) * sizeof(float));
  }

 private:
  [[nodiscard]] std::int64_t floats_each() const {
    const std::int64_t copy = tokens_ * size_;
    return 2 * tokens_ * stride_ + size_ * stride_ + (2 * kMatrices + 1) * copy;
  }

  [[nodiscard]] HeadMemory memory_of(int part) const {
    auto* const begin = reinterpret_cast<float*>(device_.scratch.data()) + part * floats_each();
    HeadMemory m{};
    m.weights = begin;
    m.gradients = m.weights + tokens_ * stride_;
    m.columns = m.gradients + tokens_ * stride_;
    m.qkv = m.columns + size_ * stride_;
    m.dqkv = m.qkv + kMatrices * tokens_ * size_;
    m.y = m.dqkv + kMatrices * tokens_ * size_;
    return m;
  }

  void run_forward(const Tensor& qkv, const Tensor& y) override {
    with_numbers_of(qkv, [&]<typename T>() {
      each_head([&](std::int64_t sample, std::int64_t head, const HeadMemory& m) {
        const float* in[kMatrices];
        const std::int64_t row = read<T>(head_of<T>(qkv, kMatrices, sample, head), m.qkv, in);
        weigh(in, row, m);
        T* const out = head_of<T>(y, 1, sample, head);
        const std::int64_t out_row = sizeof(T) == sizeof(float) ? width_ : size_;
        float* const to = own<T>(out, m.y);
        multiply({m.weights, stride_, 1}, tokens_, in[2], row, size_, to, out_row);
        write<T>(to, out, width_);
      });
    });
  }

  void run_backward(const Tensor& qkv, const Tensor& dy, const Tensor& dqkv) override {
    with_numbers_of(qkv, [&]<typename T>() {
      each_head([&](std::int64_t sample, std::int64_t head, const HeadMemory& m) {
        const float* in[kMatrices];
        const std::int64_t row = read<T>(head_of<T>(qkv, kMatrices, sample, head), m.qkv, in);
        const T* const from = head_of<T>(dy, 1, sample, head);
        const std::int64_t dy_row = sizeof(T) == sizeof(float) ? width_ : size_;
        const float* const dout = widen<T>(from, width_, m.y);
        T* const to = head_of<T>(dqkv, kMatrices, sample, head);
        float* out[kMatrices];
        for (std::int64_t i = 0; i < kMatrices; ++i) {
          out[i] = own<T>(to + i * width_, m.dqkv + i * tokens_ * size_);
        }
        weigh(in, row, m);
        const StridedMatrix weights{m.weights, stride_, 1}, gradients{m.gradients, stride_, 1};
        multiply(weights.transposed(), tokens_, dout, dy_row, size_, out[2], row);
        transpose(in[2], row, m.columns);
        multiply({dout, dy_row, 1}, size_, m.columns, stride_, tokens_, m.gradients, stride_);
        device_.vector.softmax_backward({m.gradients, tokens_, tokens_, stride_}, m.weights,
                                        scale_);
        multiply(gradients, tokens_, in[1], row, size_, out[0], row);
        multiply(gradients.transposed(), tokens_, in[0], row, size_, out[1], row);
        for (std::int64_t i = 0; i < kMatrices; ++i) {
          write<T>(out[i], to + i * width_, kMatrices * width_);
        }
      });
    });
  }

  template <typename F>
  void each_head(const F& f) const {
    const std::int64_t heads = shape_.heads;
    device_.threads.each_part([&](int part) {
      const Range range = part_of(shape_.batch * heads, part, device_.threads.count());
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        f(i / heads, i % heads, memory_of(part));
      }
    });
  }

  /// Returns the first number of a head in [batch, tokens, matrices, heads, head_size].
  template <typename T>
  [[nodiscard]] T* head_of(const Tensor& x, std::int64_t matrices, std::int64_t sample,
                           std::int64_t head) const {
    return numbers<T>(x) + sample * tokens_ * matrices * width_ + head * size_;
  }

  /// Returns where to compute: in the tensor itself, or in `copy` if it is bfloat16.
  template <typename T>
  static float* own(T* x, float* copy) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return x;
    } else {
      return copy;
    }
  }

  /// Returns the head as float32: x itself, or `copy` [tokens, head_size].
  template <typename T>
  const float* widen(const T* x, std::int64_t row, float* copy) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return x;
    } else {
      for (std::int64_t t = 0; t < tokens_; ++t) {
        device_.vector.to_float(x + t * row, copy + t * size_, size_);
      }
      return copy;
    }
  }

  /// Sets queries, keys and values as float32, and returns the distance between their rows.
  template <typename T>
  std::int64_t read(const T* x, float* copy, const float* (&out)[kMatrices]) const {
    for (std::int64_t i = 0; i < kMatrices; ++i) {
      out[i] = widen<T>(x + i * width_, kMatrices * width_, copy + i * tokens_ * size_);
    }
    return sizeof(T) == sizeof(float) ? kMatrices * width_ : size_;
  }

  /// Stores a result [tokens, head_size] in x and rounds it, unless it was already computed in x.
  template <typename T>
  void write(const float* result, T* x, std::int64_t row) const {
    if constexpr (sizeof(T) != sizeof(float)) {
      for (std::int64_t t = 0; t < tokens_; ++t) {
        device_.vector.to_bfloat16(result + t * size_, x + t * row, size_);
      }
    }
  }

  /// Computes the weights: softmax(scale * q k^T).
  void weigh(const float* const (&in)[kMatrices], std::int64_t row, const HeadMemory& m) const {
    transpose(in[1], row, m.columns);
    multiply({in[0], row, 1}, size_, m.columns, stride_, tokens_, m.weights, stride_);
    device_.vector.softmax({m.weights, tokens_, tokens_, stride_}, scale_);
  }

  /// Computes to [head_size, stride] = the transposed x [tokens, head_size], padded with zeros: the
  /// products read whole vectors, and old numbers there could be subnormal, which slows them down.
  void transpose(const float* x, std::int64_t row, float* to) const {
    constexpr std::int64_t kBlock = 16;  // 16 cache lines of x and of the result
    for (std::int64_t begin = 0; begin < tokens_; begin += kBlock) {
      const std::int64_t end = std::min(begin + kBlock, tokens_);
      for (std::int64_t j = 0; j < size_; ++j) {
        for (std::int64_t t = begin; t < end; ++t) to[j * stride_ + t] = x[t * row + j];
      }
    }
    for (std::int64_t j = 0; j < size_; ++j) {
      std::fill(to + j * stride_ + tokens_, to + (j + 1) * stride_, 0.f);
    }
  }

  /// Computes c [tokens, columns] = a [tokens, depth] * b [depth, columns].
  void multiply(const StridedMatrix& a, std::int64_t depth, const float* b, std::int64_t b_row,
                std::int64_t columns, float* c, std::int64_t c_row) const {
    PrefetchList nothing;
    device_.vector.float_product({.rows = tokens_,
                                  .columns = columns,
                                  .depth = depth,
                                  .a = a.x,
                                  .a_row = a.row,
                                  .a_step = a.step,
                                  .b = b,
                                  .b_panel = device_.vector.product_panel,
                                  .b_step = b_row,
                                  .c = c,
                                  .c_row = c_row,
                                  .add = false},
                                 nothing);
  }

  CpuDevice& device_;
  const std::int64_t tokens_, size_, width_;
  const std::int64_t stride_;  // numbers between rows of the weights: whole vectors
  const float scale_;
};

}  // namespace

std::unique_ptr<Attention> CpuOps::attention(const AttentionShape& shape) {
  return std::make_unique<CpuAttention>(device_, shape, activations_);
}

}  // namespace pfc
