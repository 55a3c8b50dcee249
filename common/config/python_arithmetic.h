// Arithmetic with Python's results, for python_config.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace pfc {

/// Returns left OP right; `op` is one of + - * / %, f for Python's //, and ^ for its **. Integers
/// stay integers but for / and negative exponents; // and % round down. Throws std::domain_error
/// that says why there is no result: an operand is not a number, a division by zero, an integer
/// beyond 64 bits, a number that is not finite.
nlohmann::json python_arithmetic(char op, const nlohmann::json& left, const nlohmann::json& right);

}  // namespace pfc
