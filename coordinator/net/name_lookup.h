// Looks host names up without waiting for a name server that does not answer.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pfc {

/// The IP addresses of a name, none where it has none; nullopt: no name server answers. Blocks, and
/// may be called by many threads.
using Resolve = std::function<std::optional<std::vector<std::string>>(const std::string& name)>;

/// Asks the system: its files, then DNS.
std::optional<std::vector<std::string>> resolve(const std::string& name);

/// The addresses of those names that were answered within `limit`; the others are left out. Names
/// are looked up at the same time, by threads that may outlive the call.
std::map<std::string, std::vector<std::string>> look_up(const std::vector<std::string>& names,
                                                        std::chrono::milliseconds limit,
                                                        Resolve resolve_name = resolve);

}  // namespace pfc
