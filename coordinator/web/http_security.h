// Who may see the coordinator's pages, and over what.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/access/caller.h"
#include "security/credential.h"

namespace pfc {

/// Who the sender of a request's header "Authorization" is (empty: none was sent); none where it
/// may not see pages. `peer`: its address and port.
using HttpAdmission =
    std::function<std::optional<Caller>(std::string_view authorization, const std::string& peer)>;

/// How pages are protected. Without a key they are served in plaintext, and everybody is an admin.
struct HttpSecurity {
  Credential server = {};     ///< what the server shows
  HttpAdmission admits = {};  ///< asked for every page but /healthz; empty: everybody may see them
  /// Only requests whose Host names this machine's loopback interface are answered, but for
  /// /healthz: for a server that listens there alone, in plaintext. A browser that was led here by
  /// another name ("DNS rebinding") sends that one.
  bool loopback_names_only = false;
  /// Is told what was refused for another reason than its credential: `code` for metrics.
  std::function<void(const Caller&, const std::string& what, const std::string& code,
                     const std::string& why)>
      refused = {};
};

}  // namespace pfc
