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

/// Random names that browsers keep in the place of tokens, for one server. On the event loop only.
class HttpSessions {
 public:
  /// A new name for what stands in "Authorization".
  std::string begin(const std::string& authorization);
  /// What it stands for; empty: it is none of this server.
  [[nodiscard]] std::string authorization(const std::string& name) const;

 private:
  std::map<std::string, std::string> sessions_;
};

/// How pages are protected. Without `admits` everybody is an admin.
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
