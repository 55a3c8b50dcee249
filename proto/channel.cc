#include "proto/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>

#include "proto/grpc_runtime.h"
#include "security/first_contact.h"

namespace pfc {
namespace {

using Clock = std::chrono::system_clock;  // the clock of gRPC's deadlines

// The kernel retransmits an unanswered SYN after 1 s, then 2 s, then 4 s. A new attempt every 2 s
// keeps the pauses at 1 s.
constexpr int kConnectMilliseconds = 2'000;
constexpr int kLookUpMilliseconds = 2'000;
constexpr int kLongestBackoffMilliseconds = 1'000;
constexpr std::chrono::milliseconds kLook{100};
// Findings of a check on thousands of hosts exceed gRPC's default of 4 MiB.
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
  // Despite its name, this is the timeout of one attempt to connect.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMilliseconds);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestBackoffMilliseconds);
  // Otherwise gRPC resolves a failed name again only after 30 s.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kLongestBackoffMilliseconds);
  // Timeout of a DNS query, after which it is retried and the error is reported. Default: 2 min.
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, kLookUpMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kClientKeepaliveMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kClientKeepaliveTimeoutMilliseconds);
  // Otherwise gRPC probes the bandwidth after every message, which is useless on this quiet link.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit: a call may wait long
  arguments.SetMaxReceiveMessageSize(kMostReplyBytes);
  // Workers of one host connect to the coordinator directly, even if http_proxy is set.
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
  // Restart gRPC's backoff, so that the next attempts and DNS queries follow after short pauses.
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
