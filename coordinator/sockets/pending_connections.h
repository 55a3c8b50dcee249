// Limits unauthenticated connections, because each one holds memory in gRPC.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/clock.h"
#include "common/files/fd.h"

namespace pfc {

/// Queues accepted TLS connections and admits a limited number to the handshake, round-robin over
/// client addresses. A queued connection costs one socket; an unfinished handshake costs about 65
/// KB. An admitted connection is closed unless it authenticates in time and before it has sent
/// much.
/// Used on the event loop only, except for known().
class PendingConnections {
 public:
  struct Limits {
    std::size_t all = 512;       ///< admitted connections
    std::size_t of_address = 4;  ///< admitted connections per address
    /// Limit of queued connections; beyond it, closes the oldest of the address with the most.
    std::size_t waiting = 4'096;
    std::chrono::milliseconds patience{10'000};  ///< limit in the queue, and again after admission
    /// Time limit of an admitted connection while others wait. gRPC's clients give up after 2 s.
    std::chrono::milliseconds contended{1'000};
    /// Bytes that an admitted connection may send before it authenticates. gRPC buffers a whole
    /// request before the sender can be checked.
    std::uint64_t bytes = std::uint64_t{1280} << 10;
  };
  /// Receives an admitted socket.
  using Passed = std::function<void(Fd fd)>;
  /// Called with the peer's address and the reason when a connection is closed.
  using Refused = std::function<void(const std::string& peer, const std::string& why)>;
  /// Called with the address of a peer that sends data but does not acknowledge any.
  using Stalled = std::function<void(const std::string& address)>;

  PendingConnections(
      boost::asio::io_context& loop, const Limits& limits, Passed passed, Refused refused,
      Stalled stalled = [](const std::string&) {});
  ~PendingConnections();
  PendingConnections(const PendingConnections&) = delete;
  PendingConnections& operator=(const PendingConnections&) = delete;

  /// Adds a connected socket.
  void add(Fd fd);
  /// Called when a peer ("ipv4:10.0.0.2:4711", as named by gRPC) has authenticated. Thread-safe.
  void known(const std::string& peer);
  /// Closes the queued connections, and forgets the admitted ones.
  void close();

 private:
  struct Waiting {
    Fd fd;
    std::string peer;  ///< ADDRESS:PORT
    TimePoint since;
  };
  struct Inside {
    int fd = -1;      ///< owned by gRPC, which may have closed and reused the number
    ino_t inode = 0;  ///< inode of the socket; detects a reused descriptor
    std::string address;
    std::string peer;  ///< ADDRESS:PORT
    TimePoint since;
    bool stalled = false;  ///< already reported
    bool ended = false;    ///< shut down, and not yet closed by gRPC
  };
  struct Address {
    std::size_t inside = 0;
    std::deque<Waiting> waiting;  ///< oldest first
  };
  using Entered = std::unordered_map<std::string, Inside>;
  struct Closed {
    Waiting connection;
    std::string why;
  };

  void let_in();
  /// Removes the connections to admit from the queues, round-robin.
  std::vector<Fd> take_next();
  void watch();
  void look_after();
  /// Forgets closed connections, and closes those over a limit.
  void sweep(TimePoint now, std::vector<Closed>& closed);
  /// Returns the addresses of newly stalled connections.
  std::vector<std::string> find_stalled();
  void expire_waiting(TimePoint now, std::vector<Closed>& closed);
  void drop_one(std::vector<Closed>& closed);
  Entered::iterator forget(Entered::iterator which);
  void tell(std::vector<Closed>& closed);

  boost::asio::io_context& loop_;
  const Limits limits_;
  const Passed passed_;
  const Refused refused_;
  const Stalled stalled_;
  boost::asio::steady_timer timer_;
  bool watching_ = false;
  bool sent_much_ = false;              ///< a closed connection had sent more than `bytes`
  std::string last_address_;            ///< address served last
  std::atomic<std::size_t> inside_{0};  ///< entered_.size(), readable without the lock
  std::mutex mutex_;
  Entered entered_;                           ///< guarded by mutex_; by address and port
  std::map<std::string, Address> addresses_;  ///< guarded by mutex_; no empty entries
  std::size_t waiting_ = 0;                   ///< guarded by mutex_; total of all queues
};

}  // namespace pfc
