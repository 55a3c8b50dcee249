// Parses untrusted JSON. Checks limits on size and depth before it uses memory.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pfc {

/// Limits for one kind of JSON text.
struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 20;  ///< length of the text
  int depth = 16;                            ///< nesting of arrays and objects
};

/// Parses JSON text. Every error starts with `origin`: a file's path, or "--set lr=0.2". Throws
/// InputError "ORIGIN:LINE:COLUMN: not valid JSON: ...". Errors about an exceeded limit, a
/// duplicate key or a number too large for float64 have no position.
nlohmann::json parse_strict_json(std::string_view text, const std::string& origin,
                                 const JsonLimits& limits = {});

}  // namespace pfc
