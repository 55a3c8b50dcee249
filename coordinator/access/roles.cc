#include "coordinator/access/roles.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace pfc {
namespace {

struct Rule {
  std::string_view request;
  std::initializer_list<Role> roles;
};

constexpr std::initializer_list<Role> kAnybody{Role::kNobody, Role::kReader,    Role::kWorker,
                                               Role::kAgent,  Role::kSubmitter, Role::kAdmin};
constexpr std::initializer_list<Role> kReaders{Role::kReader, Role::kSubmitter, Role::kAgent,
                                               Role::kAdmin};
/// Submitters may stop, and read the logs of, only their own jobs (rpc/admission.h).
constexpr std::initializer_list<Role> kSubmitters{Role::kSubmitter, Role::kAdmin};
constexpr std::initializer_list<Role> kAgents{Role::kAgent};
constexpr std::initializer_list<Role> kWorkers{Role::kWorker};
constexpr std::initializer_list<Role> kAdmins{Role::kAdmin};

constexpr std::array<Rule, 23> kRules{{
    {"ExchangeTokenRequest", kAnybody}, {"StatusRequest", kReaders},
    {"AgentMessage", kAgents},          {"JoinRequest", kWorkers},
    {"WorkerMessage", kWorkers},        {"ReportCheckRequest", kWorkers},
    {"FinishRequest", kWorkers},        {"SetValueRequest", kWorkers},
    {"GetValueRequest", kWorkers},      {"GetValuesRequest", kWorkers},
    {"QueueRequest", kReaders},         {"CheckResultRequest", kReaders},
    {"LogsRequest", kSubmitters},       {"DrainRequest", kAdmins},
    {"InjectFaultRequest", kAdmins},    {"StopRequest", kSubmitters},
    {"SubmitRequest", kSubmitters},     {"CreateTokenRequest", kAdmins},
    {"ListTokensRequest", kAdmins},     {"RevokeTokenRequest", kAdmins},
    {"SendTraceRequest", kWorkers},     {"StartTraceRequest", kAdmins},
    {"ReadTraceRequest", kAdmins},
}};

}  // namespace

bool may_call(Role role, std::string_view request) {
  const auto* const rule = std::ranges::find(kRules, request, &Rule::request);
  const std::initializer_list<Role> roles = rule == kRules.end() ? kAdmins : rule->roles;
  return std::ranges::find(roles, role) != roles.end();
}

}  // namespace pfc
