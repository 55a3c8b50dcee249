// Reports why an agent has no connection, before it gives up.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace pfc {

/// Not thread-safe.
class SilenceNotice {
 public:
  /// `for_ever`: the agent retries forever, and at the limit only its workers end.
  explicit SilenceNotice(std::string coordinator, bool for_ever = false);

  /// Called after a failed attempt to connect. `silence` is the time since the last connection, or
  /// since the start. `limit` is the silence after which the agent or its workers end. Returns the
  /// message to print: once per outage, when it has lasted 3 s, and whenever the coordinator
  /// refuses the agent for a new reason.
  std::optional<std::string> attempt_failed(std::chrono::milliseconds silence,
                                            std::chrono::milliseconds limit, const std::string& why,
                                            bool refused = false);

 private:
  const std::string coordinator_;
  const bool for_ever_;
  bool told_ = false;
  std::string refusal_;  ///< reason of the last refusal that was reported
};

}  // namespace pfc
