// Arithmetic with Python's results, for python_config.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace pfc {

/// Returns left OP right; `op` is one of + - * / %, f for Python's //, and ^ for its **. Integers
/// stay integers, except with / and negative exponents; // and % round down. Throws
/// std::domain_error with the reason if an operand is not a number, the divisor is zero, an integer
/// does not fit in 64 bits, or the result is not finite.
nlohmann::json python_arithmetic(char op, const nlohmann::json& left, const nlohmann::json& right);

}  // namespace pfc
