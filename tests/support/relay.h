// TCP relay on 127.0.0.1 in front of a server: a connection that a test can break.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/error.h"

namespace pfc::testing {

/// Relays bytes in both directions until the link is cut. Thread-safe.
class Relay {
 public:
  enum class Link {
    kWhole,
    kCut,     ///< connections are reset and new ones are refused
    kSilent,  ///< connections stay open without traffic; new ones get no answer
  };

  /// Relays to 127.0.0.1:server_port.
  explicit Relay(int server_port) : server_port_(server_port), listener_(listen_on(0)) {
    port_ = port_of(listener_);
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    set(Link::kCut, /*ended=*/true);
    thread_.join();
    ::close(wake_);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] int port() const { return port_; }
  void set(Link link) { set(link, false); }
  /// Sends new connections to this port of 127.0.0.1.
  void lead_to(int server_port) { server_port_ = server_port; }

 private:
  struct Pipe {
    std::array<int, 2> ends{-1, -1};
  };

  /// Sets the link's state. Blocks until the relay's thread has applied it.
  void set(Link link, bool ended) {
    std::unique_lock lock(mutex_);
    link_ = link;
    ended_ = ended;
    const int number = ++sets_;
    ::eventfd_write(wake_, 1);
    obeyed_.wait(lock, [&] { return done_ >= number; });
  }

  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
  }

  static int listen_on(int port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const sockaddr_in address = loopback(port);
    check(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0, "bind");
    check(::listen(fd, 64) == 0, "listen");
    return fd;
  }

  static int port_of(int fd) {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    check(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
    return ntohs(address.sin_port);
  }

  void accept_one() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(server_port_);
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(server, to, sizeof(address)) != 0) {
      reset(client);
      reset(server);
      return;
    }
    pipes_.push_back({{client, server}});
  }

  static void reset(int fd) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    ::close(fd);
  }

  static void reset(const Pipe& pipe) {
    for (const int fd : pipe.ends) reset(fd);
  }

  /// Relays the data received from one end. Returns whether both ends are still open.
  static bool pass(int from, int to) {
    std::array<char, 65'536> bytes;
    const ssize_t count = ::recv(from, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t now =
          ::send(to, bytes.data() + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
      if (now <= 0) return false;
      sent += now;
    }
    return true;
  }

  /// Applies the link's state to listener and connections. Returns it, and whether to continue.
  std::pair<Link, bool> obey() {
    std::lock_guard lock(mutex_);
    if (link_ == Link::kCut) {
      for (const Pipe& pipe : pipes_) reset(pipe);
      pipes_.clear();
      if (listener_ >= 0) ::close(std::exchange(listener_, -1));
    } else if (listener_ < 0) {
      listener_ = listen_on(port_);
    }
    done_ = sets_;
    obeyed_.notify_all();
    return {link_, !ended_};
  }

  void run() {
    while (true) {
      const auto [link, goes_on] = obey();
      if (!goes_on) return;
      std::vector<pollfd> polled{{wake_, POLLIN, 0}};
      if (link == Link::kWhole) {
        polled.push_back({listener_, POLLIN, 0});
        for (const Pipe& pipe : pipes_) {
          for (const int fd : pipe.ends) polled.push_back({fd, POLLIN, 0});
        }
      }
      ::poll(polled.data(), polled.size(), -1);
      if (polled[0].revents != 0) {
        eventfd_t count = 0;
        ::eventfd_read(wake_, &count);
        continue;  // the state of the link may have changed
      }
      pass_on(polled);
    }
  }

  void pass_on(const std::vector<pollfd>& polled) {
    std::size_t next = 2;
    for (auto pipe = pipes_.begin(); pipe != pipes_.end();) {
      bool whole = true;
      for (const int end : {0, 1}) {
        const bool ready = polled[next++].revents != 0;
        if (ready && whole) whole = pass(pipe->ends[end], pipe->ends[1 - end]);
      }
      if (!whole) reset(*pipe);
      pipe = whole ? std::next(pipe) : pipes_.erase(pipe);
    }
    if (polled[1].revents != 0) accept_one();
  }

  std::atomic<int> server_port_;
  const int wake_ = ::eventfd(0, EFD_CLOEXEC);
  int listener_ = -1;      // used only by the thread once it runs
  std::list<Pipe> pipes_;  // used only by the thread
  int port_ = 0;
  std::mutex mutex_;
  Link link_ = Link::kWhole;  // guarded by mutex_
  bool ended_ = false;        // guarded by mutex_
  int sets_ = 0;              // guarded by mutex_: number of calls of set()
  int done_ = 0;              // guarded by mutex_: number of calls applied
  std::condition_variable obeyed_;
  std::thread thread_;
};

}  // namespace pfc::testing
