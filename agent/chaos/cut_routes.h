// Creates a network partition with routes that make addresses unreachable.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace pfc {

/// Netlink messages that add and remove an unreachable route ("No route to host") to each of some
/// addresses. Open connections stay open, but can send nothing. The messages are built in the
/// constructor, so remove() allocates nothing and may be called after fork().
class CutRoutes {
 public:
  /// Ignores loopback addresses and anything that is not an IPv4 or IPv6 address.
  explicit CutRoutes(const std::vector<std::string>& addresses);

  [[nodiscard]] std::size_t count() const { return additions_.size(); }
  /// Throws std::runtime_error that names the address. Removes the routes added so far.
  void add() const;
  /// Removes all routes and ignores errors. Async-signal-safe.
  void remove() const noexcept;

  /// Returns why this process may not change routes; empty if it may.
  static std::string obstacle();
  /// Removes the routes of an earlier process that was killed before it could remove them. Does
  /// nothing without permission.
  static void remove_all() noexcept;

 private:
  std::vector<std::string> addresses_;
  std::vector<std::string> additions_;  ///< messages that add the routes, by address
  std::vector<std::string> removals_;   ///< messages that remove the routes, by address
};

}  // namespace pfc
