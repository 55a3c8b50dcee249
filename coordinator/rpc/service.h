// The gRPC server that passes requests to the coordinator.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "coordinator/access/gate.h"
#include "coordinator/coordinator.h"
#include "coordinator/sockets/pending_connections.h"

namespace pfc {

struct ServiceOptions {
  std::string address;  ///< address to listen on
  int port = 0;         ///< 0: any free port
  /// Not owned. Null: plaintext, and every caller may make every call; for loopback only.
  Gate* gate = nullptr;
  std::string reachable = {};  ///< address in join strings; empty: `address`
  PendingConnections::Limits pending = {};
};

/// Handles requests on the event loop, not on gRPC's threads. A request must be for the current
/// job and generation (proto/coordinator.proto) and within the limits (access/peer_limits.h). Its
/// caller must be authorized (access/gate.h).
class Service {
 public:
  /// Listens on address:port. Throws InputError if the port is in use.
  Service(boost::asio::io_context& loop, Coordinator& coordinator, const ServiceOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  [[nodiscard]] int port() const;

  /// Closes the coordinator and every call, and waits for gRPC. REQUIRES: called on the loop's
  /// thread while the loop is not running; this function runs it. Returns false if no thread can
  /// be started: then gRPC still uses loop and coordinator, and the process must exit without
  /// destroying them.
  bool shut_down();

 private:
  class Adapter;
  std::unique_ptr<Adapter> adapter_;
};

}  // namespace pfc
