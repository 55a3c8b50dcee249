#include "security/token_store.h"

#include <openssl/rand.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "security/join_string.h"
#include "security/private_key.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

using FileMark = TokenStore::FileMark;

constexpr std::size_t kLongestTokenFile = std::size_t{64} << 20;
constexpr std::int64_t kKeptAfterExpiry = 7 * 86'400;  // seconds; refusals then say "expired"
constexpr std::size_t kIdDigits = 12;
constexpr std::chrono::minutes kTellAgain{1};
constexpr std::chrono::seconds kLoadAgain{1};  // pause before a damaged file is read again

std::chrono::steady_clock::time_point steady_now() { return std::chrono::steady_clock::now(); }

std::string draw_secret() {
  std::array<unsigned char, kTokenDigits / 2> bytes{};
  expect_openssl(RAND_bytes(bytes.data(), bytes.size()) == 1, "drawing a token");
  std::string text;
  for (const unsigned char byte : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", byte);
    text += digits.data();
  }
  return text;
}

/// Identifies a version of a file.
FileMark mark_of(const std::filesystem::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return {.inode = info.st_ino,
          .bytes = static_cast<std::uint64_t>(info.st_size),
          .seconds = info.st_mtim.tv_sec,
          .nanoseconds = info.st_mtim.tv_nsec};
}

std::string hash_of_secret(const std::string& secret) {
  return sha256_hex(std::as_bytes(std::span(secret)));
}

nlohmann::json to_json(const Token& token) {
  return {{"id", token.id},
          {"sha256", token.hash},
          {"read", token.role != Role::kAgent},  // read by older versions
          {"role", name_of(token.role)},
          {"number", token.number},
          {"created", token.created},
          {"expires", token.expires},
          {"hosts", token.hosts},
          {"revoked", token.revoked}};
}

/// Older versions wrote no "role". The coordinator replaces an admin token that is read this way.
Role role_from(const nlohmann::json& json) {
  if (json.contains("role")) return role_named(json["role"].get<std::string>());
  return json.at("read").get<bool>() ? Role::kReader : Role::kAgent;
}

Token token_from(const nlohmann::json& json) {
  return {.id = json.at("id"),
          .hash = json.at("sha256"),
          .role = role_from(json),
          .number = json.at("number"),
          .created = json.at("created"),
          .expires = json.at("expires"),
          .hosts = json.at("hosts"),
          .revoked = json.at("revoked")};
}

}  // namespace

TokenStore::TokenStore(std::filesystem::path folder, WallClock clock)
    : folder_(std::move(folder)),
      path_(folder_ / "tokens.json"),
      clock_(std::move(clock)),
      snapshot_(std::make_shared<const Contents>(load())) {}

TokenStore::Contents TokenStore::load() const {
  if (!something_at(path_)) return {};
  Contents contents{.mark = mark_of(path_)};  // before reading, so that a later change is noticed
  const std::string text = read_secret(path_, kLongestTokenFile);
  try {
    const auto json =
        parse_strict_json(text, path_.string(), {.bytes = kLongestTokenFile, .depth = 8});
    for (const auto& each : json.at("tokens")) contents.tokens.push_back(token_from(each));
    for (const auto& [host, each] : json.at("hosts").items()) {
      contents.hosts[host] = {
          .serial = each.at("serial"), .key = each.at("key"), .number = each.at("number")};
    }
    contents.number = json.at("number");
  } catch (const nlohmann::json::exception& error) {
    throw InputError(path_.string() + ": not a token file (" + error.what() +
                     "); remove it, and create new tokens");
  }
  return contents;
}

TokenStore::Snapshot TokenStore::newest() {
  const FileMark mark = mark_of(path_);
  {
    const std::lock_guard lock(mutex_);
    // A removed file does not count as a change: refresh() writes the contents again.
    if (mark == snapshot_->mark || mark == FileMark()) return snapshot_;
    const bool is_as_before = damage_ && damage_->mark == mark;
    if (is_as_before && steady_now() - damage_->at < kLoadAgain) throw InputError(damage_->problem);
  }
  try {
    auto loaded = std::make_shared<const Contents>(load());
    const std::lock_guard lock(mutex_);
    snapshot_ = loaded;
    damage_.reset();
    return loaded;
  } catch (const InputError& error) {
    const std::lock_guard lock(mutex_);
    damage_ = Damage{.mark = mark, .problem = error.what(), .at = steady_now()};
    throw;
  }
}

