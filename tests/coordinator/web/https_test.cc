// Tests the coordinator's pages over TLS, for holders of the read-only token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include "coordinator/access/gate.h"
#include "coordinator/web/http_server.h"
#include "security/private_key.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Stream = asio::ssl::stream<tcp::socket>;

class Https : public ::testing::Test {
 protected:
  ~Https() override {
    loop.stop();
    thread.join();
  }

  [[nodiscard]] tcp::endpoint endpoint() const {
    return {asio::ip::address_v4::loopback(), static_cast<unsigned short>(server.port())};
  }

  /// Sends the bytes and reads until the server closes. Trusts only the gate's authority.
  std::string answer_to(const std::string& request) {
    asio::io_context io;
    asio::ssl::context tls(asio::ssl::context::tls_client);
    tls.add_certificate_authority(asio::buffer(gate.server().authority));
    tls.set_verify_mode(asio::ssl::verify_peer);
    tls.set_verify_callback(asio::ssl::host_name_verification(kCoordinatorName));
    Stream stream(io, tls);
    stream.lowest_layer().connect(endpoint());
    stream.handshake(asio::ssl::stream_base::client);
    boost::system::error_code error;
    asio::write(stream, asio::buffer(request), error);
    std::string answer;
    asio::read(stream, asio::dynamic_buffer(answer), error);
    return answer;
  }

  std::string get(const std::string& target, const std::string& header = {}) {
    return answer_to("GET " + target + " HTTP/1.1\r\nHost: x\r\n" + header +
                     "Connection: close\r\n\r\n");
  }

  TemporaryFolder folder;
  Gate gate{{.state_dir = folder / "state"}};
  std::string token = gate.create_token({}, {.role = Role::kReader}, "x:1").text.substr(0, 32);
  asio::io_context loop;
  HttpServer server{
      loop,
      "127.0.0.1",
      0,
      pages_only([](std::string_view path) {
        return HttpReply{.body = "you asked for " + std::string(path)};
      }),
      {.server = gate.server(),
       .admits = [this](std::string_view authorization,
                        const std::string& peer) { return gate.admit_page(authorization, peer); },
       .refused =
           [this](const Caller& caller, const std::string& what, const std::string& code,
                  const std::string& why) {
             static_cast<void>(gate.refuse(caller, what, code, why));
           }}};
  std::thread thread{[this] { loop.run(); }};
};

TEST_F(Https, ServesPagesToHoldersOfTheToken) {
  EXPECT_THAT(get("/metrics", "Authorization: Bearer " + token + "\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), EndsWith("you asked for /metrics")));
}

TEST_F(Https, TakesTheTokenAsAPassword) {
  std::string plain = "prometheus:" + token, encoded(100, '\0');
  encoded.resize(static_cast<std::size_t>(EVP_EncodeBlock(
      reinterpret_cast<unsigned char*>(encoded.data()),
      reinterpret_cast<const unsigned char*>(plain.data()), static_cast<int>(plain.size()))));
  EXPECT_THAT(get("/", "Authorization: Basic " + encoded + "\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Https, RefusesCallersWithoutATokenAndSaysHowToSendTheToken) {
  for (const std::string& header :
       {std::string(), "Authorization: Bearer " + std::string(32, '0') + "\r\n",
        std::string("Authorization: Basic !!!!\r\n"), std::string("Authorization: Basic YTpi\r\n"),
        std::string("Authorization: Digest x\r\n"),
        "Authorization: Bearer " + std::string(4'000, 'x') + "\r\n"}) {
    EXPECT_THAT(get("/status.json", header),
                AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("WWW-Authenticate: Bearer"),
                      HasSubstr("WWW-Authenticate: Basic"), Not(HasSubstr("you asked"))))
        << header;
  }
  EXPECT_THAT(gate.metrics_text(), AllOf(HasSubstr("{reason=\"no_credential\"} 1\n"),
                                         HasSubstr("{reason=\"wrong_token\"} 5\n")));
}

TEST_F(Https, RefusesRevokedTokensAndTokensForJoining) {
  const std::string joining = gate.create_token({}, {}, "x:1").text.substr(0, 32);
  EXPECT_THAT(get("/", "Authorization: Bearer " + joining + "\r\n"), StartsWith("HTTP/1.1 401"));
  for (const Token& each : gate.tokens()) gate.revoke_token({}, each.id);
  EXPECT_THAT(get("/", "Authorization: Bearer " + token + "\r\n"), StartsWith("HTTP/1.1 401"));
}

TEST_F(Https, ServesHealthChecksWithoutAToken) {
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Https, WritesATokenForReadingIntoTheStateFolder) {
  std::ifstream file(folder / "state" / "security" / "reader.token");
  std::string kept;
  std::getline(file, kept);
  EXPECT_THAT(get("/", "Authorization: Bearer " + kept + "\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Https, WritesDifferentTokensForAdminAndReader) {
  const auto role_of = [&](const std::string& name) {
    std::ifstream file(folder / "state" / "security" / name);
    std::string kept;
    std::getline(file, kept);
    const auto caller = gate.admit_page("Bearer " + kept, "peer");
    return caller ? caller->identity.role : Role::kNobody;
  };
  EXPECT_EQ(role_of("admin.token"), Role::kAdmin);
  EXPECT_EQ(role_of("reader.token"), Role::kReader);
  const Gate next({.state_dir = folder / "state"});
  EXPECT_EQ(role_of("admin.token"), Role::kAdmin) << "the file has the next one's token";
  for (const Token& each : gate.tokens()) gate.revoke_token({}, each.id);
  EXPECT_EQ(role_of("admin.token"), Role::kNobody);
}

TEST_F(Https, RefusesAnAdminTokenForJoining) {
  std::ifstream file(folder / "state" / "security" / "admin.token");
  std::string kept;
  std::getline(file, kept);
  const auto exchanged = gate.exchange({}, kept, "a", make_request(*make_key()));
  ASSERT_TRUE(std::holds_alternative<Refusal>(exchanged));
  EXPECT_THAT(gate.metrics_text(), HasSubstr("{reason=\"wrong_token\"} 1"));
}

TEST_F(Https, CountsConnectionsThatAreNotTls) {
  asio::io_context io;
  tcp::socket socket(io);
  socket.connect(endpoint());
  boost::system::error_code error;
  asio::write(socket, asio::buffer(std::string("GET / HTTP/1.1\r\n\r\n")), error);
  std::string answer;
  asio::read(socket, asio::dynamic_buffer(answer), error);
  EXPECT_THAT(answer, Not(HasSubstr("you asked")));
  testing::wait_until(
      [&] { return gate.metrics_text().find("bad_handshake\"} 1") != std::string::npos; });
}

TEST_F(Https, ClosesTheOldestConnectionWithoutAHandshakeToAcceptANewConnection) {
  asio::io_context io;
  std::vector<tcp::socket> idle;
  for (int i = 0; i < 65; ++i) idle.emplace_back(io).connect(endpoint());
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
  char byte = 0;
  boost::system::error_code error;
  asio::read(idle.front(), asio::buffer(&byte, 1), error);
  EXPECT_TRUE(error) << "the oldest connection was not closed";
}

TEST_F(Https, ClosesAConnectionWithoutATlsShutdownOfTheClient) {
  EXPECT_THAT(answer_to("DELETE / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace pfc
