// gRPC on one side, the coordinator on the other.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"

namespace pfc {

/// gRPC's threads only carry messages: each request is handled on the event loop, after the fence
/// has let its generation pass.
class Service {
 public:
  /// Listens on address:port (port 0: a free one). Throws InputError when the port is in use.
  Service(boost::asio::io_context& loop, Coordinator& coordinator, const std::string& address,
          int port);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  [[nodiscard]] int port() const;

  /// Closes the coordinator and every call, and waits for gRPC's threads to be done with them. On
  /// the loop's thread, while the loop is not running: it runs the loop itself meanwhile.
  void shut_down();

 private:
  class Adapter;
  std::unique_ptr<Adapter> adapter_;
};

}  // namespace pfc
