// The environment that a scheduler makes for a job.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace pfc {

/// Looks up one environment variable; nothing where it is not set, or empty.
using Variables = std::function<std::optional<std::string>(const char* name)>;

/// This process's own.
std::optional<std::string> own_variable(const char* name);

}  // namespace pfc
