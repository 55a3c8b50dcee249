#include "common/config/python_arithmetic.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace pfc {
namespace {

bool power_overflows(std::int64_t base, std::int64_t exponent, std::int64_t& result) {
  result = 1;
  if (base >= -1 && base <= 1) exponent = exponent == 0 ? 0 : 2 - exponent % 2;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return true;
  }
  return false;
}

/// Computes Python's // and %, which round down. Returns whether the result overflows.
bool floor_overflows(char op, std::int64_t a, std::int64_t b, std::int64_t& result) {
  if (b == -1) return op == 'f' && __builtin_sub_overflow(std::int64_t{0}, a, &result);
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  result = op == 'f' ? a / b - (down ? 1 : 0) : a % b + (down ? b : 0);
  return false;
}

bool overflows(char op, std::int64_t a, std::int64_t b, std::int64_t& result) {
  if (op == '+') return __builtin_add_overflow(a, b, &result);
  if (op == '-') return __builtin_sub_overflow(a, b, &result);
  if (op == '*') return __builtin_mul_overflow(a, b, &result);
  if (op == '^') return power_overflows(a, b, result);
  return floor_overflows(op, a, b, result);
}

double of_reals(char op, double a, double b) {
  if (op == '+') return a + b;
  if (op == '-') return a - b;
  if (op == '*') return a * b;
  if (op == '/') return a / b;
  if (op == '^') return std::pow(a, b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return op == '%' ? rest : std::round((a - rest) / b);
}

}  // namespace

nlohmann::json python_arithmetic(char op, const nlohmann::json& left, const nlohmann::json& right) {
  if (!left.is_number() || !right.is_number()) {
    throw std::domain_error("expected numbers in arithmetic");
  }
  const bool divides = op == '/' || op == 'f' || op == '%';
  if (divides && right.get<double>() == 0) throw std::domain_error("division by zero");
  const bool whole = left.is_number_integer() && right.is_number_integer();
  if (whole && op != '/' && !(op == '^' && right.get<std::int64_t>() < 0)) {
    std::int64_t result = 0;
    if (!overflows(op, left.get<std::int64_t>(), right.get<std::int64_t>(), result)) return result;
    throw std::domain_error("the result does not fit in 64 bits");
  }
  const double result = of_reals(op, left.get<double>(), right.get<double>());
  if (!std::isfinite(result)) throw std::domain_error("the result is not a finite number");
  return result;
}

}  // namespace pfc
