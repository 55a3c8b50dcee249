// Requests whose results are written to the audit log, from gRPC (pfcctl) or the page at /.
#pragma once

#include "coordinator/access/gate.h"
#include "coordinator/coordinator.h"

namespace pfc {

/// Writes each result to the audit log before the reply, except for requests that only ask whether
/// a fault is possible. Used on the event loop only. REQUIRES: the caller is authorized
/// (access/roles.h), and a job_id in the request is the running job's.
class AuditedCalls {
 public:
  /// Borrows its arguments. `gate` is null in plaintext: then no audit log is written.
  AuditedCalls(Coordinator& coordinator, Gate* gate) : coordinator_(coordinator), gate_(gate) {}

  void submit(const Caller& caller, const proto::SubmitRequest& request,
              const Answer<proto::SubmitReply>& answer);
  void stop(const Caller& caller, const proto::StopRequest& request,
            const Answer<proto::StopReply>& answer);
  void drain(const Caller& caller, const proto::DrainRequest& request,
             const Answer<proto::DrainReply>& answer);
  void inject_fault(const Caller& caller, const proto::InjectFaultRequest& request,
                    const Answer<proto::InjectFaultReply>& answer);
  void start_trace(const Caller& caller, const proto::StartTraceRequest& request,
                   const Answer<proto::StartTraceReply>& answer);

 private:
  Coordinator& coordinator_;
  Gate* const gate_;
};

}  // namespace pfc
