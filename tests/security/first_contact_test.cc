#include "security/first_contact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <ctime>
#include <string>
#include <thread>

#include "common/error.h"
#include "security/authority.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::message_of;

constexpr std::time_t kDay = 86'400;

/// A port where the kernel accepts connections, but no program answers.
class SilentPort {
 public:
  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  }

  boost::asio::io_context loop;
  tcp::acceptor acceptor{loop, {boost::asio::ip::address_v4::loopback(), 0}};
};

/// Shows the certificate of a coordinator to one client.
class FirstContact : public ::testing::Test {
 protected:
  ~FirstContact() override {
    if (server_.joinable()) server_.join();
  }

  std::string contact_at(std::time_t now) {
    server_ = std::thread([this] { serve(); });
    return fetch_authority(port_.address(), authority_.fingerprint(), 60s, now);
  }

  TemporaryFolder folder_;
  Authority authority_{folder_.path()};
  SilentPort port_;

 private:
  void serve() {
    const Credential own = authority_.make_credential({.role = Role::kServer});
    boost::asio::ssl::context tls(boost::asio::ssl::context::tls_server);
    tls.use_certificate_chain(boost::asio::buffer(own.certificate + authority_.certificate()));
    tls.use_private_key(boost::asio::buffer(own.key), boost::asio::ssl::context::pem);
    boost::asio::ssl::stream<tcp::socket> stream(port_.acceptor.accept(), tls);
    boost::system::error_code ignored;  // the client may have ended
    stream.handshake(boost::asio::ssl::stream_base::server, ignored);
  }

  std::thread server_;
};

TEST_F(FirstContact, ReturnsTheAuthority) {
  EXPECT_EQ(contact_at(std::time(nullptr)), authority_.certificate());
}

TEST_F(FirstContact, ReportsASlowClock) {
  EXPECT_THAT(message_of<ClockError>([&] { contact_at(std::time(nullptr) - 2 * kDay); }),
              AllOf(HasSubstr(port_.address() + ": its certificate is not valid yet; this host's "
                                                "clock says "),
                    MatchesRegex(".* 20..-..-.. ..:.. UTC; set the clock.*")));
}

TEST_F(FirstContact, ReportsAClockThatIsYearsAhead) {
  EXPECT_THAT(message_of<ClockError>([&] { contact_at(std::time(nullptr) + 4'000 * kDay); }),
              HasSubstr(": its certificate has expired; this host's clock says "));
}

TEST(FirstContactWithASilentPort, SuggestsTheMtu) {
  const SilentPort port;
  EXPECT_THAT(
      message_of<CommError>([&] { fetch_authority(port.address(), "", 50ms); }),
      AllOf(HasSubstr("connected over TCP, but the TLS handshake timed out"), HasSubstr("MTU")));
}

}  // namespace
}  // namespace pfc
