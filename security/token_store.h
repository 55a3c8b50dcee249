// Stores the tokens of a cluster, and the current certificate of each host, in a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "security/authority.h"

namespace pfc {

/// Record of a token. It holds a hash, never the token itself.
struct Token {
  std::string id;    ///< the first digits of the hash
  std::string hash;  ///< SHA-256 of the token, lower-case hex
  /// kAgent: exchanged once for the agent's certificate. kReader, kSubmitter: sent with every
  /// call. kAdmin: sent with every request for a page.
  Role role = Role::kAgent;
  std::int64_t number = 0;         ///< sequence number, shared by tokens and certificates
  std::int64_t created = 0;        ///< seconds since 1970
  std::int64_t expires = 0;        ///< seconds since 1970; 0: never
  std::vector<std::string> hosts;  ///< hosts that may exchange it; empty: all hosts of --hosts
  bool revoked = false;
};

/// Why a token or a certificate is refused. `code` is used in metrics and the audit log.
struct Denial {
  std::string code;  ///< "wrong_token", "expired_token", "revoked_token", ...
  std::string message;
};

/// Stores FOLDER/tokens.json, which all coordinators of one user share. A change is made to a copy
/// of the contents under FolderLock, and takes effect once the copy is written. Thread-safe. Only
/// changes, list() and refresh() access the file. The other functions answer from memory and never
/// wait for the disk.
class TokenStore {
 public:
  /// Seconds since 1970.
  using WallClock = std::function<std::int64_t()>;

  /// REQUIRES: make_private_folder(folder) was called. Throws InputError that names the file if
  /// its contents are invalid. Functions that write throw StorageError if they cannot.
  explicit TokenStore(std::filesystem::path folder, WallClock clock);

  /// Reads the file if another coordinator has changed it, and writes it again if it was removed.
  /// If the file is damaged, its last valid contents stay in force: damage must neither stop the
  /// coordinator nor admit anyone. The problem is logged at most once a minute.
  void refresh();

  struct NewToken {
    std::string secret;  ///< not stored; returned only here
    Token token;
  };
  struct Request {
    Role role = Role::kAgent;
    std::vector<std::string> hosts = {};
    std::chrono::seconds lifetime{0};  ///< 0: never expires
  };
  /// Throws InputError if kMostTokens are still valid.
  NewToken create(const Request& request);
  [[nodiscard]] std::vector<Token> list();
  /// Returns the hashes of the tokens that agents may exchange now, newest first.
  [[nodiscard]] std::vector<std::string> valid_join_hashes();
  /// Revokes the token with this id. Returns false if there is none.
  bool revoke(const std::string& id);
  /// Revokes the host's certificate and, for this host, all tokens made so far. Returns false if
  /// the host has no certificate.
  bool revoke_host(const std::string& host);

  /// Result of exchanging a token for an agent's certificate.
  /// A host can exchange a token once, for one key. Repeating the exchange with the same key
  /// succeeds, so a lost reply does no harm. A token that names the host and is newer than the
  /// host's certificate replaces that certificate.
  struct Exchange {
    Authority::Issued issued;
    std::string token_id;
  };
  std::variant<Exchange, Denial> exchange(const std::string& secret, const std::string& host,
                                          EVP_PKEY& key, const Authority& authority);
  /// Returns whether this is the serial number of the host's current certificate.
  [[nodiscard]] bool is_current(const std::string& host, const std::string& serial);
  using Roles = std::initializer_list<Role>;
  /// Returns the valid token with this secret and one of these roles, or the reason for refusal.
  [[nodiscard]] std::variant<Token, Denial> find_valid(const std::string& secret, Roles roles);

  static constexpr std::size_t kMostTokens = 1'000;

  /// Identifies a version of the file.
  struct FileMark {
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    friend bool operator==(const FileMark&, const FileMark&) = default;
  };

 private:
  struct HostCertificate {
    std::string serial;  ///< empty: revoked
    std::string key;     ///< hash of the public key; empty: revoked
    std::int64_t number = 0;
  };

  /// Contents of one version of the file.
  struct Contents {
    std::vector<Token> tokens;
    std::map<std::string, HostCertificate> hosts;
    std::int64_t number = 0;  ///< highest number given to a token or certificate
    FileMark mark;
  };
  using Snapshot = std::shared_ptr<const Contents>;  // shared by concurrent readers

  [[nodiscard]] Contents load() const;
  /// Returns the file's contents, reading it only if it has changed. Throws InputError if it is
  /// damaged.
  [[nodiscard]] Snapshot newest();
  /// Returns the contents last read or written.
  [[nodiscard]] Snapshot in_force();
  /// Writes the file, then publishes the new contents to readers.
  void save(Contents contents);
  /// Calls `change` on a copy of the file's current contents, and writes the result.
  template <typename Change>
  auto changed(Change change);
  [[nodiscard]] static const Token* find(const Contents& contents, const std::string& secret,
                                         Roles roles);
  /// Returns why the token cannot be used at all; nothing if it can.
  [[nodiscard]] std::optional<Denial> denial_of(const Token* token) const;
  /// Returns why the host may not exchange this token for a first or another certificate.
  [[nodiscard]] std::optional<Denial> denial_of(const Token* token, const std::string& host,
                                                const HostCertificate& has) const;
  void drop_old_tokens(Contents& contents) const;

  const std::filesystem::path folder_;
  const std::filesystem::path path_;
  const WallClock clock_;
  std::mutex writing_;  ///< held while the file is written; taken before mutex_
  std::mutex mutex_;    ///< never held during file access
  // Guarded by mutex_.
  Snapshot snapshot_;
  struct Damage {
    FileMark mark;
    std::string problem;
    std::chrono::steady_clock::time_point at;
  };
  std::optional<Damage> damage_;  ///< set while the newest file is damaged
  std::optional<std::chrono::steady_clock::time_point> told_;
};

}  // namespace pfc
