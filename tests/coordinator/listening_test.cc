#include "coordinator/listening.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace pfc {
namespace {

/// A port of 127.0.0.1 that somebody listens on.
class TakenPort {
 public:
  TakenPort() {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    bind(fd_, reinterpret_cast<const sockaddr*>(&where), size);
    listen(fd_, 1);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&where), &size);
    port_ = ntohs(where.sin_port);
  }
  ~TakenPort() { close(fd_); }
  [[nodiscard]] int port() const { return port_; }

 private:
  int fd_ = socket(AF_INET, SOCK_STREAM, 0);
  int port_ = 0;
};

/// No further file can be opened.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

int error_without_descriptors() {
  const NoDescriptors none;
  return try_to_listen("127.0.0.1", 0);
}

TEST(Listening, TellsAPortInUseFromOtherReasons) {
  EXPECT_EQ(try_to_listen("127.0.0.1", 0), 0);
  EXPECT_EQ(try_to_listen("127.0.0.1", TakenPort().port()), EADDRINUSE);
  EXPECT_EQ(try_to_listen("203.0.113.1", 0), EADDRNOTAVAIL);
  EXPECT_EQ(error_without_descriptors(), EMFILE);
}

TEST(Listening, SaysWhyAndWhatToDo) {
  EXPECT_EQ(cannot_listen("127.0.0.1", 7450, EADDRINUSE, "--port"),
            "port 7450 on 127.0.0.1 is in use, perhaps by another pfc-coordinator; choose another "
            "with --port, or --port 0 for any free one");
  EXPECT_EQ(cannot_listen("127.0.0.1", 0, EMFILE, "--port"),
            "port 0 on 127.0.0.1 cannot be listened on: Too many open files; raise the limit of "
            "open files (ulimit -n)");
}

}  // namespace
}  // namespace pfc
