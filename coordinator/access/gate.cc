#include "coordinator/access/gate.h"

#include <grpc/grpc_security_constants.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "coordinator/access/roles.h"
#include "security/certificate.h"
#include "security/join_string.h"
#include "security/private_key.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

constexpr std::string_view kBearer = "Bearer ", kBasic = "Basic ";
constexpr std::size_t kLongestAuthority = 64 << 10;
constexpr std::size_t kLongestHeader = 512;
constexpr std::size_t kMostKeptFacts = 4'096;  // certificates of about 1 KiB

TokenStore::WallClock clock_or_system(const TokenStore::WallClock& clock) {
  if (clock) return clock;
  return [] { return static_cast<std::int64_t>(std::time(nullptr)); };
}

/// Locks the folder, so that only one of two starting coordinators creates the authority.
Authority open_authority(const std::filesystem::path& folder) {
  const FolderLock lock(folder);
  return Authority(folder);
}

/// The chain includes the authority's certificate, whose fingerprint agents verify.
Credential make_server_credential(const Authority& authority) {
  Credential credential = authority.make_credential({.role = Role::kServer});
  credential.certificate += authority.certificate();
  return credential;
}

/// Returns the password of base64 "USER:PASSWORD"; empty if malformed.
std::string password_of(std::string_view encoded) {
  std::vector<unsigned char> bytes(encoded.size());
  const int size =
      EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(encoded.data()),
                      static_cast<int>(encoded.size()));
  if (size < 0) return {};
  const auto padding = std::min<std::ptrdiff_t>(std::ranges::count(encoded, '='), size);
  const std::string text(bytes.begin(), bytes.begin() + size - padding);
  const std::size_t colon = text.find(':');
  return colon == std::string::npos ? "" : text.substr(colon + 1);
}

/// Returns the token of an "authorization" header; empty if there is none.
std::string token_of(std::string_view authorization) {
  if (authorization.size() > kLongestHeader) return {};
  if (authorization.starts_with(kBearer)) {
    return std::string(authorization.substr(kBearer.size()));
  }
  if (authorization.starts_with(kBasic)) return password_of(authorization.substr(kBasic.size()));
  return {};
}

}  // namespace

struct Gate::Counters {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& refusals =
      prometheus::BuildCounter()
          .Name("pfc_coordinator_refusals_total")
          .Help("Calls, pages and connections that were refused, by reason")
          .Register(registry);
  prometheus::Counter& left_out =
      prometheus::BuildCounter()
          .Name("pfc_coordinator_audit_lines_left_out_total")
          .Help("Lines that the audit log lacks because of too many refusals or a full disk")
          .Register(registry)
          .Add({});
};

Gate::Folder::Folder(std::filesystem::path state)
    : state_dir(std::move(state)), path(state_dir / "security") {
  make();
}

void Gate::Folder::make() const {
  // Called before any key is written. Other users may have access to state_dir, but must not own
  // it.
  make_own_folder(state_dir);
  make_private_folder(path);
}

Gate::Gate(const GateOptions& options)
    : folder_(options.state_dir),
      token_lifetime_(std::max(options.token_lifetime, std::chrono::seconds{1})),
      authority_(open_authority(folder_.path)),
      tokens_(folder_.path, clock_or_system(options.clock)),
      audit_(options.state_dir),
      server_(make_server_credential(authority_)),
      counters_(std::make_unique<Counters>()) {
  write_own_files();
}

Gate::~Gate() = default;

/// Writes new credentials, because old files may belong to an earlier authority or removed tokens.
void Gate::write_own_files() {
  const std::string reader = kept_or_new_token(folder_.path / "reader.token", Role::kReader);
  page_token_ = kept_or_new_token(folder_.path / "admin.token", Role::kAdmin);
  own_files_ = {{"authority.pem", authority_.text()},
                {"admin.pem", to_text(authority_.make_credential({.role = Role::kAdmin}))},
                {"reader.token", reader + "\n"},
                {"admin.token", page_token_ + "\n"}};
  for (const auto& [name, text] : own_files_) {
    if (name != "authority.pem") write_secret(folder_.path / name, text);
  }
}

void Gate::refresh_files() {
  const bool was_removed = !something_at(folder_.path);
  if (!was_removed) tokens_.refresh();  // throws if tokens.json cannot be written
  folder_.make();
  const std::filesystem::path authority = folder_.path / "authority.pem";
  if (something_at(authority) && read_secret(authority, kLongestAuthority) != authority_.text()) {
    return;  // a coordinator started later has made another authority
  }
  for (const auto& [name, text] : own_files_) {
    if (!something_at(folder_.path / name)) write_secret(folder_.path / name, text);
  }
  if (was_removed) tokens_.refresh();
}

