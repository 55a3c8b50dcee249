// Norms and checks. Sums are float64, in a fixed number of lanes, so that the order of additions
// does not depend on how the compiler vectorises.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {
namespace {

constexpr int kLanes = 32;  // independent sums, enough to hide the latency of an addition

// Returns the sum of a[i] * b[i] in float64.
double dot(const float* __restrict a, const float* __restrict b, std::int64_t n) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

constexpr double kLargestFloat = 3.40282346638528859812e+38;

}  // namespace

double sum_of_squares(const float* x, std::int64_t n) { return dot(x, x, n); }

void normalise_rows(const float* x, float* y, float* inverse_norm, std::int64_t rows,
                    std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    // float64 can represent the square of every float32: squares range from 1e-90 to 1e+76.
    const double squares = dot(x + row * n, x + row * n, n);
    const double inverse = squares == 0 ? 0.0 : 1.0 / __builtin_sqrt(squares);
    inverse_norm[row] = static_cast<float>(inverse < kLargestFloat ? inverse : kLargestFloat);
    for (std::int64_t i = row * n; i < (row + 1) * n; ++i) {
      y[i] = static_cast<float>(static_cast<double>(x[i]) * inverse);
    }
  }
}

void normalise_rows_backward(const float* dy, const float* y, const float* inverse_norm, float* dx,
                             std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = row * n;
    const float along = static_cast<float>(dot(dy + begin, y + begin, n));
    const float inverse = inverse_norm[row];
    for_each_vector(n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      store<V>(dx + begin + i,
               (load<V>(dy + begin + i) - load<V>(y + begin + i) * along) * inverse);
    });
  }
}

}  // namespace pfc::PFC_ISA
