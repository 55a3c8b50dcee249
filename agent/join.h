// Joins a cluster: an agent exchanges the token of a join string for its credential.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "security/credential.h"
#include "security/join_string.h"

namespace pfc {

struct JoinedCluster {
  Credential credential;
  std::string host;  ///< this host's name in the coordinator's --hosts
};

/// Connects to the coordinator, verifies the fingerprint, and requests a certificate. The key is
/// stored in STATE_DIR (mode 0600), one per authority and host name. The coordinator issues a
/// certificate for a known key again, even if the token has expired. Retries for up to `patience`
/// if the coordinator cannot be reached, then throws CommError. Throws InputError if the
/// coordinator refuses the request or is not the one in the join string, and ClockError as
/// fetch_authority() does.
JoinedCluster join_cluster(const JoinString& join, const std::string& host,
                           const std::filesystem::path& state_dir,
                           std::chrono::milliseconds patience);

}  // namespace pfc
