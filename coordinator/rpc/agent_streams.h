// Streams of agents: registration, the certificates of their workers, and their links.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "coordinator/rpc/calls.h"

namespace pfc {

/// Used on the event loop only, except for attach() and close_outdated_links_of().
class AgentStreams {
 public:
  using Reactor = grpc::ServerBidiReactor<proto::AgentMessage, proto::AgentCommand>;

  /// Borrows its arguments; `gate` may be null.
  AgentStreams(boost::asio::io_context& loop, Coordinator& coordinator, Gate* gate, Calls& calls)
      : loop_(loop), coordinator_(coordinator), gate_(gate), calls_(calls) {}

  /// Accepts a new stream. Thread-safe.
  Reactor* attach(const grpc::CallbackServerContext& context);
  /// Schedules the closing of links whose certificate is no longer valid. Thread-safe.
  void close_outdated_links_of(const std::string& host);

 private:
  /// State of a stream.
  struct Session {
    Caller caller;
    std::optional<std::string> host;  ///< registered host
    std::string certificate_request;  ///< for its workers
    std::string job;                  ///< job of `certificate`
    std::string certificate;          ///< for its workers
  };

  void heard(Session& session, const proto::AgentMessage& message, AgentLink& link);
  /// Sets the session, or closes the link.
  void register_agent(const proto::AgentMessage& message, Session& session, AgentLink& link);
  /// Returns why this agent may not register; nothing if the coordinator may decide.
  std::optional<Refusal> refusal_of(const proto::AgentRegistration& registration,
                                    const Caller& caller);
  /// Adds the workers' certificate to the desired slots.
  void add_certificate(Session& session, proto::AgentCommand& command);
  void close_links_of(const std::string& host, const Refusal& why);

  boost::asio::io_context& loop_;
  Coordinator& coordinator_;
  Gate* const gate_;
  Calls& calls_;
  std::map<AgentLink*, Caller> links_;  // authenticated caller of each agent's stream
};

}  // namespace pfc
