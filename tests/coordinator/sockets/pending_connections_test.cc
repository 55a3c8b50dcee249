#include "coordinator/sockets/pending_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <vector>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Connections from 127.0.0.1, 127.0.0.2, ... to one listener.
class PendingConnectionsTest : public ::testing::Test {
 protected:
  PendingConnections limited(const PendingConnections::Limits& limits) {
    return {loop, limits, [this](Fd fd) { inside.push_back(std::move(fd)); },
            [this](const std::string& peer, const std::string& why) {
              refused.push_back(peer + ": " + why);
            }};
  }

  /// The server's side of a new connection, and gRPC's name for the client.
  struct Connection {
    int fd;
    std::string peer;
  };
  Connection connects(int address = 1) {
    tcp::socket& client = clients.emplace_back(client_loop);
    client.open(tcp::v4());
    const std::string name = "127.0.0." + std::to_string(address);
    client.bind({boost::asio::ip::make_address(name), 0});
    client.connect(acceptor.local_endpoint());
    const std::string port = std::to_string(client.local_endpoint().port());
    return {.fd = acceptor.accept().release(), .peer = "ipv4:" + name + ":" + port};
  }

  template <typename Condition>
  void run_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!condition() && std::chrono::steady_clock::now() < deadline) loop.run_one_for(100ms);
    EXPECT_TRUE(condition());
  }

  boost::asio::io_context loop, client_loop;
  tcp::acceptor acceptor{client_loop, {boost::asio::ip::address_v4::loopback(), 0}};
  std::vector<tcp::socket> clients;
  std::vector<Fd> inside;
  std::vector<std::string> refused;
};

TEST_F(PendingConnectionsTest, AreAdmittedOnlyUpToTheLimit) {
  auto connections = limited({.all = 2, .of_address = 2});
  const Connection first = connects();
  connections.add(Fd(first.fd));
  for (int i = 0; i < 2; ++i) connections.add(Fd(connects().fd));
  EXPECT_EQ(inside.size(), 2U);
  connections.known(first.peer);
  run_until([&] { return inside.size() == 3; });
}

TEST_F(PendingConnectionsTest, AreLimitedPerAddress) {
  auto connections = limited({.all = 3, .of_address = 1});
  for (int i = 0; i < 4; ++i) connections.add(Fd(connects(1).fd));
  EXPECT_EQ(inside.size(), 1U);
  const int other = connects(2).fd;
  connections.add(Fd(other));
  EXPECT_THAT(inside, ElementsAre(::testing::_, other));
}

TEST_F(PendingConnectionsTest, FreeTheirPlaceWhenTheyDisconnect) {
  auto connections = limited({.all = 1});
  connections.add(Fd(connects().fd));
  const int second = connects().fd;
  connections.add(Fd(second));
  inside.clear();  // closes the first, as gRPC does when the peer has gone
  run_until([&] { return !inside.empty(); });
  EXPECT_THAT(inside, ElementsAre(second));
}

TEST_F(PendingConnectionsTest, AreClosedIfTheyDoNotAuthenticateInTime) {
  auto connections = limited({.all = 1, .patience = 1ms});
  connections.add(Fd(connects().fd));
  run_until([&] { return !refused.empty(); });
  EXPECT_THAT(refused.front(),
              AllOf(HasSubstr("127.0.0.1:"), HasSubstr("has shown no credential within")));
  char byte = 0;
  EXPECT_EQ(read(inside.front(), &byte, 1), 0);  // gRPC sees the end of the connection
}

