// Reads configurations of arcface_torch, which are Python files, without Python.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pfc {

/// Returns the attributes of `config` after the statements of a Python file, as a JSON object.
///
/// Accepts `from easydict import EasyDict as edict`, `config = edict()`, and `config.KEY = VALUE`.
/// A VALUE is a number, string, True, False, None, list, tuple, dict with string keys, an earlier
/// `config.KEY`, or arithmetic on these, with Python's results: 7 // 2 is 3, 7 / 2 is 3.5. Lists
/// and tuples become arrays, None becomes null. Throws InputError "ORIGIN:LINE: ..." with the text
/// of the line for anything else. Integers must fit in 64 bits.
nlohmann::json parse_python_config(std::string_view text, const std::string& origin);

}  // namespace pfc
