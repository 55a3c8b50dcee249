// Checks the tensors passed to an op, with the same messages on every device:
//   gemm: b is fp32 [2, 3], expected fp32 [3, 4]
#pragma once

#include <initializer_list>
#include <string>

#include "kernels/tensor.h"

namespace pfc {

/// A tensor with its name for error messages.
struct Argument {
  const char* op;
  const char* name;
  const Tensor& tensor;
};

/// Throws std::logic_error: "OP: NAME is FOUND, expected EXPECTED".
[[noreturn]] void refuse(const Argument& argument, const std::string& expected);

/// Throws std::logic_error unless the tensor has one of these types, as many elements as `shape`,
/// and is not null. An empty tensor may be null. Only the number of elements matters, so callers
/// can pass a view in another shape.
void expect(const Argument& argument, std::initializer_list<DType> types, const Shape& shape);
void expect(const Argument& argument, DType type, const Shape& shape);

/// Same as expect() for float32 [rows, any number].
void expect_rows(const Argument& argument, std::int64_t rows);
/// Same as expect() for [any number, columns] of float32 or the other type.
void expect_columns(const Argument& argument, DType other, std::int64_t columns);

}  // namespace pfc
