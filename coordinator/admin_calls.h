// Actions that an admin may request both by gRPC (pfcctl) and on the page at /. Requests and
// results are written to the audit log.
#pragma once

#include "coordinator/access/gate.h"
#include "coordinator/coordinator.h"

namespace pfc {

/// Used on the event loop only. REQUIRES: the caller is authorized (access/roles.h).
class AdminCalls {
 public:
  /// Owns neither; `gate`: null without an audit log, in plaintext.
  AdminCalls(Coordinator& coordinator, Gate* gate) : coordinator_(coordinator), gate_(gate) {}

  void stop(const Caller& caller, const proto::StopRequest& request,
            const Answer<proto::StopReply>& answer);
  /// REQUIRES: the request is for the running job.
  void drain(const Caller& caller, const proto::DrainRequest& request,
             const Answer<proto::DrainReply>& answer);

 private:
  Coordinator& coordinator_;
  Gate* const gate_;
};

}  // namespace pfc
