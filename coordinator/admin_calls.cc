#include "coordinator/admin_calls.h"

#include "common/one_line.h"

namespace pfc {

void AdminCalls::stop(const Caller& caller, const proto::StopRequest& request,
                      const Answer<proto::StopReply>& answer) {
  if (gate_ != nullptr) gate_->note(caller, "stop", request.reason());
  coordinator_.stop_job(request, answer);
}

void AdminCalls::drain(const Caller& caller, const proto::DrainRequest& request,
                       const Answer<proto::DrainReply>& answer) {
  if (gate_ != nullptr) gate_->note(caller, "drain", request.host());
  // gRPC frees the request with the answer, and the stop may end this server before it.
  const proto::DrainRequest asked = request;
  if (!coordinator_.has_host(asked.host())) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "there is no host " + one_line(asked.host(), 64) +
                                     "; expected one that pfcctl status lists"});
  }
  answer(proto::DrainReply());
  coordinator_.drain(asked.host(), asked.leaving());
}

}  // namespace pfc
