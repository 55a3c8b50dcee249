// Access control: credentials, tokens, roles, the audit log and the count of refusals.
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
#include "coordinator/rules/refusal.h"
#include "security/audit_log.h"
#include "security/authority.h"
#include "security/certificate.h"
#include "security/token_store.h"

namespace pfc {

struct GateOptions {
  std::filesystem::path state_dir;
  std::chrono::seconds token_lifetime{3'600};  ///< default for tokens of agents; at least 1 s
  TokenStore::WallClock clock = {};            ///< empty: the system clock
};

/// Access control of a coordinator that serves over TLS. Thread-safe.
class Gate {
 public:
  /// Stores keys and tokens in STATE_DIR/security: an admin's credential in admin.pem, and tokens
  /// for pages in reader.token and admin.token. Stores the audit log in STATE_DIR/audit.jsonl.
  /// Throws InputError or StorageError that names the file.
  explicit Gate(const GateOptions& options);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Reads changes by other coordinators from the folder, and recreates removed files. Without the
  /// files pfcctl has no credential, and the next coordinator cannot take over. Called every
  /// second; blocks. Throws as the constructor does.
  void refresh_files();

  /// The coordinator's credential. `certificate` is its own, followed by the authority's.
  [[nodiscard]] const Credential& server() const { return server_; }
  [[nodiscard]] const std::string& fingerprint() const { return authority_.fingerprint(); }
  /// The admin's token for pages.
  [[nodiscard]] const std::string& page_token() const { return page_token_; }
  /// Makes a credential for the agent that the coordinator starts on `host`. Only this coordinator
  /// accepts it. It does not replace the certificate that the host got with a token.
  [[nodiscard]] Credential credential_for_local_agent(const std::string& host);
  /// Returns the serial number of that credential; empty if there is none.
  [[nodiscard]] std::string serial_of_local_agent(const std::string& host);
  /// Accepts a credential from an earlier coordinator whose agent was taken over.
  void accept_local_agent(const std::string& host, const std::string& serial);
  /// Makes a token for the agents of these hosts; if `hosts` is empty, of all the job's hosts.
  /// Returns TOKEN@ADDRESS#FINGERPRINT.
  [[nodiscard]] std::string make_join_string(const std::string& address,
                                             const std::vector<std::string>& hosts = {});

  /// Identifies a caller by certificate or token. Refuses if neither is valid, or the role does
  /// not allow this request (roles.h). Refusals are counted and audited.
  std::variant<Caller, Refusal> admit(const grpc::ServerContextBase& context,
                                      std::string_view request);
  /// Returns why the caller's certificate is no longer valid; nothing if it is still valid.
  std::optional<Denial> outdated(const Caller& caller);
  /// Like admit(), for a page. `authorization` is the HTTP header, with a token as "Bearer TOKEN"
  /// or as the password of "Basic". The token is a reader's, a submitter's (treated as a reader)
  /// or an admin's. Returns nothing if the request is refused.
  std::optional<Caller> admit_page(std::string_view authorization, const std::string& peer);

  /// Exchanges a token for an agent's certificate. Refused for a host whose agent the coordinator
  /// starts itself. Blocks during file access.
  std::variant<TokenStore::Exchange, Refusal> exchange(const Caller& caller,
                                                       const std::string& token,
                                                       const std::string& host,
                                                       const std::string& certificate_request);
  /// Issues a certificate for an agent's workers, for one job.
  [[nodiscard]] std::string worker_certificate(const Caller& agent, const std::string& job,
                                               const std::string& certificate_request) const;
  struct NewToken {
    std::string id;
    std::string text;  ///< TOKEN@ADDRESS#FINGERPRINT
  };
  /// The functions that change tokens block during file access.
  NewToken create_token(const Caller& caller, const TokenStore::Request& request,
                        const std::string& address);
  [[nodiscard]] std::vector<Token> tokens() { return tokens_.list(); }
  /// Returns the hashes of the tokens that agents may exchange now, newest first.
  [[nodiscard]] std::vector<std::string> join_token_hashes() { return tokens_.valid_join_hashes(); }
  bool revoke_token(const Caller& caller, const std::string& id);
  bool revoke_host(const Caller& caller, const std::string& host);

  /// Counts a refusal by `code`, and writes it to the audit log.
  Refusal refuse(const Caller& caller, std::string_view what, const std::string& code,
                 const std::string& message);
  /// Writes an entry to the audit log. `result` is "ok" or "not_done".
  void note(const Caller& caller, std::string_view what, const std::string& detail,
            const std::string& result = "ok");

  /// Returns access control's metrics in Prometheus format.
  [[nodiscard]] std::string metrics_text() const;

 private:
  struct Counters;
  struct Folder {
    explicit Folder(std::filesystem::path state_dir);
    void make() const;
    std::filesystem::path state_dir, path;
  };

  /// Sets the caller's identity from its certificate or token, even if the result is a refusal.
  std::optional<Denial> identify(const grpc::ServerContextBase& context, Caller& caller);
  /// Returns a certificate's fields. Cached, because a connection always sends the same one.
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
  /// Serial numbers of the agents that the coordinator started, by host; empty: revoked. Guarded
  /// by local_mutex_. Not in tokens.json, because other coordinators of this user write it too.
  std::unordered_map<std::string, std::string> local_serials_;
};

}  // namespace pfc
