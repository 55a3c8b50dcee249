#include "proto/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>

#include "proto/grpc_runtime.h"
#include "security/first_contact.h"

namespace pfc {
namespace {

using Clock = std::chrono::system_clock;  // gRPC's deadlines are of this clock

// The kernel repeats an unanswered attempt after 1 s, then after 2 s more, 4 s more. A new attempt
// after 2 s keeps the pauses at 1 s.
constexpr int kConnectMilliseconds = 2'000;
constexpr int kLookUpMilliseconds = 2'000;
constexpr int kLongestBackoffMilliseconds = 1'000;
constexpr std::chrono::milliseconds kLook{100};
// What a check has found on thousands of hosts takes more than gRPC's 4 MiB.
constexpr int kMostReplyBytes = 64 << 20;

std::shared_ptr<grpc::ChannelCredentials> credentials_of(const Credential& credential) {
  if (!credential.secure()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = credential.authority,
                               .pem_private_key = credential.key,
                               .pem_cert_chain = credential.certificate});
}

}  // namespace

std::shared_ptr<grpc::Channel> make_channel(const std::string& address,
                                            const Credential& credential) {
  set_up_grpc();
  grpc::ChannelArguments arguments;
  if (credential.secure()) arguments.SetSslTargetNameOverride(kCoordinatorName);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name, how long one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMilliseconds);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestBackoffMilliseconds);
  // Otherwise a name that did not resolve is looked up again only after 30 s.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kLongestBackoffMilliseconds);
  // A name server that does not answer is asked again, and told of, after so long; not after 2 min.
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, kLookUpMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kClientKeepaliveMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kClientKeepaliveTimeoutMilliseconds);
  // Otherwise every message is followed by a ping that measures the link, which carries little.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number: calls may wait long
  arguments.SetMaxReceiveMessageSize(kMostReplyBytes);
  // Workers of one host talk to the coordinator directly, whatever http_proxy says.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, credentials_of(credential), arguments);
}

std::string problem_of(const grpc::Status& status) {
  const std::string& message = status.error_message();
  const bool stalled = message.find("Handshake read failed") != std::string::npos;
  return message + (stalled ? std::string("; ") + kMtuAdvice : "");
}

bool wait_for_connection(grpc::Channel& channel, std::chrono::milliseconds time,
                         const std::function<bool()>& ended) {
  // Attempts, and look-ups of the name, begin anew with short pauses.
  grpc::experimental::ChannelResetConnectionBackoff(&channel);
  const Clock::time_point deadline = Clock::now() + time;
  while (!ended || !ended()) {
    const Clock::time_point now = Clock::now();
    if (channel.WaitForConnected(std::min(deadline, now + kLook))) return true;
    if (now >= deadline) return false;
  }
  return false;
}

}  // namespace pfc
