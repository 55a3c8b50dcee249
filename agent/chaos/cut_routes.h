// Routes that make addresses unreachable for this host: how a partition is made.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace pfc {

/// The kernel's messages that add and remove a route to each of some addresses, of the kind that
/// says "No route to host". Connections that are open stay so, and nothing goes out on them. Made
/// beforehand, so that sending them takes no memory: remove() may be called after a fork.
class CutRoutes {
 public:
  /// Addresses are IPv4 or IPv6; others, and those of this machine's loopback, are left out.
  explicit CutRoutes(const std::vector<std::string>& addresses);

  [[nodiscard]] std::size_t count() const { return additions_.size(); }
  /// Throws std::runtime_error that names the address, and has added none then.
  void add() const;
  /// Those that are there, whatever fails. Async-signal-safe.
  void remove() const noexcept;

  /// Why this process may not change routes; empty: it may.
  static std::string obstacle();
  /// Removes the routes of an earlier process, which was killed together with what would have
  /// removed them. Does nothing where that is not allowed.
  static void remove_all() noexcept;

 private:
  std::vector<std::string> addresses_;
  std::vector<std::string> additions_;  ///< by address
  std::vector<std::string> removals_;   ///< likewise
};

}  // namespace pfc
