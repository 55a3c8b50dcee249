#include "coordinator/access/peer_limits.h"

#include <algorithm>

namespace pfc {

bool PeerLimits::may_call(const std::string& peer, TimePoint now) {
  const std::lock_guard lock(mutex_);
  Peer& its = peer_of(peer, now);
  const double seconds = std::chrono::duration<double>(now - its.counted_at).count();
  its.calls = std::min<double>(burst_, its.calls + rate_ * seconds);
  its.counted_at = now;
  if (its.calls < 1) return false;
  its.calls -= 1;
  return true;
}

bool PeerLimits::may_send(const std::string& peer, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Peer& its = peer_of(peer, Clock::now());
  // A single reply is always sent; its size is limited elsewhere.
  if (its.waiting_bytes > 0 && its.waiting_bytes + bytes > kMostWaitingBytes) return false;
  its.waiting_bytes += bytes;
  return true;
}

void PeerLimits::sent(const std::string& peer, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(peer);
  if (found != peers_.end()) found->second.waiting_bytes -= bytes;
}

PeerLimits::Peer& PeerLimits::peer_of(const std::string& name, TimePoint now) {
  if (peers_.size() >= sweep_at_) forget_idle(now);
  const auto [found, is_new] =
      peers_.try_emplace(name, Peer{.calls = static_cast<double>(burst_), .counted_at = now});
  return found->second;
}

/// Removes peers that have their full burst again.
void PeerLimits::forget_idle(TimePoint now) {
  const std::chrono::duration<double> refill(static_cast<double>(burst_) / rate_);
  std::erase_if(peers_, [&](const auto& each) {
    return each.second.waiting_bytes == 0 && now - each.second.counted_at >= refill;
  });
  sweep_at_ = std::max<std::size_t>(1'024, 2 * peers_.size());
}

}  // namespace pfc
