// Attention. One cuBLASLt call multiplies the matrices of many heads and samples (pointer-array
// batch), because they have no common stride.

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

/// The matrices of an operand of the products: one for each head of each sample.
struct Matrices {
  std::byte* data;
  std::int64_t sample, head;  ///< strides in bytes
};

/// The operands of the products. In the backward pass, kResults stands for the gradients of the
/// results.
enum Operand {
  kQueries,
  kKeys,
  kValues,
  kResults,
  kQueryGradients,
  kKeyGradients,
  kValueGradients,
  // In scratch memory:
  kScores,
  kWeightGradients,
  kWeights,
  kScoreGradients,
  kOperands
};

struct AllMatrices {
  Matrices of[kOperands];
};

/// Computes addresses[operand][sample * heads + head].
__global__ void addresses_kernel(AllMatrices all, std::int64_t heads, std::int64_t count,
                                 std::byte** addresses) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= kOperands * count) return;
  const Matrices& m = all.of[i / count];
  const std::int64_t matrix = i % count;
  addresses[i] = m.data + matrix / heads * m.sample + matrix % heads * m.head;
}

class CudaAttention : public Attention {
 public:
  CudaAttention(CudaDevice& device, CublasLt& cublas, const AttentionShape& shape)
      : Attention(shape, device.activations),
        device_(device),
        cublas_(cublas),
        width_(shape.heads * shape.head_size),
        stride_((shape.tokens + 7) / 8 * 8),
        count_(shape.batch * shape.heads),
        most_(std::clamp<std::int64_t>(kMostBytes / bytes_each(), 1, count_)),
        scale_(1.f / std::sqrt(static_cast<float>(shape.head_size))) {
    device.scratch.reserve(CublasLt::kWorkspaceBytes + address_bytes() +
                           static_cast<std::size_t>(most_ * bytes_each()));
  }

 private:
  // Bounds the scratch memory: if there are more matrices, they are computed in several parts.
  static constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;

