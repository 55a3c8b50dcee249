// Checks of the tensors that an op is given, with the same words on every device:
//   gemm: b is fp32 [2, 3], expected fp32 [3, 4]
#pragma once

#include <initializer_list>
#include <string>

#include "kernels/tensor.h"

namespace pfc {

/// A tensor as an error message names it.
struct Argument {
  const char* op;
  const char* name;
  const Tensor& tensor;
};

/// Throws std::logic_error: "OP: NAME is FOUND, expected EXPECTED".
[[noreturn]] void refuse(const Argument& argument, const std::string& expected);

/// Throws std::logic_error unless the tensor is of one of these types, has as many elements as
/// `shape`, and is not null. An empty tensor may be null. Only the number of elements counts, so
/// that callers can pass a view in another shape.
void expect(const Argument& argument, std::initializer_list<DType> types, const Shape& shape);
void expect(const Argument& argument, DType type, const Shape& shape);

/// As expect() for float32 [rows, any number].
void expect_rows(const Argument& argument, std::int64_t rows);
/// As expect() for float32 [any number, columns].
void expect_columns(const Argument& argument, std::int64_t columns);

}  // namespace pfc
