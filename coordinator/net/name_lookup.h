// Resolves host names, with a timeout for name servers that do not answer.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pfc {

/// Returns a name's IP addresses, empty if it has none; nullopt if no name server answers. Blocks.
/// Called by several threads at once.
using Resolve = std::function<std::optional<std::vector<std::string>>(const std::string& name)>;

/// Asks the system: its files, then DNS.
std::optional<std::vector<std::string>> resolve(const std::string& name);

/// Returns the addresses of the names that were resolved within `limit`. Resolves names
/// concurrently, on threads that may outlive the call.
std::map<std::string, std::vector<std::string>> look_up(const std::vector<std::string>& names,
                                                        std::chrono::milliseconds limit,
                                                        Resolve resolve_name = resolve);

}  // namespace pfc