TokenStore::Snapshot TokenStore::in_force() {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

void TokenStore::save(Contents contents) {
  nlohmann::json tokens = nlohmann::json::array(), hosts = nlohmann::json::object();
  for (const Token& token : contents.tokens) tokens.push_back(to_json(token));
  for (const auto& [host, has] : contents.hosts) {
    hosts[host] = {{"serial", has.serial}, {"key", has.key}, {"number", has.number}};
  }
  write_secret(
      path_, nlohmann::json{{"number", contents.number}, {"tokens", tokens}, {"hosts", hosts}}.dump(
                 1, ' ', false, nlohmann::json::error_handler_t::replace));
  contents.mark = mark_of(path_);
  auto written = std::make_shared<const Contents>(std::move(contents));
  const std::lock_guard lock(mutex_);
  snapshot_ = std::move(written);
}

template <typename Change>
auto TokenStore::changed(Change change) {
  const std::lock_guard writer(writing_);
  const FolderLock lock(folder_);
  Contents contents = *newest();
  auto result = change(contents);
  save(std::move(contents));
  return result;
}

void TokenStore::refresh() {
  try {
    const bool is_written = newest()->mark != FileMark();
    const bool was_removed = is_written && mark_of(path_) == FileMark();
    if (was_removed) changed([](Contents&) { return true; });
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    const auto now = steady_now();
    if (!told_ || now - *told_ >= kTellAgain) {
      spdlog::error(
          "{}; until this is fixed, the last valid tokens are accepted, and no token can be "
          "created or revoked",
          error.what());
      told_ = now;
    }
  }
}

void TokenStore::drop_old_tokens(Contents& contents) const {
  const auto drop = [&contents, now = clock_()](std::int64_t kept) {
    std::erase_if(contents.tokens, [&](const Token& token) {
      return token.expires != 0 && token.expires + kept < now;
    });
  };
  drop(kKeptAfterExpiry);
  if (contents.tokens.size() >= kMostTokens) drop(0);  // renewing a join file creates many tokens
}

TokenStore::NewToken TokenStore::create(const Request& request) {
  return changed([&](Contents& contents) {
    drop_old_tokens(contents);
    std::vector<Token>& tokens = contents.tokens;
    if (tokens.size() >= kMostTokens) {
      throw InputError("found " + std::to_string(tokens.size()) +
                       " tokens, which is the limit; wait until some of them have expired");
    }
    const std::string secret = draw_secret();
    const std::int64_t now = clock_();
    const std::string hash = hash_of_secret(secret);
    tokens.push_back({.id = hash.substr(0, kIdDigits),
                      .hash = hash,
                      .role = request.role,
                      .number = ++contents.number,
                      .created = now,
                      .expires = request.lifetime.count() == 0 ? 0 : now + request.lifetime.count(),
                      .hosts = request.hosts});
    return NewToken{.secret = secret, .token = tokens.back()};
  });
}

std::vector<Token> TokenStore::list() {
  refresh();
  return in_force()->tokens;
}

std::vector<std::string> TokenStore::valid_join_hashes() {
  const Snapshot contents = in_force();
  std::vector<std::string> hashes;
  for (auto token = contents->tokens.rbegin(); token != contents->tokens.rend(); ++token) {
    if (token->role == Role::kAgent && !denial_of(&*token)) hashes.push_back(token->hash);
  }
  return hashes;
}

bool TokenStore::revoke(const std::string& id) {
  return changed([&](Contents& contents) {
    const auto token = std::ranges::find(contents.tokens, id, &Token::id);
    if (token == contents.tokens.end()) return false;
    token->revoked = true;
    return true;
  });
}

bool TokenStore::revoke_host(const std::string& host) {
  return changed([&](Contents& contents) {
    const auto found = contents.hosts.find(host);
    if (found == contents.hosts.end()) return false;
    found->second = {.serial = {}, .key = {}, .number = ++contents.number};
    return true;
  });
}

const Token* TokenStore::find(const Contents& contents, const std::string& secret, Roles roles) {
  // Comparing hashes leaks nothing about the token through timing.
  const std::string hash = hash_of_secret(secret);
  const auto found = std::ranges::find_if(contents.tokens, [&](const Token& each) {
    return each.hash == hash && std::ranges::find(roles, each.role) != roles.end();
  });
  return found == contents.tokens.end() ? nullptr : &*found;
}

std::optional<Denial> TokenStore::denial_of(const Token* token) const {
  if (token == nullptr) {
    return Denial{.code = "wrong_token",
                  .message = "the token does not belong to this coordinator"};
  }
  if (token->revoked) {
    return Denial{.code = "revoked_token", .message = "token " + token->id + " was revoked"};
  }
  if (token->expires != 0 && token->expires <= clock_()) {
    return Denial{.code = "expired_token",
                  .message = "token " + token->id +
                             " has expired; create a new one with pfcctl token create"};
  }
  return {};
}

std::optional<Denial> TokenStore::denial_of(const Token* token, const std::string& host,
                                            const HostCertificate& has) const {
  if (auto denial = denial_of(token)) return denial;
  if (!token->hosts.empty() && std::ranges::find(token->hosts, host) == token->hosts.end()) {
    return Denial{.code = "wrong_host",
                  .message = "token " + token->id + " is not for host " + host};
  }
  if (token->number < has.number) {
    return Denial{.code = "replayed_token",
                  .message = "host " + host + " has already used token " + token->id +
                             ", or a later one, with another key; if that agent's --state-dir is "
                             "lost, create a new token: pfcctl token create --host " +
                             host};
  }
  if (token->hosts.empty() && !has.serial.empty()) {
    return Denial{
        .code = "host_has_certificate",
        .message = "host " + host + " already has a certificate, and token " + token->id +
                   ", which is for all hosts, cannot replace it; if that agent's --state-dir is "
                   "lost, create a token for this host: pfcctl token create --host " +
                   host};
  }
  return {};
}

std::variant<TokenStore::Exchange, Denial> TokenStore::exchange(const std::string& secret,
                                                                const std::string& host,
                                                                EVP_PKEY& key,
                                                                const Authority& authority) {
  const std::lock_guard writer(writing_);
  const FolderLock lock(folder_);
  const Snapshot now = newest();
  const std::string key_hash = hash_of(key);
  const auto known = now->hosts.find(host);
  const HostCertificate has = known == now->hosts.end() ? HostCertificate{} : known->second;
  const Token* const token = find(*now, secret, {Role::kAgent});
  const bool is_the_same = !has.serial.empty() && has.key == key_hash;
  if (!is_the_same) {
    if (auto denial = denial_of(token, host, has)) return *std::move(denial);
  }
  const std::string serial = is_the_same ? has.serial : "";
  const auto issued = authority.issue(key, {.role = Role::kAgent, .host = host}, serial);
  if (!is_the_same) {
    Contents contents = *now;
    contents.hosts[host] = {.serial = issued.serial, .key = key_hash, .number = ++contents.number};
    save(std::move(contents));
  }
  return Exchange{.issued = issued, .token_id = token == nullptr ? "" : token->id};
}

bool TokenStore::is_current(const std::string& host, const std::string& serial) {
  const Snapshot contents = in_force();
  const auto found = contents->hosts.find(host);
  return !serial.empty() && found != contents->hosts.end() && found->second.serial == serial;
}

std::variant<Token, Denial> TokenStore::find_valid(const std::string& secret, Roles roles) {
  const Snapshot contents = in_force();
  const Token* const token = find(*contents, secret, roles);
  if (auto denial = denial_of(token)) return *std::move(denial);
  return *token;
}

}  // namespace pfc
