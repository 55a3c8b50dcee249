// Attention, one head at a time. One call of cuBLASLt computes a head's products for many samples.
// Memory holds the weights of only one head.

#include <algorithm>
#include <cmath>

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/warps.h"

namespace pfc {
namespace {

/// Computes weights = softmax of each row of scores. Rows have n numbers, `stride` apart.
template <typename T>
__global__ void softmax_kernel(std::int64_t rows, std::int64_t n, std::int64_t stride,
                               const float* scores, T* weights) {
  const std::int64_t row = index_of_warp();
  if (row >= rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  const float* const x = scores + row * stride;
  float max = x[0];
  for (std::int64_t i = lane; i < n; i += kWarp) max = x[i] > max ? x[i] : max;
  max = warp_max(max);
  float sum = 0;
  for (std::int64_t i = lane; i < n; i += kWarp) sum += expf(x[i] - max);
  const float inverse = 1.f / warp_sum(sum);
  for (std::int64_t i = lane; i < n; i += kWarp) {
    weights[row * stride + i] = from_float<T>(expf(x[i] - max) * inverse);
  }
}

/// Computes the gradient of the products of queries and keys from that of the weights.
template <typename T>
__global__ void softmax_backward_kernel(std::int64_t rows, std::int64_t n, std::int64_t stride,
                                        float scale, const T* weights, const float* dweights,
                                        T* dscores) {
  const std::int64_t row = index_of_warp();
  if (row >= rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t first = row * stride;
  float along = 0;
  for (std::int64_t i = lane; i < n; i += kWarp) {
    along += to_float(weights[first + i]) * dweights[first + i];
  }
  along = warp_sum(along);
  for (std::int64_t i = lane; i < n; i += kWarp) {
    const float share = to_float(weights[first + i]) * scale;
    dscores[first + i] = from_float<T>((dweights[first + i] - along) * share);
  }
}

/// A head's matrix of sample 0 in a tensor, and the elements to the next row and the next sample.
struct HeadMatrix {
  std::byte* data;
  std::int64_t row, sample;
};

class CudaAttention : public Attention {
 public:
  CudaAttention(CudaDevice& device, CublasLt& cublas, const AttentionShape& shape)
      : Attention(shape, device.activations),
        device_(device),
        cublas_(cublas),
        width_(shape.heads * shape.head_size),
        stride_((shape.tokens + 7) / 8 * 8),
        samples_(std::clamp<std::int64_t>(kMostBytes / bytes_each(), 1, shape.batch)),
        scale_(1.f / std::sqrt(static_cast<float>(shape.head_size))) {
    device.scratch.reserve(CublasLt::kWorkspaceBytes +
                           static_cast<std::size_t>(samples_ * bytes_each()));
  }

 private:
  // Bounds the scratch memory: more samples are computed in several parts.
  static constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;

  /// Intermediate results of a head, [samples, tokens, stride].
  struct Memory {
    float *scores, *dweights;
    void *weights, *dscores;  // activations
  };

  [[nodiscard]] std::int64_t numbers_each() const { return shape_.tokens * stride_; }
  [[nodiscard]] std::int64_t bytes_each() const {
    return numbers_each() * 2 *
           static_cast<std::int64_t>(sizeof(float) + size_of(device_.activations));
  }

  [[nodiscard]] Memory memory() const {
    const std::int64_t numbers = samples_ * numbers_each();
    auto* const begin =
        reinterpret_cast<float*>(device_.scratch.data() + CublasLt::kWorkspaceBytes);
    auto* const halves = reinterpret_cast<std::byte*>(begin + 2 * numbers);
    return {.scores = begin,
            .dweights = begin + numbers,
            .weights = halves,
            .dscores = halves + static_cast<std::size_t>(numbers) * size_of(device_.activations)};
  }

  /// Returns matrix `i` of `matrices` of a head in x [batch, tokens, matrices, heads, head_size],
  /// from sample `first` on.
  [[nodiscard]] HeadMatrix matrix(const Tensor& x, std::int64_t matrices, std::int64_t i,
                                  std::int64_t head, std::int64_t first) const {
    const std::int64_t row = matrices * width_, sample = shape_.tokens * row;
    const std::int64_t element = first * sample + i * width_ + head * shape_.head_size;
    return {.data = static_cast<std::byte*>(x.data) +
                    static_cast<std::size_t>(element) * size_of(x.dtype),
            .row = row,
            .sample = sample};
  }
  [[nodiscard]] HeadMatrix of_scratch(void* data) const {
    return {.data = static_cast<std::byte*>(data), .row = stride_, .sample = numbers_each()};
  }

  /// Computes c [tokens, n] = alpha * op(a) op(b) for each of `samples`.
  void multiply(std::int64_t samples, std::int64_t n, std::int64_t k, const HeadMatrix& a,
                bool transpose_a, const HeadMatrix& b, bool transpose_b, const HeadMatrix& c,
                DType out, float alpha = 1.f) {
    cublas_.multiply({.m = shape_.tokens,
                      .n = n,
                      .k = k,
                      .transpose_a = transpose_a,
                      .transpose_b = transpose_b,
                      .alpha = alpha,
                      .in = device_.activations,
                      .out = out,
                      .a = a.data,
                      .a_stride = a.row,
                      .b = b.data,
                      .b_stride = b.row,
                      .c = c.data,
                      .c_stride = c.row,
                      .batch = samples,
                      .a_batch = a.sample,
                      .b_batch = b.sample,
                      .c_batch = c.sample},
                     device_.scratch.data(), device_.compute.get());
  }

  /// Calls f(head, first sample, samples) for parts of the batch.
  template <typename F>
  void each_part(const F& f) const {
    for (std::int64_t first = 0; first < shape_.batch; first += samples_) {
      const std::int64_t samples = std::min(samples_, shape_.batch - first);
      for (std::int64_t head = 0; head < shape_.heads; ++head) f(head, first, samples);
    }
  }

  void weigh(const Tensor& qkv, std::int64_t head, std::int64_t first, std::int64_t samples,
             const Memory& m) {
    const HeadMatrix q = matrix(qkv, 3, 0, head, first), k = matrix(qkv, 3, 1, head, first);
    multiply(samples, shape_.tokens, shape_.head_size, q, false, k, true, of_scratch(m.scores),
             DType::kFloat32, scale_);
    with_element_type(device_.activations, [&](auto* type) {
      using Pointer = decltype(type);
      const std::int64_t rows = samples * shape_.tokens;
      launch("attention", one_warp_each(rows), device_.compute.get(),
             softmax_kernel<std::remove_pointer_t<Pointer>>, rows, shape_.tokens, stride_,
             static_cast<const float*>(m.scores), static_cast<Pointer>(m.weights));
    });
  }

  void run_forward(const Tensor& qkv, const Tensor& y) override {
    const Memory m = memory();
    each_part([&](std::int64_t head, std::int64_t first, std::int64_t samples) {
      weigh(qkv, head, first, samples, m);
      multiply(samples, shape_.head_size, shape_.tokens, of_scratch(m.weights), false,
               matrix(qkv, 3, 2, head, first), false, matrix(y, 1, 0, head, first),
               device_.activations);
    });
  }

  void run_backward(const Tensor& qkv, const Tensor& dy, const Tensor& dqkv) override {
    const Memory m = memory();
    const DType type = device_.activations;
    const std::int64_t tokens = shape_.tokens, size = shape_.head_size;
    each_part([&](std::int64_t head, std::int64_t first, std::int64_t samples) {
      const auto in = [&](int i) { return matrix(qkv, 3, i, head, first); };
      const auto out = [&](int i) { return matrix(dqkv, 3, i, head, first); };
      const HeadMatrix d = matrix(dy, 1, 0, head, first);
      weigh(qkv, head, first, samples, m);
      multiply(samples, size, tokens, of_scratch(m.weights), true, d, false, out(2), type);
      multiply(samples, tokens, size, d, false, in(2), true, of_scratch(m.dweights),
               DType::kFloat32);
      backward_of_softmax(samples, m);
      multiply(samples, size, tokens, of_scratch(m.dscores), false, in(1), false, out(0), type);
      multiply(samples, size, tokens, of_scratch(m.dscores), true, in(0), false, out(1), type);
    });
  }

  void backward_of_softmax(std::int64_t samples, const Memory& m) {
    with_element_type(device_.activations, [&](auto* type) {
      using Pointer = decltype(type);
      using Element = std::remove_pointer_t<Pointer>;
      const std::int64_t rows = samples * shape_.tokens;
      launch("attention", one_warp_each(rows), device_.compute.get(),
             softmax_backward_kernel<Element>, rows, shape_.tokens, stride_, scale_,
             static_cast<const Element*>(m.weights), static_cast<const float*>(m.dweights),
             static_cast<Pointer>(m.dscores));
    });
  }

  CudaDevice& device_;
  CublasLt& cublas_;
  const std::int64_t width_;
  const std::int64_t stride_;   // elements between rows of the weights: aligned for tensor cores
  const std::int64_t samples_;  // number of samples computed at once
  const float scale_;
};

}  // namespace

std::unique_ptr<Attention> CudaOps::attention(const AttentionShape& shape) {
  return std::make_unique<CudaAttention>(device_, cublas_, shape);
}

}  // namespace pfc
