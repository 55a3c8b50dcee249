// Arithmetic of the ONNX interpreter on tokens: row-major tensors with any number of axes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/files/onnx_file.h"

namespace pfc {

std::int64_t product_of(const Dims& dims);
/// Returns whether `dims`, without leading axes of size 1, are the last axes of `of`.
bool is_suffix(const Dims& dims, const Dims& of);
bool is_permutation_of(const Dims& order, std::size_t axes);
/// Changes a shape as ONNX's Reshape does: 0 becomes the old size, and -1 becomes what is left.
/// Returns whether the shapes have equally many elements, and no axis is empty.
bool resolve_shape(Dims& dims, const Dims& old);

/// Returns the tensor with axis order[i] of x as axis i. REQUIRES: is_permutation_of().
std::vector<float> permuted(std::span<const float> x, const Dims& dims, const Dims& order);
/// Returns the mean of each row of n numbers.
std::vector<float> row_means(std::span<const float> x, std::int64_t n);
/// Replaces each row of n numbers by its softmax.
void softmax_rows(std::span<float> x, std::int64_t n);

}  // namespace pfc
