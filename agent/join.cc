#include "agent/join.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <span>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "security/first_contact.h"
#include "security/private_key.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kJoinAttemptTimeout{5'000};
constexpr milliseconds kPause{500};
constexpr std::size_t kLongestKey = 8 << 10;
constexpr std::size_t kNameDigits = 16;

/// Returns this host's key for this authority, and creates it if needed.
KeyOwner kept_key(const std::filesystem::path& folder, const std::string& fingerprint,
                  const std::string& host) {
  make_private_folder(folder);
  const std::string name = fingerprint + " " + host;
  const auto path =
      folder /
      ("agent-" + sha256_hex(std::as_bytes(std::span(name))).substr(0, kNameDigits) + ".key");
  const FolderLock lock(folder);
  if (something_at(path)) {
    KeyOwner key = key_from_pem(read_secret(path, kLongestKey));
    if (key == nullptr) {
      throw InputError(path.string() +
                       ": expected a private key; remove the file, and create a new join string "
                       "for this host (pfcctl token create --host " +
                       host + ")");
    }
    return key;
  }
  KeyOwner key = make_key();
  write_secret(path, to_pem(*key));
  return key;
}

/// Retries `attempt` after a CommError, until `deadline`.
template <typename Attempt>
auto until(TimePoint deadline, Attempt attempt) {
  while (true) {
    try {
      return attempt();
    } catch (const CommError&) {
      if (Clock::now() + kPause >= deadline) throw;
    }
    std::this_thread::sleep_for(kPause);
  }
}

proto::ExchangeTokenReply exchange(proto::CoordinatorService::Stub& stub,
                                   const proto::ExchangeTokenRequest& request,
                                   const std::string& address) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kJoinAttemptTimeout);
  proto::ExchangeTokenReply reply;
  const grpc::Status status = stub.ExchangeToken(&context, request, &reply);
  if (status.ok()) return reply;
  const bool may_pass = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (may_pass) {
    throw CommError("coordinator " + address + " cannot be reached: " + problem_of(status));
  }
  throw InputError("coordinator " + address + " refuses this host: " + status.error_message());
}

}  // namespace

JoinedCluster join_cluster(const JoinString& join, const std::string& host,
                           const std::filesystem::path& state_dir, milliseconds patience) {
  const TimePoint deadline = Clock::now() + patience;
  const KeyOwner key = kept_key(state_dir, join.fingerprint, host);
  Credential credential;
  credential.authority = until(deadline, [&] {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    return fetch_authority(join.address, join.fingerprint,
                           std::clamp(left, milliseconds{1}, kJoinAttemptTimeout));
  });
  const auto stub = proto::CoordinatorService::NewStub(
      make_channel(join.address, {.authority = credential.authority}));
  proto::ExchangeTokenRequest request;
  request.set_token(join.token);
  request.set_host(host);
  request.set_certificate_request(make_request(*key));
  const auto reply = until(deadline, [&] { return exchange(*stub, request, join.address); });
  credential.certificate = reply.certificate();
  credential.key = to_pem(*key);
  return {.credential = credential, .host = reply.host()};
}

}  // namespace pfc
