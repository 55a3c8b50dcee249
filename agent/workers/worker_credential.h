// The credential that an agent hands to its workers.
#pragma once

#include <string>

#include "security/credential.h"
#include "security/openssl.h"

namespace pfc {

/// Has a key of its own, which all workers of this agent share and which never leaves the host. The
/// coordinator signs it anew for each job.
class WorkerCredential {
 public:
  /// `agent`: the agent's own; in plaintext there is nothing to hand over.
  explicit WorkerCredential(const Credential& agent);

  /// For the coordinator, in PEM; empty in plaintext.
  [[nodiscard]] const std::string& request() const { return request_; }
  /// What a worker reads from its stdin (read_credential()); empty in plaintext.
  [[nodiscard]] std::string text(const std::string& certificate) const;

 private:
  std::string authority_;
  std::string key_;
  std::string request_;
};

}  // namespace pfc