TEST_F(PendingConnectionsTest, AreClosedWhenTheySendTooMuchWithoutACredential) {
  auto connections = limited({.bytes = 1'000});
  connections.add(Fd(connects().fd));
  boost::asio::write(clients.back(), boost::asio::buffer(std::string(900, 'x')));
  const Connection known = connects();
  connections.add(Fd(known.fd));
  connections.known(known.peer);
  boost::asio::write(clients.back(), boost::asio::buffer(std::string(2'000, 'x')));
  connections.add(Fd(connects().fd));
  boost::asio::write(clients.back(), boost::asio::buffer(std::string(1'100, 'x')));
  run_until([&] { return !refused.empty(); });
  EXPECT_THAT(refused,
              ElementsAre(HasSubstr("has sent more than 1000 bytes without showing a credential")));
}

TEST_F(PendingConnectionsTest, ClosesIdleConnectionsSoonerWhileOthersWait) {
  auto connections = limited({.of_address = 1, .patience = 1h, .contended = 0ms});
  connections.add(Fd(connects(1).fd));
  connections.add(Fd(connects(2).fd));
  const int other = connects(1).fd;
  connections.add(Fd(other));
  run_until([&] { return !refused.empty(); });
  EXPECT_THAT(refused, ElementsAre(AllOf(HasSubstr("127.0.0.1:"),
                                         HasSubstr(", and other connections are waiting"))));
  loop.run_for(50ms);
  EXPECT_EQ(inside.size(), 2U);  // gRPC still holds memory for the ended connection
  inside.erase(inside.begin());
  run_until([&] { return inside.size() == 2; });
  EXPECT_EQ(inside.back(), other);
  EXPECT_EQ(refused.size(), 1U);
}

/// Drops packets of more than 200 bytes, like a link with a small MTU.
void lose_large_packets(tcp::socket& socket) {
  std::array<sock_filter, 4> code{
      {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 200, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0xffffffff)}};
  const sock_fprog program{.len = code.size(), .filter = code.data()};
  ASSERT_EQ(
      setsockopt(socket.native_handle(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program),
      0);
}

TEST_F(PendingConnectionsTest, ReportsOnceEachPeerThatDoesNotAcknowledgeData) {
  std::vector<std::string> stalled;
  PendingConnections connections(
      loop, {.patience = 1h}, [this](Fd fd) { inside.push_back(std::move(fd)); },
      [](auto&, auto&) {}, [&](const std::string& address) { stalled.push_back(address); });
  for (const int address : {1, 2, 3}) {
    const int fd = connects(address).fd;
    connections.add(Fd(fd));
    boost::asio::write(clients.back(), boost::asio::buffer(std::string("hello")));
    if (address > 1) lose_large_packets(clients.back());
    ASSERT_EQ(write(fd, std::string(1'000, 'x').data(), 1'000), 1'000);
  }
  run_until([&] { return stalled.size() >= 2; });
  EXPECT_THAT(stalled, ::testing::UnorderedElementsAre("127.0.0.2", "127.0.0.3"));
}

TEST_F(PendingConnectionsTest, StayOpenOnceAuthenticated) {
  auto connections = limited({.all = 1, .patience = 1ms});
  const Connection known = connects(1);
  connections.add(Fd(known.fd));
  connections.known(known.peer);
  connections.add(Fd(connects(2).fd));
  run_until([&] { return !refused.empty(); });
  EXPECT_THAT(refused, ElementsAre(HasSubstr("127.0.0.2:")));
}

TEST_F(PendingConnectionsTest, AreRefusedWhenTooManyWait) {
  auto connections = limited({.all = 1, .waiting = 2});
  for (int i = 0; i < 3; ++i) connections.add(Fd(connects(1).fd));
  connections.add(Fd(connects(2).fd));
  EXPECT_THAT(refused,
              ElementsAre(AllOf(HasSubstr("127.0.0.1:"), HasSubstr("wait to be admitted"))));
}

TEST_F(PendingConnectionsTest, AreRefusedWhenTheyHaveWaitedForTooLong) {
  auto connections = limited({.all = 0, .patience = 1ms});
  connections.add(Fd(connects().fd));
  run_until([&] { return !refused.empty(); });
  EXPECT_THAT(refused.front(), HasSubstr("too many connections"));
  EXPECT_TRUE(inside.empty());
}

}  // namespace
}  // namespace pfc
