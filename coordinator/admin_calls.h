// What an admin may ask for both by gRPC (pfcctl) and on the page at /. Each request and its
// result are written to the audit log.
#pragma once

#include "coordinator/access/gate.h"
#include "coordinator/coordinator.h"

namespace pfc {

/// Used on the event loop only. REQUIRES of all: the caller may make the call (access/roles.h).
class AdminCalls {
 public:
  /// Borrows both; `gate`: null where there is no audit log, in plaintext.
  AdminCalls(Coordinator& coordinator, Gate* gate) : coordinator_(coordinator), gate_(gate) {}

  void stop(const Caller& caller, const proto::StopRequest& request,
            const Answer<proto::StopReply>& answer);
  /// REQUIRES: the request is of the job that runs.
  void drain(const Caller& caller, const proto::DrainRequest& request,
             const Answer<proto::DrainReply>& answer);

 private:
  Coordinator& coordinator_;
  Gate* const gate_;
};

}  // namespace pfc
