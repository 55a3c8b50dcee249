#include "coordinator/admin_calls.h"

#include "common/one_line.h"
#include "coordinator/access/noted.h"

namespace pfc {

void AdminCalls::stop(const Caller& caller, const proto::StopRequest& request,
                      const Answer<proto::StopReply>& answer) {
  const std::string reason = request.reason();
  coordinator_.jobs().stop(
      request, noted<proto::StopReply>(gate_, caller, "stop", "stop of job " + request.job(),
                                       answer, [reason](const proto::StopReply& stopped) {
                                         return "job " + stopped.job_id() + ": " + reason;
                                       }));
}

void AdminCalls::drain(const Caller& caller, const proto::DrainRequest& request,
                       const Answer<proto::DrainReply>& plain_answer) {
  const std::string host = "host " + one_line(request.host(), 64);
  const auto answer =
      noted<proto::DrainReply>(gate_, caller, "drain", "drain of " + host, plain_answer,
                               [host](const proto::DrainReply&) { return host; });
  // gRPC frees the request with the answer, and the drain may end this server.
  const proto::DrainRequest asked = request;
  if (!coordinator_.agents().has_host(asked.host())) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "there is no host " + one_line(asked.host(), 64) +
                                     "; expected one that pfcctl status lists"});
  }
  answer(proto::DrainReply());
  coordinator_.agents().drain(asked.host(), asked.leaving());
}

}  // namespace pfc
