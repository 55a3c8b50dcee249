// Decides which calls reach the coordinator.
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

/// Applies the gate and the limits per connection. Without a gate every caller is an admin, which
/// is for loopback only. fits() is for the event loop; the other functions are thread-safe.
class Admission {
 public:
  /// Borrows its arguments; `gate` may be null.
  Admission(const Coordinator& coordinator, Gate* gate) : coordinator_(coordinator), gate_(gate) {}

  /// Returns the caller, or why the call is refused. `request`: name of its message.
  std::variant<Caller, Refusal> admit(const grpc::ServerContextBase& context,
                                      const std::string& request);

  /// Returns whether the request fits the caller; sets `why` if not. Workers may name only the job
  /// and host of their certificate. Submitters may stop, and read the logs of, only their own
  /// jobs.
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
      return fits_host(caller, name,
                       coordinator_.agents().host_of_agent(request.worker().agent_id()), why);
    } else if constexpr (requires { request.rank(); }) {
      return fits_host(caller, name, coordinator_.agents().host_of_rank(request.rank()), why);
    } else {
      return true;
    }
  }

  /// Counts a reply; call sent() afterwards. Returns false if the peer has too many unread bytes.
  bool may_send(const std::string& peer, std::size_t bytes) { return calls_.may_send(peer, bytes); }
  void sent(const std::string& peer, std::size_t bytes) { calls_.sent(peer, bytes); }

  /// Returns "too many WHAT; try again". Clients retry.
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