  [[nodiscard]] std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(size_of(device_.activations));
  }
  [[nodiscard]] std::int64_t numbers_each() const { return shape_.tokens * stride_; }
  [[nodiscard]] std::int64_t bytes_each() const {
    return numbers_each() * 2 * (static_cast<std::int64_t>(sizeof(float)) + element_bytes());
  }
  [[nodiscard]] std::size_t address_bytes() const {
    constexpr std::size_t kAddressAlignment = 256;
    const auto bytes = static_cast<std::size_t>(kOperands * count_) * sizeof(std::byte*);
    return (bytes + kAddressAlignment - 1) / kAddressAlignment * kAddressAlignment;
  }

  /// Returns an operand in scratch memory: [matrices of a part, tokens, stride].
  [[nodiscard]] std::byte* scratch(Operand operand) const {
    std::byte* const begin = device_.scratch.data() + CublasLt::kWorkspaceBytes + address_bytes();
    const std::int64_t floats = std::min<int>(operand - kScores, 2);
    const std::int64_t others = operand - kScores - floats;
    return begin +
           most_ * numbers_each() *
               (floats * static_cast<std::int64_t>(sizeof(float)) + others * element_bytes());
  }
  template <typename T>
  [[nodiscard]] T* numbers(Operand operand) const {
    return reinterpret_cast<T*>(scratch(operand));
  }
  [[nodiscard]] std::byte** addresses() const {
    return reinterpret_cast<std::byte**>(device_.scratch.data() + CublasLt::kWorkspaceBytes);
  }

  /// Prepares the products. x: queries, keys and values [batch, tokens, 3, heads, head_size]; dx:
  /// their gradients, or null; y: results, or their gradients, [batch, tokens, heads, head_size].
  void place(const Tensor& x, const Tensor& y, const Tensor& dx) {
    AllMatrices all{};
    const std::int64_t head = shape_.head_size * element_bytes(), token = width_ * element_bytes();
    for (int i = 0; i < 3; ++i) {
      const auto of = [&](const Tensor& t) {
        return Matrices{t.data == nullptr ? nullptr : static_cast<std::byte*>(t.data) + i * token,
                        shape_.tokens * 3 * token, head};
      };
      all.of[kQueries + i] = of(x);
      all.of[kQueryGradients + i] = of(dx);
    }
    all.of[kResults] = {static_cast<std::byte*>(y.data), shape_.tokens * token, head};
    for (int i = kScores; i < kOperands; ++i) {
      const auto operand = static_cast<Operand>(i);
      const std::int64_t bytes = numbers_each() * bytes_of(operand);
      all.of[i] = {scratch(operand), shape_.heads * bytes, bytes};
    }
    std::uint64_t bits = 0;
    for (const Matrices& m : all.of) {
      bits |= reinterpret_cast<std::uintptr_t>(m.data) | static_cast<std::uint64_t>(m.sample) |
              static_cast<std::uint64_t>(m.head);
    }
    aligned_ = alignment_of(bits);
    const std::int64_t all_addresses = kOperands * count_;
    const auto blocks = static_cast<unsigned>((all_addresses + kThreads - 1) / kThreads);
    launch("attention", {.blocks = dim3(blocks), .threads = dim3(kThreads)}, device_.compute.get(),
           addresses_kernel, all, shape_.heads, count_, addresses());
  }

  [[nodiscard]] std::int64_t bytes_of(Operand operand) const {
    return operand == kScores || operand == kWeightGradients
               ? static_cast<std::int64_t>(sizeof(float))
               : element_bytes();
  }
  /// Returns the number of elements from the start of one row of the operand's matrices to the
  /// start of the next.
  [[nodiscard]] std::int64_t row_of(Operand operand) const {
    return operand >= kScores ? stride_ : operand == kResults ? width_ : 3 * width_;
  }

  /// Matrices [first, first + count), each with number sample * heads + head.
  struct Part {
    std::int64_t first, count;
  };

  /// Computes c [tokens, n] = alpha * op(a) op(b) for each matrix of a part.
  void multiply(const Part& part, std::int64_t n, std::int64_t k, Operand a, bool transpose_a,
                Operand b, bool transpose_b, Operand c, float alpha = 1.f) {
    const auto addresses_of = [&](Operand operand) {
      return addresses() + operand * count_ + (operand >= kScores ? 0 : part.first);
    };
    cublas_.multiply({.m = shape_.tokens,
                      .n = n,
                      .k = k,
                      .transpose_a = transpose_a,
                      .transpose_b = transpose_b,
                      .alpha = alpha,
                      .in = device_.activations,
                      .out = bytes_of(c) == element_bytes() ? device_.activations : DType::kFloat32,
                      .a = addresses_of(a),
                      .a_stride = row_of(a),
                      .b = addresses_of(b),
                      .b_stride = row_of(b),
                      .c = addresses_of(c),
                      .c_stride = row_of(c),
                      .batch = part.count,
                      .addresses_aligned = aligned_},
                     device_.scratch.data(), device_.compute.get());
  }

  template <typename F>
  void each_part(const F& f) const {
    for (std::int64_t first = 0; first < count_; first += most_) {
      f(Part{first, std::min(most_, count_ - first)});
    }
  }

  void weigh(const Part& part) {
    multiply(part, shape_.tokens, shape_.head_size, kQueries, false, kKeys, true, kScores, scale_);
    with_element_type(device_.activations, [&](auto* type) {
      using Element = std::remove_pointer_t<decltype(type)>;
      const std::int64_t rows = part.count * shape_.tokens;
      launch("attention", one_warp_each(rows), device_.compute.get(), softmax_kernel<Element>, rows,
             shape_.tokens, stride_, numbers<const float>(kScores), numbers<Element>(kWeights));
    });
  }

  void run_forward(const Tensor& qkv, const Tensor& y) override {
    place(qkv, y, {});
    each_part([&](const Part& part) {
      weigh(part);
      multiply(part, shape_.head_size, shape_.tokens, kWeights, false, kValues, false, kResults);
    });
  }

  void run_backward(const Tensor& qkv, const Tensor& dy, const Tensor& dqkv) override {
    place(qkv, dy, dqkv);
    const std::int64_t tokens = shape_.tokens, size = shape_.head_size;
    each_part([&](const Part& part) {
      weigh(part);
      multiply(part, size, tokens, kWeights, true, kResults, false, kValueGradients);
      multiply(part, tokens, size, kResults, false, kValues, true, kWeightGradients);
      backward_of_softmax(part);
      multiply(part, size, tokens, kScoreGradients, false, kKeys, false, kQueryGradients);
      multiply(part, size, tokens, kScoreGradients, true, kQueries, false, kKeyGradients);
    });
  }

  void backward_of_softmax(const Part& part) {
    with_element_type(device_.activations, [&](auto* type) {
      using Element = std::remove_pointer_t<decltype(type)>;
      const std::int64_t rows = part.count * shape_.tokens;
      launch("attention", one_warp_each(rows), device_.compute.get(),
             softmax_backward_kernel<Element>, rows, shape_.tokens, stride_, scale_,
             numbers<const Element>(kWeights), numbers<const float>(kWeightGradients),
             numbers<Element>(kScoreGradients));
    });
  }

  CudaDevice& device_;
  CublasLt& cublas_;
  const std::int64_t width_;
  const std::int64_t stride_;  // elements between rows of the weights: aligned for tensor cores
  const std::int64_t count_;   // number of matrices of an operand: samples * heads
  const std::int64_t most_;    // number of matrices computed at once
  const float scale_;
  std::uint32_t aligned_ = 0;  // alignment that all matrices' addresses have, in bytes
};

}  // namespace

std::unique_ptr<Attention> CudaOps::attention(const AttentionShape& shape) {
  return std::make_unique<CudaAttention>(device_, cublas_, shape);
}

}  // namespace pfc
