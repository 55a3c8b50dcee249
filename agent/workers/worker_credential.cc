#include "agent/workers/worker_credential.h"

#include "security/private_key.h"

namespace pfc {

WorkerCredential::WorkerCredential(const Credential& agent) : authority_(agent.authority) {
  if (!agent.secure()) return;
  const KeyOwner key = make_key();
  key_ = to_pem(*key);
  request_ = make_request(*key);
}

std::string WorkerCredential::text(const std::string& certificate) const {
  if (authority_.empty()) return {};
  return to_text({.authority = authority_, .certificate = certificate, .key = key_});
}

}  // namespace pfc
