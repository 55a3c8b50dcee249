#include "coordinator/sockets/listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/read.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;

/// Limits descriptors to 200, until a test opens all of them.
class AListener : public ::testing::Test {
 protected:
  AListener() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 200;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~AListener() override {
    close_spare();
    setrlimit(RLIMIT_NOFILE, &before_);
  }

  Listener listener(int held_back) {
    return {loop,
            {.address = "127.0.0.1", .port = 0, .flag = "--port", .held_back = held_back},
            [this](Fd fd) {
              accepted.push_back(std::move(fd));
              loop.stop();
            }};
  }

  tcp::socket connect_to(const Listener& listener) {
    tcp::socket socket(client_loop);
    socket.connect(
        {boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(listener.port())});
    return socket;
  }

  void open_descriptors(int count) {
    for (int fd = 0; count-- > 0 && (fd = dup(STDERR_FILENO)) >= 0;) spare_.emplace_back(fd);
  }
  void close_spare() { spare_.clear(); }

  boost::asio::io_context loop, client_loop;
  std::vector<Fd> accepted;

 private:
  rlimit before_{};
  std::vector<Fd> spare_;
};

TEST_F(AListener, PassesOnNonBlockingSockets) {
  const Listener any = listener(0);
  const tcp::socket client = connect_to(any);
  loop.run();
  ASSERT_EQ(accepted.size(), 1U);
  EXPECT_NE(fcntl(accepted[0], F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(AListener, PausesWithoutFreeDescriptorsAndThenAccepts) {
  const Listener any = listener(0);
  const tcp::socket client = connect_to(any);
  open_descriptors(1'000);
  EXPECT_LT(loop.run_for(500ms), 100U) << "the loop spins";
  EXPECT_TRUE(accepted.empty());
  close_spare();
  loop.restart();
  loop.run();
  EXPECT_EQ(accepted.size(), 1U);
}

TEST_F(AListener, ClosesAConnectionThatWouldUseReservedDescriptors) {
  const Listener modest = listener(150);
  open_descriptors(50);
  tcp::socket client = connect_to(modest);
  std::thread server([this] { loop.run(); });
  char byte = 0;
  boost::system::error_code error;
  boost::asio::read(client, boost::asio::buffer(&byte, 1), error);
  EXPECT_TRUE(error) << "the connection was not closed";
  loop.stop();
  server.join();
  EXPECT_TRUE(accepted.empty());
}

TEST_F(AListener, SaysWhyItCannotListenOnAPortAndWhatToDo) {
  const Listener first = listener(0);
  const auto refusal = [&](const std::string& address, int port) {
    try {
      const Listener second(loop, {.address = address, .port = port, .flag = "--port"}, [](Fd) {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("it was not refused");
  };
  const std::string taken = std::to_string(first.port());
  EXPECT_EQ(refusal("127.0.0.1", first.port()),
            "port " + taken +
                " on 127.0.0.1 is in use, perhaps by another pfc-coordinator; end that program, or "
                "choose another port with --port (--port 0: any free port); a coordinator on "
                "another port cannot take over a job that was started on this port");
  EXPECT_EQ(refusal("203.0.113.1", 0),
            "port 0 on 203.0.113.1: cannot listen: Cannot assign requested address");
  open_descriptors(1'000);
  EXPECT_EQ(refusal("127.0.0.1", 0),
            "port 0 on 127.0.0.1: cannot listen: Too many open files; raise the limit of " +
                std::string("open files (ulimit -n)"));
}

}  // namespace
}  // namespace pfc
