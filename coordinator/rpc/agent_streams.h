// The streams of agents: registration, the certificates of their workers, and their links.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "coordinator/rpc/calls.h"

namespace pfc {

/// Used on the event loop only, but for attach() and close_outdated_links_of().
class AgentStreams {
 public:
  using Reactor = grpc::ServerBidiReactor<proto::AgentMessage, proto::AgentCommand>;

  /// Borrows all; `gate` may be null.
  AgentStreams(boost::asio::io_context& loop, Coordinator& coordinator, Gate* gate, Calls& calls)
      : loop_(loop), coordinator_(coordinator), gate_(gate), calls_(calls) {}

  /// A new stream. Thread-safe.
  Reactor* attach(const grpc::CallbackServerContext& context);
  /// Soon, where their certificate is not valid any more. Thread-safe.
  void close_outdated_links_of(const std::string& host);

 private:
  /// Who is at the other side of a stream.
  struct Session {
    Caller caller;
    std::optional<std::string> host;  ///< that it has registered
    std::string certificate_request;  ///< for its workers
    std::string job;                  ///< that `certificate` is for
    std::string certificate;          ///< of its workers
  };

  void heard(Session& session, const proto::AgentMessage& message, AgentLink& link);
  /// Fills in the session, or closes the link.
  void register_agent(const proto::AgentMessage& message, Session& session, AgentLink& link);
  /// Why this agent may not register; none: the coordinator decides.
  std::optional<Refusal> refusal_of(const proto::AgentRegistration& registration,
                                    const Caller& caller);
  /// Tells an agent the certificate of its workers together with what it is to run.
  void add_certificate(Session& session, proto::AgentCommand& command);
  void close_links_of(const std::string& host, const Refusal& why);

  boost::asio::io_context& loop_;
  Coordinator& coordinator_;
  Gate* const gate_;
  Calls& calls_;
  std::map<AgentLink*, Caller> links_;  // who is at the other side of each agent's stream
};

}  // namespace pfc
