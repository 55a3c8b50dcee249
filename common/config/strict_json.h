// Parses JSON that may be anything: its size and depth are bounded before memory is spent on it.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pfc {

/// What JSON of one kind may take.
struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 20;  ///< of its text
  int depth = 16;                            ///< arrays and objects in each other
};

/// Parses the JSON text of `origin`, with which every error begins: a file's path, or "--set
/// lr=0.2". No key may stand twice in an object. Throws InputError "ORIGIN:LINE:COLUMN: not valid
/// JSON: ...", and without a position where the text exceeds a limit, which it then names, where a
/// key is given twice, and where a number is too large for float64.
nlohmann::json parse_strict_json(std::string_view text, const std::string& origin,
                                 const JsonLimits& limits = {});

}  // namespace pfc
