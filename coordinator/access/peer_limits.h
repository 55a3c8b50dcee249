// Limits what one connection may request, to protect the coordinator's time and memory.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/clock.h"

namespace pfc {

/// Limits of one gRPC connection. They leave room for a starting worker, which joins and reads the
/// key-value store with a few calls for each other worker.
inline constexpr int kMostCallsASecond = 2'000;
inline constexpr int kMostCallsAtOnce = 10'000;
/// Bytes of replies that the peer has not read yet.
inline constexpr std::size_t kMostWaitingBytes = std::size_t{16} << 20;
inline constexpr int kMostConcurrentCalls = 256;
inline constexpr int kMostMessageBytes = 4 << 20;  ///< one request; gRPC's default
/// Limits on token exchanges, per address.
inline constexpr int kMostExchangesASecond = 20;
inline constexpr int kMostExchangesAtOnce = 200;

/// Thread-safe. A peer is a connection ("ipv4:10.0.0.2:4711") or an address.
class PeerLimits {
 public:
  /// Allows `rate` calls a second, and `burst` at once after a pause.
  PeerLimits(int rate, int burst) : rate_(rate), burst_(burst) {}

  /// Counts a call. Returns false if it exceeds the limit.
  bool may_call(const std::string& peer, TimePoint now = Clock::now());
  /// Counts a reply to be sent. Returns false, without counting, if too many bytes are unsent.
  bool may_send(const std::string& peer, std::size_t bytes);
  /// Called when a counted reply was sent or dropped.
  void sent(const std::string& peer, std::size_t bytes);

 private:
  struct Peer {
    double calls = 0;  ///< calls allowed now
    TimePoint counted_at;
    std::size_t waiting_bytes = 0;
  };

  Peer& peer_of(const std::string& name, TimePoint now);
  void forget_idle(TimePoint now);

  const int rate_;
  const int burst_;
  std::mutex mutex_;
  std::unordered_map<std::string, Peer> peers_;  ///< guarded by mutex_
  std::size_t sweep_at_ = 1'024;                 ///< guarded by mutex_
};

}  // namespace pfc
