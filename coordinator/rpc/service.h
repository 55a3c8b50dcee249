// The gRPC server that passes requests to the coordinator.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "coordinator/access/gate.h"
#include "coordinator/coordinator.h"
#include "coordinator/net/newcomers.h"

namespace pfc {

struct ServiceOptions {
  std::string address;  ///< that it listens on
  int port = 0;         ///< 0: a free one
  /// Borrowed. Null: plaintext, and everybody may make every call, which is for loopback alone.
  Gate* gate = nullptr;
  std::string reachable = {};  ///< the address that join strings have; empty: `address`
  Newcomers::Limits newcomers = {};
};

/// Every request is handled on the event loop, not on gRPC's threads, and only if it belongs to the
/// job and its current generation (proto/coordinator.proto), and its caller may make it
/// (access/gate.h) and does not make too many (access/peer_limits.h).
class Service {
 public:
  /// Listens on address:port. Throws InputError when the port is in use.
  Service(boost::asio::io_context& loop, Coordinator& coordinator, const ServiceOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  [[nodiscard]] int port() const;

  /// Closes the coordinator and every call, and waits until gRPC has finished with them. REQUIRES:
  /// the caller is on the loop's thread, and the loop is not running; it is run here meanwhile.
  /// Returns false where no thread can be started for that: then gRPC goes on using loop and
  /// coordinator, and the process must end without destroying them.
  bool shut_down();

 private:
  class Adapter;
  std::unique_ptr<Adapter> adapter_;
};

}  // namespace pfc
