#include "coordinator/rpc/admission.h"

namespace pfc {

Refusal Admission::too_many(const std::string& what) {
  return {.kind = Refusal::Kind::kUnavailable, .message = "too many " + what + "; try again"};
}

std::variant<Caller, Refusal> Admission::admit(const grpc::ServerContextBase& context,
                                               const std::string& request) {
  if (!calls_.may_call(context.peer())) return too_many("calls a second");
  if (gate_ != nullptr) return gate_->admit(context, request);
  return Caller{.peer = context.peer(), .identity = {.role = Role::kAdmin}};
}

bool Admission::fits_job(const Caller& caller, const std::string& request, const std::string& job,
                         Refusal& why) {
  if (caller.identity.job == job) return true;
  why = gate_->refuse(caller, request, "wrong_job",
                      "the worker's credential is for job " + caller.identity.job);
  return false;
}

bool Admission::fits_submitter(const Caller& caller, const std::string& request,
                               const std::string& job, Refusal& why) {
  if (caller.identity.role != Role::kSubmitter) return true;
  const auto submitter = coordinator_.jobs().submitter_of(job);
  if (!submitter || *submitter == caller.serial) return true;  // unknown jobs are refused later
  why = gate_->refuse(caller, request, "not_own_job",
                      "this job was submitted with another credential; name one of your own, or "
                      "ask an admin");
  return false;
}

bool Admission::fits_host(const Caller& caller, const std::string& request,
                          const std::optional<std::string>& host, Refusal& why) {
  if (!host || caller.identity.host == *host) return true;
  why = gate_->refuse(caller, request, "wrong_host",
                      "the certificate is for host " + caller.identity.host +
                          ", but the worker says that it is on " + *host);
  return false;
}

}  // namespace pfc
