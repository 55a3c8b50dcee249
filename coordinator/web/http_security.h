// Access control of the coordinator's pages.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/access/caller.h"
#include "security/credential.h"

namespace pfc {

/// Returns the caller with this "Authorization" header (empty if absent); nothing if it may not
/// see pages. A token in the URL is passed as "Bearer TOKEN". `peer`: address and port.
using HttpAdmission =
    std::function<std::optional<Caller>(std::string_view authorization, const std::string& peer)>;

/// Random session names, which browsers store instead of tokens, for one server. Used on the event
/// loop only.
class HttpSessions {
 public:
  /// Creates a session for this value of the "Authorization" header, and returns its name.
  std::string begin(const std::string& authorization);
  /// Returns the session's value; empty if there is no such session.
  [[nodiscard]] std::string authorization(const std::string& name) const;

 private:
  std::map<std::string, std::string> sessions_;
};

/// Protection of the server's pages. Without `admits` every caller is an admin.
struct HttpSecurity {
  Credential server = {};     ///< the server's credential; empty: plaintext
  HttpAdmission admits = {};  ///< called for every page but /healthz; empty: no check
  /// For a server that listens only on the loopback interface, in plaintext. Except for /healthz,
  /// it serves only requests whose Host names that interface, because a browser misled by "DNS
  /// rebinding" sends another name. Monitoring pages need no token.
  bool loopback_only = false;
  /// Called if a request is refused, but not for its credential. `code` is for metrics.
  std::function<void(const Caller&, const std::string& what, const std::string& code,
                     const std::string& why)>
      refused = {};
};

}  // namespace pfc
