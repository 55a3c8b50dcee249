// The credential that an agent gives to its workers.
#pragma once

#include <string>

#include "security/credential.h"
#include "security/openssl.h"

namespace pfc {

/// Has its own key, which all workers of this agent share and which never leaves the host. The
/// coordinator signs it again for each job.
class WorkerCredential {
 public:
  /// `agent` is the agent's own credential. In plaintext this object is empty.
  explicit WorkerCredential(const Credential& agent);

  /// Returns the certificate request in PEM; empty in plaintext.
  [[nodiscard]] const std::string& request() const { return request_; }
  /// Returns the text that a worker reads from stdin (read_credential()); empty in plaintext.
  [[nodiscard]] std::string text(const std::string& certificate) const;

 private:
  std::string authority_;
  std::string key_;
  std::string request_;
};

}  // namespace pfc