std::string Gate::kept_or_new_token(const std::filesystem::path& path, Role role) {
  const std::string kept = something_at(path) ? read_secret(path, kLongestHeader) : "";
  const std::string token = kept.substr(0, kept.find('\n'));
  if (!token.empty()) {
    if (std::holds_alternative<Token>(tokens_.find_valid(token, {role}))) return token;
  }
  return tokens_.create({.role = role}).secret;
}

Credential Gate::credential_for_local_agent(const std::string& host) {
  Credential credential = authority_.make_credential({.role = Role::kAgent, .host = host});
  const std::lock_guard lock(local_mutex_);
  local_serials_[host] = facts_of(credential.certificate)->serial;
  return credential;
}

std::string Gate::serial_of_local_agent(const std::string& host) {
  const std::lock_guard lock(local_mutex_);
  const auto found = local_serials_.find(host);
  return found == local_serials_.end() ? "" : found->second;
}

void Gate::accept_local_agent(const std::string& host, const std::string& serial) {
  const std::lock_guard lock(local_mutex_);
  local_serials_[host] = serial;
}

bool Gate::starts_agent_of(const std::string& host) {
  const std::lock_guard lock(local_mutex_);
  return local_serials_.contains(host);
}

bool Gate::is_current(const std::string& host, const std::string& serial) {
  {
    const std::lock_guard lock(local_mutex_);
    const auto local = local_serials_.find(host);
    if (!serial.empty() && local != local_serials_.end() && local->second == serial) return true;
  }
  return tokens_.is_current(host, serial);
}

std::string Gate::make_join_string(const std::string& address,
                                   const std::vector<std::string>& hosts) {
  const Caller self{.peer = "coordinator", .identity = {.role = Role::kServer}};
  return create_token(self, {.hosts = hosts}, address).text;
}

std::optional<Denial> Gate::identify(const grpc::ServerContextBase& context, Caller& caller) {
  const auto auth = context.auth_context();
  const auto pems = auth->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!pems.empty()) {
    // gRPC has verified the authority's signature and that the caller has the private key.
    const auto facts = facts_of_caller({pems.front().data(), pems.front().size()});
    if (!facts) {
      return Denial{.code = "unknown_certificate", .message = "the certificate has no role"};
    }
    caller.identity = facts->identity;
    caller.serial = facts->serial;
    return outdated(caller);
  }
  const auto header = context.client_metadata().find("authorization");
  if (header == context.client_metadata().end()) return {};
  const auto shown = tokens_.find_valid(token_of({header->second.data(), header->second.size()}),
                                        {Role::kReader, Role::kSubmitter});
  if (const auto* denial = std::get_if<Denial>(&shown)) return *denial;
  caller.identity.role = std::get<Token>(shown).role;
  caller.serial = std::get<Token>(shown).id;
  return {};
}

std::optional<CertificateFacts> Gate::facts_of_caller(const std::string& pem) {
  {
    const std::lock_guard lock(facts_mutex_);
    const auto found = facts_.find(pem);
    if (found != facts_.end()) return found->second;
  }
  auto facts = facts_of(pem);
  const std::lock_guard lock(facts_mutex_);
  if (facts_.size() >= kMostKeptFacts) facts_.clear();
  if (facts) facts_.emplace(pem, *facts);
  return facts;
}

std::optional<Denial> Gate::outdated(const Caller& caller) {
  const Identity& identity = caller.identity;
  const bool of_agent = identity.role == Role::kAgent;
  if (!of_agent && identity.role != Role::kWorker) return {};
  if (is_current(identity.host, of_agent ? caller.serial : identity.agent)) return {};
  return Denial{.code = "revoked_certificate",
                .message = "the certificate of host " + identity.host +
                           " was revoked or replaced; create a new token for this host: pfcctl "
                           "token create --host " +
                           identity.host};
}

std::variant<Caller, Refusal> Gate::admit(const grpc::ServerContextBase& context,
                                          std::string_view request) {
  Caller caller{.peer = context.peer()};
  if (const auto denial = identify(context, caller)) {
    return refuse(caller, request, denial->code, denial->message);
  }
  if (may_call(caller.identity.role, request)) return caller;
  if (caller.identity.role == Role::kNobody) {
    return refuse(caller, request, "no_credential",
                  "this call needs a credential: an agent gets one with pfc-agent --join, and "
                  "pfcctl finds one on the coordinator's machine");
  }
  return refuse(caller, request, "wrong_role",
                "a credential of role " + std::string(name_of(caller.identity.role)) +
                    " does not allow this call; docs/security.md says which role does");
}

