// The tokens of a coordinator's cluster, and which certificate each host has, kept in a file.
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

/// What is kept of a token: a hash, never the token itself.
struct Token {
  std::string id;    ///< the first digits of the hash
  std::string hash;  ///< SHA-256 of the token, lower-case hex
  /// kAgent: an agent exchanges it for its certificate. kReader and kSubmitter: sent with every
  /// call. kAdmin: sent with every request for a page.
  Role role = Role::kAgent;
  std::int64_t number = 0;         ///< in the order in which tokens and certificates were made
  std::int64_t created = 0;        ///< seconds since 1970
  std::int64_t expires = 0;        ///< likewise; 0: never
  std::vector<std::string> hosts;  ///< that may exchange it; empty: all of the host list
  bool revoked = false;
};

/// Why a token or a certificate is refused; `code` is short, for metrics and the audit log.
struct Denial {
  std::string code;  ///< "wrong_token", "expired_token", "revoked_token", ...
  std::string message;
};

/// FOLDER/tokens.json. All coordinators of a user share the file. Each change is made under
/// FolderLock to a copy of the current contents, and takes effect after the copy was written.
/// Thread-safe. Only changes, list() and refresh() use the file; the other functions answer from
/// memory and never wait for the disk.
class TokenStore {
 public:
  /// Seconds since 1970.
  using WallClock = std::function<std::int64_t()>;

  /// REQUIRES: make_private_folder(folder) was called. Throws InputError that names the file where
  /// it makes no sense. All functions throw StorageError where the file cannot be written.
  explicit TokenStore(std::filesystem::path folder, WallClock clock);

  /// Reads the file if another coordinator has changed it, and writes it again if it was removed.
  /// If the file is damaged, its last good contents stay in force, and the problem is logged at
  /// most once a minute: a damaged file must neither stop the coordinator nor admit anyone.
  void refresh();

  struct NewToken {
    std::string secret;  ///< told once
    Token token;
  };
  struct Request {
    Role role = Role::kAgent;
    std::vector<std::string> hosts = {};
    std::chrono::seconds lifetime{0};  ///< 0: for ever
  };
  /// Throws InputError where there are kMostTokens already.
  NewToken create(const Request& request);
  [[nodiscard]] std::vector<Token> list();
  /// The hashes of the tokens that agents may exchange now, the newest first.
  [[nodiscard]] std::vector<std::string> valid_join_hashes();
  /// The token with this id is refused from now on; false: there is none.
  bool revoke(const std::string& id);
  /// The host's certificate is refused from now on, and so are all tokens made so far; false: it
  /// has none.
  bool revoke_host(const std::string& host);

  /// The holder of `secret` asks for a certificate for `host` and this key. One host may exchange a
  /// token once, for one key; the same key again gets a certificate again, so that a lost answer
  /// does no harm. A token that names the host and was made after its certificate replaces that
  /// one.
  struct Exchange {
    Authority::Issued issued;
    std::string token_id;
  };
  std::variant<Exchange, Denial> exchange(const std::string& secret, const std::string& host,
                                          EVP_PKEY& key, const Authority& authority);
  /// Whether the serial number is of the host's certificate, and not of an earlier or revoked one.
  [[nodiscard]] bool is_current(const std::string& host, const std::string& serial);
  using Roles = std::initializer_list<Role>;
  /// Returns the valid token with this secret and one of these roles; or why it is refused.
  [[nodiscard]] std::variant<Token, Denial> find_valid(const std::string& secret, Roles roles);

  static constexpr std::size_t kMostTokens = 1'000;

  /// Tells one version of the file from another.
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

  /// What one version of the file has.
  struct Contents {
    std::vector<Token> tokens;
    std::map<std::string, HostCertificate> hosts;
    std::int64_t number = 0;  ///< of the newest token or certificate
    FileMark mark;
  };
  using Snapshot = std::shared_ptr<const Contents>;  // shared by those who read it

  [[nodiscard]] Contents load() const;
  /// Returns the file's contents, and reads it again only if it has changed. Throws InputError if
  /// it is damaged.
  [[nodiscard]] Snapshot newest();
  /// Returns the contents that were read or written last.
  [[nodiscard]] Snapshot in_force();
  /// Writes the file, and then lets everybody see what it has.
  void save(Contents contents);
  /// Calls `change` on a copy of what the file has now, and writes it.
  template <typename Change>
  auto changed(Change change);
  [[nodiscard]] static const Token* find(const Contents& contents, const std::string& secret,
                                         Roles roles);
  /// Why the token cannot be used at all; none: it can.
  [[nodiscard]] std::optional<Denial> denial_of(const Token* token) const;
  /// Why the host may not exchange this token for a first certificate, or another one.
  [[nodiscard]] std::optional<Denial> denial_of(const Token* token, const std::string& host,
                                                const HostCertificate& has) const;
  void drop_old_tokens(Contents& contents) const;

  const std::filesystem::path folder_;
  const std::filesystem::path path_;
  const WallClock clock_;
  std::mutex writing_;  ///< held while the file is written; taken before mutex_
  std::mutex mutex_;    ///< held for moments only
  // Guarded by mutex_.
  Snapshot snapshot_;
  struct Damage {
    FileMark mark;
    std::string problem;
    std::chrono::steady_clock::time_point at;
  };
  std::optional<Damage> damage_;  ///< of the newest file
  std::optional<std::chrono::steady_clock::time_point> told_;
};

}  // namespace pfc
