// What one connection may ask for, so that it cannot take the coordinator's time or memory.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/clock.h"

namespace pfc {

/// Bounds of one gRPC connection. A worker's calls at its start are its joins and its reads of the
/// key-value store, a few for each of its peers.
inline constexpr int kMostCallsASecond = 2'000;
inline constexpr int kMostCallsAtOnce = 10'000;
/// Replies that the other side has not read yet.
inline constexpr std::size_t kMostWaitingBytes = std::size_t{16} << 20;
inline constexpr int kMostConcurrentCalls = 256;
inline constexpr int kMostMessageBytes = 4 << 20;  ///< of one request; gRPC's own default
/// Of one address, attempts to exchange a token.
inline constexpr int kMostExchangesASecond = 20;
inline constexpr int kMostExchangesAtOnce = 200;

/// Thread-safe. A peer is a connection ("ipv4:10.0.0.2:4711") or an address.
class PeerLimits {
 public:
  /// At most `rate` calls a second, and `burst` at once after a pause.
  PeerLimits(int rate, int burst) : rate_(rate), burst_(burst) {}

  /// Counts a call; false: it is one too many.
  bool may_call(const std::string& peer, TimePoint now = Clock::now());
  /// Counts a reply that is about to be sent; false: too many bytes wait already, and it was not
  /// counted.
  bool may_send(const std::string& peer, std::size_t bytes);
  /// A reply that was counted has been taken over by the network, or dropped.
  void sent(const std::string& peer, std::size_t bytes);

 private:
  struct Peer {
    double calls = 0;  ///< that it may still make now
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
