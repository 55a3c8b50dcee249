// Who may see the coordinator's pages, and over what.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "security/credential.h"

namespace pfc {

/// Whether the sender of a request's header "Authorization" (empty: none was sent) may see pages.
/// `peer`: its address and port.
using HttpAdmission = std::function<bool(std::string_view authorization, const std::string& peer)>;

/// How pages are protected. Without a key they are served in plaintext, to everybody.
struct HttpSecurity {
  Credential server = {};     ///< what the server shows
  HttpAdmission admits = {};  ///< asked for every page but /healthz
  /// Is told the address and port of a connection whose TLS handshake has failed, and why.
  std::function<void(const std::string& peer, const std::string& why)> failed = {};
};

}  // namespace pfc
