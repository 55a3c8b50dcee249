// Identity of a caller: its role, and the host or job it acts for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pfc {

enum class Role {
  kNobody,     ///< has no credential; may exchange a token for one
  kReader,     ///< may read status and metrics
  kSubmitter,  ///< may also submit jobs, and stop and read the logs of its own jobs
  kWorker,     ///< worker of one job on one host
  kAgent,      ///< agent of one host
  kAdmin,      ///< may stop jobs, and make and revoke tokens
  kServer,     ///< the coordinator itself
};

/// "agent", "worker", ...
std::string_view name_of(Role role);
/// Returns kNobody for an unknown name.
Role role_named(std::string_view name);

struct Identity {
  Role role = Role::kNobody;
  std::string host;   ///< agents and workers: name in the coordinator's --hosts
  std::string job;    ///< workers only
  std::string agent;  ///< workers only: serial number of the agent's certificate

  friend bool operator==(const Identity&, const Identity&) = default;
};

/// Returns the subject alternative name of a certificate: "pfc:worker:JOB:AGENT:HOST".
std::string to_uri(const Identity& identity);
/// Returns nothing if the text is malformed, or names a role that has no certificates.
std::optional<Identity> identity_from_uri(std::string_view uri);

}  // namespace pfc
