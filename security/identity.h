// Who holds a credential: the role, and what it may speak for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pfc {

enum class Role {
  kNobody,     ///< no credential: may exchange a token for one
  kReader,     ///< may see status and metrics
  kSubmitter,  ///< may also submit jobs, stop these jobs and read their logs
  kWorker,     ///< of one job, on one host
  kAgent,      ///< of one host
  kAdmin,      ///< may stop jobs, and make and revoke tokens
  kServer,     ///< the coordinator itself
};

/// "agent", "worker", ...
std::string_view name_of(Role role);
/// Returns kNobody for an unknown name.
Role role_named(std::string_view name);

struct Identity {
  Role role = Role::kNobody;
  std::string host;   ///< of an agent or a worker: the name in the coordinator's --hosts
  std::string job;    ///< of a worker
  std::string agent;  ///< of a worker: the serial number of its agent's certificate

  friend bool operator==(const Identity&, const Identity&) = default;
};

/// As it stands in a certificate's subject alternative name: "pfc:worker:JOB:AGENT:HOST".
std::string to_uri(const Identity& identity);
/// None where the text is not of this form, or names a role that no certificate has.
std::optional<Identity> identity_from_uri(std::string_view uri);

}  // namespace pfc
