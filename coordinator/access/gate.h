// Who is at the other side of a connection, and what it may do: credentials, tokens, roles, the
// audit log, and the count of refusals.
#pragma once

#include <grpcpp/server_context.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "coordinator/access/caller.h"
#include "coordinator/refusal.h"
#include "security/audit_log.h"
#include "security/authority.h"
#include "security/certificate.h"
#include "security/token_store.h"

namespace pfc {

struct GateOptions {
  std::filesystem::path state_dir;
  std::chrono::seconds token_lifetime{3'600};  ///< of a token for agents, unless one is asked for;
                                               ///< at least 1 s
  TokenStore::WallClock clock = {};            ///< empty: the system's
};

/// One for a coordinator that serves over TLS. Thread-safe.
class Gate {
 public:
  /// Keeps keys and tokens in STATE_DIR/security, the audit log in STATE_DIR/audit.jsonl, an
  /// admin's credential in STATE_DIR/security/admin.pem, and tokens for pages, of a reader and of
  /// an admin, in reader.token and admin.token beside it. Throws InputError or StorageError that
  /// names the file.
  explicit Gate(const GateOptions& options);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Reads changes by other coordinators from the folder, and recreates the folder and its files if
  /// they were removed. Without these files pfcctl has no credential, and the next coordinator
  /// cannot take over. Called every second; blocks. Throws as the constructor does.
  void refresh_files();

  /// What the coordinator shows; `certificate` has the authority's behind its own.
  [[nodiscard]] const Credential& server() const { return server_; }
  [[nodiscard]] const std::string& fingerprint() const { return authority_.fingerprint(); }
  /// The admin's token for the page.
  [[nodiscard]] const std::string& page_token() const { return page_token_; }
  /// A credential for the agent that the coordinator starts itself on `host`. It is valid for this
  /// coordinator alone, as long as it runs, beside the certificate that the host has by a token.
  [[nodiscard]] Credential credential_for_local_agent(const std::string& host);
  /// The serial number of that credential; empty: there is none.
  [[nodiscard]] std::string serial_of_local_agent(const std::string& host);
  /// An earlier coordinator has made it, and its agent was taken over.
  void accept_local_agent(const std::string& host, const std::string& serial);
  /// A new token that these hosts may exchange, without any all of the list:
  /// TOKEN@ADDRESS#FINGERPRINT.
  [[nodiscard]] std::string make_join_string(const std::string& address,
                                             const std::vector<std::string>& hosts = {});

  /// Who calls, by certificate or token. Refused where neither is valid any more, or its role may
  /// not make the call with this request (roles.h); that is counted and audited.
  std::variant<Caller, Refusal> admit(const grpc::ServerContextBase& context,
                                      std::string_view request);
  /// Why the caller's certificate is not valid any more; none: it is.
  std::optional<Denial> outdated(const Caller& caller);
  /// Like admit(), for a page. `authorization` is the HTTP header, with a token as "Bearer TOKEN"
  /// or as the password of "Basic". The token belongs to a reader, a submitter (treated as a
  /// reader) or an admin. Returns nothing if the request is refused.
  std::optional<Caller> admit_page(std::string_view authorization, const std::string& peer);

  /// The certificate of an agent, for a token. Refused for a host whose agent the coordinator
  /// starts itself. Blocks while it writes a file.
  std::variant<TokenStore::Exchange, Refusal> exchange(const Caller& caller,
                                                       const std::string& token,
                                                       const std::string& host,
                                                       const std::string& certificate_request);
  /// A certificate for the workers of an agent, for one job.
  [[nodiscard]] std::string worker_certificate(const Caller& agent, const std::string& job,
                                               const std::string& certificate_request) const;
  struct NewToken {
    std::string id;
    std::string text;  ///< TOKEN@ADDRESS#FINGERPRINT
  };
  /// The following block while they write a file.
  NewToken create_token(const Caller& caller, const TokenStore::Request& request,
                        const std::string& address);
  [[nodiscard]] std::vector<Token> tokens() { return tokens_.list(); }
  /// Hashes of the tokens that agents may exchange now, the newest first.
  [[nodiscard]] std::vector<std::string> join_token_hashes() { return tokens_.valid_join_hashes(); }
  bool revoke_token(const Caller& caller, const std::string& id);
  bool revoke_host(const Caller& caller, const std::string& host);

  /// Refuses, counts by `code`, and writes into the audit log.
  Refusal refuse(const Caller& caller, std::string_view what, const std::string& code,
                 const std::string& message);
  /// Writes an entry to the audit log. `result` is "ok" or "not_done" (noted.h).
  void note(const Caller& caller, std::string_view what, const std::string& detail,
            const std::string& result = "ok");

  /// What Prometheus gets besides the job's metrics.
  [[nodiscard]] std::string metrics_text() const;

 private:
  struct Counters;
  struct Folder {
    explicit Folder(std::filesystem::path state_dir);
    void make() const;
    std::filesystem::path state_dir, path;
  };

  /// Fills in who the certificate or the token of the call says it is, also where that is refused.
  std::optional<Denial> identify(const grpc::ServerContextBase& context, Caller& caller);
  /// What the certificate says. Kept, because every call of a connection shows the same one.
  std::optional<CertificateFacts> facts_of_caller(const std::string& pem);
  [[nodiscard]] bool starts_agent_of(const std::string& host);
  [[nodiscard]] bool is_current(const std::string& host, const std::string& serial);
  void write_own_files();
  std::string kept_or_new_token(const std::filesystem::path& path, Role role);

  const Folder folder_;
  const std::chrono::seconds token_lifetime_;
  const Authority authority_;
  TokenStore tokens_;
  AuditLog audit_;
  const Credential server_;
  std::string page_token_;                        ///< set by the constructor
  std::map<std::string, std::string> own_files_;  ///< contents by name; set by the constructor
  const std::unique_ptr<Counters> counters_;
  std::mutex facts_mutex_;
  std::unordered_map<std::string, CertificateFacts> facts_;  ///< guarded by facts_mutex_; by PEM
  std::mutex local_mutex_;
  /// Of the agents that the coordinator has started itself, by host; empty: revoked. Guarded by
  /// local_mutex_. Not in the file, which other coordinators of this user write too.
  std::unordered_map<std::string, std::string> local_serials_;
};

}  // namespace pfc
