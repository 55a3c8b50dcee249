// How an agent gets its credential: it exchanges the token of a join string.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "security/credential.h"
#include "security/join_string.h"

namespace pfc {

struct JoinedCluster {
  Credential credential;
  std::string host;  ///< the name that the coordinator's --hosts has for this host
};

/// Finds the coordinator, checks the fingerprint, and asks for a certificate. The key is kept in
/// STATE_DIR (mode 0600), one for each coordinator's authority and host name: the coordinator gives
/// the same key a certificate again, also when the token has expired. Retries for at most
/// `patience` if the coordinator cannot be reached, then throws CommError. Throws InputError if the
/// coordinator refuses the request or is not the one in the join string. Throws ClockError as
/// fetch_authority() does.
JoinedCluster join_cluster(const JoinString& join, const std::string& host,
                           const std::filesystem::path& state_dir,
                           std::chrono::milliseconds patience);

}  // namespace pfc
