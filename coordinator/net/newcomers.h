// Bounds the connections that have not shown a credential yet: each holds memory of gRPC's.
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

namespace pfc {

/// Takes connections over TLS and lets only so many at a time go on to their handshake; the others
/// wait outside, where they hold no more than a socket, and each address has its turn. One that is
/// let in must show a credential in time, and before it has sent much, or is closed: an unfinished
/// handshake holds about 65 KB.
/// On the event loop only, but for known().
class Newcomers {
 public:
  struct Limits {
    std::size_t all = 512;       ///< that were let in
    std::size_t of_address = 8;  ///< of these, from one address
    /// Outside. Of more, the oldest of the address that has most is closed.
    std::size_t waiting = 4'096;
    std::chrono::milliseconds patience{10'000};  ///< outside, and again when it was let in
    /// Limit for an admitted connection while others wait. gRPC's clients give up a connection
    /// after 2 s.
    std::chrono::milliseconds contended{1'000};
    /// Bytes that an admitted connection may send before it shows a credential. gRPC buffers a
    /// whole request before the sender can be checked.
    std::uint64_t bytes = std::uint64_t{1280} << 10;
  };
  /// Takes a socket that is let in; it is its own from now on, and closes it.
  using Passed = std::function<void(int fd)>;
  /// Is told the address and port of one that was closed, and why.
  using Refused = std::function<void(const std::string& peer, const std::string& why)>;
  /// Called with the address of a peer that sends data but does not acknowledge the data it is
  /// sent.
  using Stalled = std::function<void(const std::string& address)>;

  Newcomers(
      boost::asio::io_context& loop, const Limits& limits, Passed passed, Refused refused,
      Stalled stalled = [](const std::string&) {});
  ~Newcomers();
  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;

  /// Takes a connected socket.
  void add(int fd);
  /// The peer ("ipv4:10.0.0.2:4711", as gRPC names it) has shown a credential. Thread-safe.
  void known(const std::string& peer);
  /// Closes those that wait, and forgets the others.
  void close();

 private:
  struct Waiting {
    int fd = -1;
    std::string peer;  ///< ADDRESS:PORT
    TimePoint since;
  };
  struct Inside {
    int fd = -1;      ///< gRPC's; may be another file's by now
    ino_t inode = 0;  ///< of the socket: tells whether it is
    std::string address;
    std::string peer;  ///< ADDRESS:PORT
    TimePoint since;
    bool stalled = false;  ///< already reported
  };
  struct Address {
    std::size_t inside = 0;
    std::deque<Waiting> waiting;  ///< the oldest first
  };
  using Entered = std::unordered_map<std::string, Inside>;
  struct Closed {
    Waiting connection;
    std::string why;
  };

  void let_in();
  /// Takes those that may enter out of the queues, in turn.
  std::vector<int> take_next();
  void watch();
  void look_after();
  /// Forgets those that have gone, and ends those that have stayed for too long.
  void sweep(TimePoint now, std::vector<Closed>& closed);
  /// Returns the addresses of connections that have stalled since the last call.
  std::vector<std::string> find_stalled();
  void expire_waiting(TimePoint now, std::vector<Closed>& closed);
  void drop_one(std::vector<Closed>& closed);
  Entered::iterator forget(Entered::iterator which);
  void tell(const std::vector<Closed>& closed);

  boost::asio::io_context& loop_;
  const Limits limits_;
  const Passed passed_;
  const Refused refused_;
  const Stalled stalled_;
  boost::asio::steady_timer timer_;
  bool watching_ = false;
  bool sent_much_ = false;              ///< a closed connection had sent more than `bytes`
  std::string last_address_;            ///< whose turn it was
  std::atomic<std::size_t> inside_{0};  ///< entered_.size(); so that most calls take no lock
  std::mutex mutex_;
  Entered entered_;                           ///< guarded by mutex_; by address and port
  std::map<std::string, Address> addresses_;  ///< guarded by mutex_; without empty ones
  std::size_t waiting_ = 0;                   ///< guarded by mutex_; in all queues
};

}  // namespace pfc
