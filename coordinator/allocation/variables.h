// Environment variables set by a scheduler.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace pfc {

/// Returns a variable's value; nothing if it is unset or empty.
using Variables = std::function<std::optional<std::string>(const char* name)>;

/// Reads this process's environment.
std::optional<std::string> own_variable(const char* name);

}  // namespace pfc
