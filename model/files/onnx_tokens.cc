#include "model/files/onnx_tokens.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace pfc {

std::int64_t product_of(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

bool is_suffix(const Dims& dims, const Dims& of) {
  const auto first = std::ranges::find_if(dims, [](std::int64_t d) { return d != 1; });
  const auto count = dims.end() - first;
  return count <= std::ssize(of) && std::equal(first, dims.end(), of.end() - count);
}

bool is_permutation_of(const Dims& order, std::size_t axes) {
  Dims expected(axes);
  std::iota(expected.begin(), expected.end(), 0);
  return axes > 0 && std::ranges::is_permutation(order, expected);
}

bool resolve_shape(Dims& dims, const Dims& old) {
  const std::int64_t elements = product_of(old);
  std::int64_t known = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && i < old.size()) dims[i] = old[i];
    if (dims[i] == -1) continue;
    if (dims[i] < 1 || dims[i] > elements / known) return false;
    known *= dims[i];
  }
  if (std::ranges::count(dims, -1) > 1 || elements % known != 0) return false;
  std::ranges::replace(dims, -1, elements / known);
  return !dims.empty() && product_of(dims) == elements;
}

std::vector<float> permuted(std::span<const float> x, const Dims& dims, const Dims& order) {
  Dims strides(dims.size(), 1);  // strides in x
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  std::vector<float> y;
  y.reserve(x.size());
  Dims at(dims.size());  // index in y
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      from += at[axis] * strides[static_cast<std::size_t>(order[axis])];
    }
    y.push_back(x[static_cast<std::size_t>(from)]);
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < dims[static_cast<std::size_t>(order[axis])]) break;
      at[axis] = 0;
    }
  }
  return y;
}

std::vector<float> row_means(std::span<const float> x, std::int64_t n) {
  const auto row = static_cast<std::size_t>(n);
  std::vector<float> means;
  for (std::size_t begin = 0; begin < x.size(); begin += row) {
    double sum = 0;
    for (const float value : x.subspan(begin, row)) sum += double{value};
    means.push_back(static_cast<float>(sum / static_cast<double>(n)));
  }
  return means;
}

void softmax_rows(std::span<float> x, std::int64_t n) {
  const auto row = static_cast<std::size_t>(n);
  for (std::size_t begin = 0; begin < x.size(); begin += row) {
    const std::span<float> values = x.subspan(begin, row);
    const float max = *std::ranges::max_element(values);
    double sum = 0;
    for (float& value : values) sum += double{value = std::exp(value - max)};
    for (float& value : values) value = static_cast<float>(double{value} / sum);
  }
}

}  // namespace pfc
