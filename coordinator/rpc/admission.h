// Which calls are let through to the coordinator.
#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "coordinator/access/gate.h"
#include "coordinator/access/peer_limits.h"
#include "coordinator/coordinator.h"

namespace pfc {

/// Asks the gate, and the limits of each connection. Without a gate everybody is an admin: that is
/// for loopback alone. fits() is for the event loop; the other functions are thread-safe.
class Admission {
 public:
  /// Borrows both; `gate` may be null.
  Admission(const Coordinator& coordinator, Gate* gate) : coordinator_(coordinator), gate_(gate) {}

  /// Who calls; or why that one may not. `request`: the name of its message.
  std::variant<Caller, Refusal> admit(const grpc::ServerContextBase& context,
                                      const std::string& request);

  /// Returns whether the request fits the caller. A worker may only name the job and the host of
  /// its certificate. A submitter may only stop, and read the logs of, its own jobs. Sets `why` if
  /// the result is false.
  template <typename Request>
  bool fits(const Caller& caller, const Request& request, Refusal& why) {
    if constexpr (std::is_same_v<Request, proto::StopRequest> ||
                  std::is_same_v<Request, proto::LogsRequest>) {
      return fits_submitter(caller, Request::descriptor()->name(), request.job(), why);
    }
    if (caller.identity.role != Role::kWorker) return true;
    const std::string& name = Request::descriptor()->name();
    if constexpr (requires { request.job_id(); }) {
      if (!fits_job(caller, name, request.job_id(), why)) return false;
    }
    if constexpr (requires { request.worker().agent_id(); }) {
      return fits_host(caller, name, coordinator_.host_of_agent(request.worker().agent_id()), why);
    } else if constexpr (requires { request.rank(); }) {
      return fits_host(caller, name, coordinator_.host_of_rank(request.rank()), why);
    } else {
      return true;
    }
  }

  /// Counts a reply; false: the peer leaves too many bytes unread. Each is followed by sent().
  bool may_send(const std::string& peer, std::size_t bytes) { return calls_.may_send(peer, bytes); }
  void sent(const std::string& peer, std::size_t bytes) { calls_.sent(peer, bytes); }

  /// "too many WHAT; try again": clients do so.
  static Refusal too_many(const std::string& what);

 private:
  bool fits_job(const Caller& caller, const std::string& request, const std::string& job,
                Refusal& why);
  bool fits_submitter(const Caller& caller, const std::string& request, const std::string& job,
                      Refusal& why);
  bool fits_host(const Caller& caller, const std::string& request,
                 const std::optional<std::string>& host, Refusal& why);

  const Coordinator& coordinator_;
  Gate* const gate_;
  PeerLimits calls_{kMostCallsASecond, kMostCallsAtOnce};  // by connection
};

}  // namespace pfc