std::optional<Caller> Gate::admit_page(std::string_view authorization, const std::string& peer) {
  Caller caller{.peer = peer};
  if (authorization.empty()) {
    // A browser's first request has no credential.
    static_cast<void>(refuse(caller, "page", "no_credential", "no credential was sent"));
    return {};
  }
  const auto shown =
      tokens_.find_valid(token_of(authorization), {Role::kReader, Role::kSubmitter, Role::kAdmin});
  if (const auto* denial = std::get_if<Denial>(&shown)) {
    static_cast<void>(refuse(caller, "page", denial->code, denial->message));
    return {};
  }
  const Token& token = std::get<Token>(shown);
  caller.identity.role = token.role == Role::kAdmin ? Role::kAdmin : Role::kReader;
  caller.serial = token.id;
  return caller;
}

std::variant<TokenStore::Exchange, Refusal> Gate::exchange(const Caller& caller,
                                                           const std::string& token,
                                                           const std::string& host,
                                                           const std::string& certificate_request) {
  constexpr std::string_view kWhat = "exchange_token";
  Caller named = caller;
  named.identity.host = host;
  if (starts_agent_of(host)) {
    return refuse(named, kWhat, "own_host",
                  "host " + host + ": the coordinator starts its agent itself: no token is needed");
  }
  try {
    const KeyOwner key = key_of_request(certificate_request);
    auto result = tokens_.exchange(token, host, *key, authority_);
    if (const auto* denial = std::get_if<Denial>(&result)) {
      return refuse(named, kWhat, denial->code, denial->message);
    }
    const auto& exchange = std::get<TokenStore::Exchange>(result);
    named.serial = exchange.issued.serial;
    note(named, kWhat, "by token " + exchange.token_id);
    return exchange;
  } catch (const StorageError&) {
    throw;
  } catch (const InputError& error) {
    return refuse(named, kWhat, "bad_request", error.what());
  }
}

std::string Gate::worker_certificate(const Caller& agent, const std::string& job,
                                     const std::string& certificate_request) const {
  const KeyOwner key = key_of_request(certificate_request);
  return authority_
      .issue(
          *key,
          {.role = Role::kWorker, .host = agent.identity.host, .job = job, .agent = agent.serial})
      .certificate;
}

Gate::NewToken Gate::create_token(const Caller& caller, const TokenStore::Request& request,
                                  const std::string& address) {
  TokenStore::Request wanted = request;
  if (wanted.lifetime.count() <= 0 && wanted.role == Role::kAgent) {
    wanted.lifetime = token_lifetime_;
  }
  const TokenStore::NewToken made = tokens_.create(wanted);
  note(caller, "create_token", "token " + made.token.id);
  return {.id = made.token.id,
          .text = to_text(
              JoinString{.token = made.secret, .address = address, .fingerprint = fingerprint()})};
}

bool Gate::revoke_token(const Caller& caller, const std::string& id) {
  if (!tokens_.revoke(id)) return false;
  note(caller, "revoke_token", "token " + id);
  return true;
}

bool Gate::revoke_host(const Caller& caller, const std::string& host) {
  bool revoked = tokens_.revoke_host(host);
  {
    const std::lock_guard lock(local_mutex_);
    const auto local = local_serials_.find(host);
    if (local != local_serials_.end())
      revoked = !std::exchange(local->second, "").empty() || revoked;
  }
  if (!revoked) return false;
  note(caller, "revoke_certificate", "host " + host);
  return true;
}

Refusal Gate::refuse(const Caller& caller, std::string_view what, const std::string& code,
                     const std::string& message) {
  counters_->refusals.Add({{"reason", code}}).Increment();
  audit_.add({.what = std::string(what),
              .peer = caller.peer,
              .identity = caller.identity,
              .serial = caller.serial,
              .result = code,
              .detail = message,
              .refused = true});
  return {.kind = Refusal::Kind::kDenied, .message = one_line(message)};
}

void Gate::note(const Caller& caller, std::string_view what, const std::string& detail,
                const std::string& result) {
  audit_.add({.what = std::string(what),
              .peer = caller.peer,
              .identity = caller.identity,
              .serial = caller.serial,
              .result = result,
              .detail = detail});
}

std::string Gate::metrics_text() const {
  const double dropped = static_cast<double>(audit_.dropped());
  counters_->left_out.Increment(std::max(dropped - counters_->left_out.Value(), 0.0));
  return prometheus::TextSerializer().Serialize(counters_->registry.Collect());
}

}  // namespace pfc
