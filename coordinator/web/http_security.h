// Who may see the coordinator's pages, and over what.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/access/caller.h"
#include "security/credential.h"

namespace pfc {

/// Who the sender of a request's header "Authorization" is (empty: none was sent); none where it
/// may not see pages. A token in the address is shown as "Bearer TOKEN". `peer`: its
/// address and port.
using HttpAdmission =
    std::function<std::optional<Caller>(std::string_view authorization, const std::string& peer)>;

/// Random session names, which browsers keep in place of tokens, for one server. Call it on the
/// event loop only.
class HttpSessions {
 public:
  /// Returns a new name for this value of the header "Authorization".
  std::string begin(const std::string& authorization);
  /// The value that belongs to the name; empty: this server did not give this name.
  [[nodiscard]] std::string authorization(const std::string& name) const;

 private:
  std::map<std::string, std::string> sessions_;
};

/// How the server protects its pages. Without `admits` every caller is an admin.
struct HttpSecurity {
  Credential server = {};     ///< what the server shows; none: it serves in plaintext
  HttpAdmission admits = {};  ///< asked for every page but /healthz; empty: everybody may see them
  /// For a server that listens on this machine's loopback interface alone, in plaintext. Only
  /// requests whose Host names that interface are answered, but for /healthz: a browser that was
  /// led here by another name ("DNS rebinding") sends that one. What monitoring reads needs no
  /// token.
  bool loopback_only = false;
  /// Is told what was refused for another reason than its credential: `code` for metrics.
  std::function<void(const Caller&, const std::string& what, const std::string& code,
                     const std::string& why)>
      refused = {};
};

}  // namespace pfc
