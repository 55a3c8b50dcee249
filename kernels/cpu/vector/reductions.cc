// Norms, checks and max pooling. Sums are float64, in a fixed number of lanes, so that the order of
// additions does not depend on how the compiler vectorises.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
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

using Bytes [[gnu::vector_size(PFC_VECTOR_BYTES / 4)]] = std::uint8_t;
using Integers [[gnu::vector_size(PFC_VECTOR_BYTES)]] = std::int32_t;

template <typename V>
[[gnu::always_inline]] inline V load_places(const std::uint8_t* p) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return static_cast<float>(*p);
  } else {
    Bytes bytes;
    __builtin_memcpy(&bytes, p, sizeof(bytes));
    return __builtin_convertvector(__builtin_convertvector(bytes, Integers), V);
  }
}

template <typename V>
[[gnu::always_inline]] inline void store_places(std::uint8_t* p, V places) {
  if constexpr (sizeof(V) == sizeof(float)) {
    *p = static_cast<std::uint8_t>(places);
  } else {
    const Bytes bytes = __builtin_convertvector(__builtin_convertvector(places, Integers), Bytes);
    __builtin_memcpy(p, &bytes, sizeof(bytes));
  }
}

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

template <typename T>
void max_pool(const MaxPool<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = p.channels, row_n = p.columns.in * n;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t image = row / p.rows.out, out_row = row % p.rows.out;
    const PoolRange rows = pixels_of_window(p.rows, out_row);
    for (std::int64_t column = 0; column < p.columns.out; ++column) {
      const PoolRange columns = pixels_of_window(p.columns, column);
      const T* const window = p.x +
                              (image * p.rows.in + out_row * p.rows.stride - p.rows.pad) * row_n +
                              (column * p.columns.stride - p.columns.pad) * n;
      const std::int64_t to = (row * p.columns.out + column) * n;
      for_each_vector(n, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
        const std::int64_t first = rows.begin * p.columns.kernel + columns.begin;
        V largest = load_number<V>(window + rows.begin * row_n + columns.begin * n + c);
        V place = V{} + static_cast<float>(first);
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
          for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            const V value = load_number<V>(window + i * row_n + j * n + c);
            const V here = V{} + static_cast<float>(i * p.columns.kernel + j);
            place = value > largest ? here : value == value ? place : here;
            largest = value > largest ? value : value == value ? largest : value;  // keeps NaN
          }
        }
        store_activation<V>(p.y + to + c, largest);
        if (p.winners != nullptr) store_places<V>(p.winners + to + c, place);
      });
    }
  }
}

template <typename T>
void max_pool_backward(const MaxPool<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = p.channels;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t image = row / p.rows.in, in_row = row % p.rows.in;
    const PoolRange rows = windows_of_pixel(p.rows, in_row);
    for (std::int64_t column = 0; column < p.columns.in; ++column) {
      const PoolRange columns = windows_of_pixel(p.columns, column);
      for_each_vector(n, [&]<typename V>(std::int64_t c) PFC_INLINE_LAMBDA {
        V sum{};
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
          for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            const std::int64_t place =
                (in_row + p.rows.pad - i * p.rows.stride) * p.columns.kernel + column +
                p.columns.pad - j * p.columns.stride;
            const std::int64_t from = ((image * p.rows.out + i) * p.columns.out + j) * n + c;
            const V here = V{} + static_cast<float>(place);
            sum += load_places<V>(p.winners + from) == here ? load_number<V>(p.y + from) : V{};
          }
        }
        store_activation<V>(p.x + (row * p.columns.in + column) * n + c, sum);
      });
    }
  }
}

template void max_pool(const MaxPool<float>&, std::int64_t, std::int64_t);
template void max_pool(const MaxPool<BFloat16>&, std::int64_t, std::int64_t);
template void max_pool_backward(const MaxPool<float>&, std::int64_t, std::int64_t);
template void max_pool_backward(const MaxPool<BFloat16>&, std::int64_t, std::int64_t);

}  // namespace pfc::PFC_ISA
