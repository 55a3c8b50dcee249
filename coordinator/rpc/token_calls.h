// Calls about tokens and certificates.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>
#include <utility>

#include "coordinator/access/gate.h"
#include "coordinator/access/peer_limits.h"
#include "coordinator/coordinator.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Used on the event loop only. Answers and Changed are called on the thread that accesses files.
/// Without a gate every call is refused.
class TokenCalls {
 public:
  /// Called when a certificate of this host was issued, replaced or revoked. Must be thread-safe.
  using Changed = std::function<void(const std::string& host)>;

  /// Borrows coordinator and gate; `gate` may be null. `address`: HOST:PORT in join strings.
  TokenCalls(Coordinator& coordinator, Gate* gate, std::string address, Changed changed)
      : coordinator_(coordinator),
        gate_(gate),
        address_(std::move(address)),
        changed_(std::move(changed)) {}

  void exchange(const Caller& caller, const proto::ExchangeTokenRequest& request,
                const Answer<proto::ExchangeTokenReply>& answer);
  void create(const Caller& caller, const proto::CreateTokenRequest& request,
              const Answer<proto::CreateTokenReply>& answer);
  void list(const proto::ListTokensRequest& request, const Answer<proto::ListTokensReply>& answer);
  void revoke(const Caller& caller, const proto::RevokeTokenRequest& request,
              const Answer<proto::RevokeTokenReply>& answer);

 private:
  /// Runs `work`, which blocks, on the file thread, and answers with its result.
  template <typename Reply, typename Work>
  void on_files(const Answer<Reply>& answer, Work work);

  Coordinator& coordinator_;
  Gate* const gate_;
  const std::string address_;
  const Changed changed_;
  PeerLimits exchanges_{kMostExchangesASecond, kMostExchangesAtOnce};  // by address
  boost::asio::thread_pool files_{1};                                  // last: it uses all above
};

}  // namespace pfc
