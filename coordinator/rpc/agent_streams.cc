#include "coordinator/rpc/agent_streams.h"

#include <boost/asio/post.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "common/error.h"
#include "common/network_address.h"
#include "common/one_line.h"
#include "security/private_key.h"

namespace pfc {
namespace {

/// Returns whether the message may concern a job that has ended, as a log may.
bool is_of_any_job(const proto::AgentMessage& message) {
  return message.has_heartbeat() || message.has_log_chunk() || message.has_network() ||
         message.has_fault();
}

}  // namespace

AgentStreams::Reactor* AgentStreams::attach(const grpc::CallbackServerContext& context) {
  const auto session = std::make_shared<Session>();  // shared by the callbacks below
  auto* const refused =
      calls_.refuse_stream<proto::AgentMessage, proto::AgentCommand>(context, session->caller);
  if (refused != nullptr) return refused;
  return calls_.open<proto::AgentMessage, proto::AgentCommand>(
      [this, session](AgentLink& link, const proto::AgentMessage& message) {
        heard(*session, message, link);
      },
      [this, session](AgentLink& link) {
        links_.erase(&link);
        if (session->host) coordinator_.agents().link_closed(*session->host, link);
      },
      [this, session](proto::AgentCommand& command) { add_certificate(*session, command); });
}

void AgentStreams::heard(Session& session, const proto::AgentMessage& message, AgentLink& link) {
  Refusal why;
  if (!session.host) {
    register_agent(message, session, link);
  } else if (is_of_any_job(message) || calls_.current(message, why)) {
    // Reports on workers of other jobs are dropped.
    coordinator_.agents().said(*session.host, message);
  }
}

void AgentStreams::add_certificate(Session& session, proto::AgentCommand& command) {
  if (gate_ == nullptr || !command.has_desired() || session.certificate_request.empty()) return;
  try {
    if (session.job != command.job_id()) {
      session.certificate =
          gate_->worker_certificate(session.caller, command.job_id(), session.certificate_request);
      session.job = command.job_id();
    }
    command.mutable_desired()->set_worker_certificate(session.certificate);
  } catch (const std::exception& error) {
    // The coordinator cannot handle this error, so the agent's stream is closed.
    const std::string why = "no certificate can be made for its workers: " + one_line(error.what());
    boost::asio::post(loop_, [this, host = session.caller.identity.host, why] {
      close_links_of(host, {.kind = Refusal::Kind::kInternal, .message = why});
    });
  }
}

void AgentStreams::close_links_of(const std::string& host, const Refusal& why) {
  for (const auto& [link, caller] : std::map(links_)) {
    if (caller.identity.host == host) link->close(why);
  }
}

void AgentStreams::close_outdated_links_of(const std::string& host) {
  boost::asio::post(loop_, [this, host] {
    for (const auto& [link, caller] : std::map(links_)) {
      if (caller.identity.host != host) continue;
      const auto denial = gate_->outdated(caller);
      if (denial) link->close({.kind = Refusal::Kind::kDenied, .message = denial->message});
    }
  });
}

std::optional<Refusal> AgentStreams::refusal_of(const proto::AgentRegistration& registration,
                                                const Caller& caller) {
  if (gate_ == nullptr) return {};
  if (registration.host() != caller.identity.host) {
    return gate_->refuse(caller, "register", "wrong_host",
                         "the certificate is for host " + caller.identity.host +
                             ", but the agent says that it is on " + one_line(registration.host()));
  }
  // The certificate may have been revoked after the stream was opened.
  if (const auto denial = gate_->outdated(caller)) {
    return gate_->refuse(caller, "register", denial->code, denial->message);
  }
  if (registration.worker_certificate_request().empty()) return {};
  try {
    static_cast<void>(key_of_request(registration.worker_certificate_request()));
  } catch (const InputError& error) {
    Refusal refusal =
        gate_->refuse(caller, "register", "bad_request",
                      "for the workers of host " + registration.host() + ": " + error.what());
    refusal.kind = Refusal::Kind::kInvalid;
    return refusal;
  }
  return {};
}

void AgentStreams::register_agent(const proto::AgentMessage& message, Session& session,
                                  AgentLink& link) {
  if (!message.has_registration()) {
    return link.close({.message = "an agent's first message must register it"});
  }
  const proto::AgentRegistration& registration = message.registration();
  const Caller& caller = session.caller;
  if (const auto refusal = refusal_of(registration, caller)) return link.close(*refusal);
  session.certificate_request = registration.worker_certificate_request();
  // Set before the coordinator knows the link, so that the link's end is always reported.
  const std::string peer = address_of_peer(caller.peer);
  session.host = coordinator_.agents().listed_host(registration.host(), peer);
  links_[&link] = caller;
  if (const auto refusal = coordinator_.agents().add(registration, peer, link)) {
    if (gate_ != nullptr) {
      static_cast<void>(gate_->refuse(caller, "register", "not_wanted", refusal->message));
    }
    return link.close(*refusal);
  }
  if (gate_ != nullptr) gate_->note(caller, "register", "host " + *session.host);
}

}  // namespace pfc
