// Tells a person why an agent has no connection, before it gives up.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace pfc {

/// Used by one thread at a time.
class SilenceNotice {
 public:
  /// The agent looks for this coordinator (host:port) for some time, or `for_ever`: then its
  /// workers end after that time.
  explicit SilenceNotice(std::string coordinator, bool for_ever = false);

  /// An attempt to connect has failed. `silence` is the time since the last connection, or since
  /// the start, and `limit` that after which it ends. Returns what to say: once in each time
  /// without a connection, when it has lasted 3 s; and at once when the coordinator has refused the
  /// agent, for another reason than before.
  std::optional<std::string> attempt_failed(std::chrono::milliseconds silence,
                                            std::chrono::milliseconds limit, const std::string& why,
                                            bool refused = false);

 private:
  const std::string coordinator_;
  const bool for_ever_;
  bool told_ = false;
  std::string refusal_;  ///< the last one that was told
};

}  // namespace pfc
