#include "kernels/tensor_check.h"

#include <algorithm>
#include <stdexcept>

namespace pfc {
namespace {

bool is_null(const Tensor& t) { return t.data == nullptr && t.elements() != 0; }

std::string text(const Shape& shape) {
  std::string s = "[";
  for (int i = 0; i < shape.rank(); ++i) s += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return s + "]";
}

std::string text(const Tensor& t) {
  return is_null(t) ? "null" : name_of(t.dtype) + (" " + text(t.shape));
}

std::string text(std::initializer_list<DType> types) {
  std::string s;
  for (const DType* type = types.begin(); type != types.end(); ++type) {
    if (std::find(types.begin(), type, *type) != type) continue;  // already named
    s += (s.empty() ? "" : " or ") + std::string(name_of(*type));
  }
  return s;
}

bool is_float32(const Tensor& t) { return t.dtype == DType::kFloat32 && !is_null(t); }

}  // namespace

void refuse(const Argument& a, const std::string& expected) {
  throw std::logic_error(std::string(a.op) + ": " + a.name + " is " + text(a.tensor) +
                         ", expected " + expected);
}

void expect(const Argument& a, std::initializer_list<DType> types, const Shape& shape) {
  const Tensor& t = a.tensor;
  const bool type_fits = std::find(types.begin(), types.end(), t.dtype) != types.end();
  if (type_fits && t.elements() == shape.elements() && !is_null(t)) [[likely]]
    return;
  refuse(a, text(types) + " " + text(shape));
}

void expect(const Argument& a, DType type, const Shape& shape) {
  expect(a, std::initializer_list<DType>{type}, shape);
}

void expect_rows(const Argument& a, std::int64_t rows) {
  const std::int64_t n = a.tensor.elements();
  if (is_float32(a.tensor) && (rows == 0 ? n == 0 : n % rows == 0)) [[likely]]
    return;
  refuse(a, "fp32 [" + std::to_string(rows) + ", any number]");
}

void expect_columns(const Argument& a, DType other, std::int64_t columns) {
  const Tensor& t = a.tensor;
  const bool type_fits = t.dtype == DType::kFloat32 || t.dtype == other;
  if (type_fits && !is_null(t) && columns > 0 && t.elements() % columns == 0) [[likely]]
    return;
  refuse(a, text({DType::kFloat32, other}) + " [any number, " + std::to_string(columns) + "]");
}

}  // namespace pfc
