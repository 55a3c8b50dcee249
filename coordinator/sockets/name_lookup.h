// Resolves host names, with a timeout for name servers that do not answer.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace pfc {

/// Returns a name's IP addresses, empty if it has none; nullopt if no name server answers. Blocks.
/// Called by several threads at once.
using Resolve = std::function<std::optional<std::vector<std::string>>(const std::string& name)>;

/// Asks the system: its files, then DNS.
std::optional<std::vector<std::string>> resolve(const std::string& name);

/// Addresses by name; empty: the name has none. Names for which no server answered are missing.
using FoundAddresses = std::map<std::string, std::vector<std::string>>;

/// Returns the addresses of the names that were resolved within `limit`. Resolves names
/// concurrently, on threads that may outlive the call.
FoundAddresses look_up(const std::vector<std::string>& names, std::chrono::milliseconds limit,
                       Resolve resolve_name = resolve);

/// Looks names up again until all have addresses or `limit` is over.
struct RepeatedLookup {
  std::vector<std::string> names;
  std::chrono::milliseconds limit;
  std::chrono::milliseconds pause{10'000};
  std::chrono::milliseconds each{1'000};  ///< limit of each look_up()
  Resolve resolve_name = resolve;

  /// Waits `pause` and looks up the names that have no address yet, again and again. Calls `found`
  /// after each lookup. Returns early if `stop` is requested.
  void run(const std::stop_token& stop,
           const std::function<void(const std::vector<std::string>& names,
                                    const FoundAddresses& found)>& found);
};

}  // namespace pfc
