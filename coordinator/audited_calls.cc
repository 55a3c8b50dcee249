#include "coordinator/audited_calls.h"

#include <utility>
#include <variant>

#include "common/counted.h"
#include "common/one_line.h"

namespace pfc {
namespace {

/// Wraps `answer` so that the result is first written to the audit log: `detail(reply)` on
/// success, `asked` ("stop of job 1234") and the reason on refusal. `gate` is not owned; nullptr
/// disables the audit log.
template <typename Reply, typename Detail>
Answer<Reply> noted(Gate* gate, const Caller& caller, const std::string& what,
                    const std::string& asked, const Answer<Reply>& answer, Detail detail) {
  if (gate == nullptr) return answer;
  return [=](std::variant<Reply, Refusal> result) {
    if (const auto* done = std::get_if<Reply>(&result)) {
      gate->note(caller, what, detail(*done));
    } else {
      gate->note(caller, what, asked + ": not done: " + std::get<Refusal>(result).message,
                 "not_done");
    }
    answer(std::move(result));
  };
}

}  // namespace

void AuditedCalls::submit(const Caller& caller, const proto::SubmitRequest& request,
                          const Answer<proto::SubmitReply>& answer) {
  const bool is_admin = caller.identity.role == Role::kAdmin;
  coordinator_.jobs().submit(request, is_admin ? "" : caller.serial,
                             noted(gate_, caller, "submit", "submission of " + request.file(),
                                   answer, [file = request.file()](const auto& to) {
                                     return "job " + to.job_id() + ": " + file;
                                   }));
}

void AuditedCalls::stop(const Caller& caller, const proto::StopRequest& request,
                        const Answer<proto::StopReply>& answer) {
  coordinator_.jobs().stop(request, noted(gate_, caller, "stop", "stop of job " + request.job(),
                                          answer, [reason = request.reason()](const auto& stopped) {
                                            return "job " + stopped.job_id() + ": " + reason;
                                          }));
}

void AuditedCalls::drain(const Caller& caller, const proto::DrainRequest& request,
                         const Answer<proto::DrainReply>& plain_answer) {
  const std::string host = "host " + one_line(request.host(), 64);
  const auto answer = noted(gate_, caller, "drain", "drain of " + host, plain_answer,
                            [host](const auto&) { return host; });
  // gRPC frees the request with the answer, and the drain may end this server.
  const proto::DrainRequest asked = request;
  if (!coordinator_.agents().has_host(asked.host())) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "unknown host " + one_line(asked.host(), 64) +
                                     "; give a host that pfcctl status lists"});
  }
  answer(proto::DrainReply());
  coordinator_.agents().drain(asked.host(), asked.leaving());
}

void AuditedCalls::inject_fault(const Caller& caller, const proto::InjectFaultRequest& request,
                                const Answer<proto::InjectFaultReply>& answer) {
  if (request.only_ask()) return coordinator_.agents().inject_fault(request, answer);
  const std::string what = proto::FaultKind_Name(request.kind());
  coordinator_.agents().inject_fault(
      request, noted(gate_, caller, "chaos", what, answer,
                     [what](const auto& done) { return what + ": " + done.target(); }));
}

void AuditedCalls::start_trace(const Caller& caller, const proto::StartTraceRequest& request,
                               const Answer<proto::StartTraceReply>& answer) {
  const std::string steps = counted(request.steps(), "step");
  coordinator_.traces().start(request, noted(gate_, caller, "trace", "trace of " + steps, answer,
                                             [steps](const auto& begun) {
                                               return "job " + begun.job_id() + ": " + steps +
                                                      " from step " +
                                                      std::to_string(begun.first_step()) + " on";
                                             }));
}

}  // namespace pfc
