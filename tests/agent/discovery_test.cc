#include "agent/discovery.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <span>
#include <thread>

#include "common/error.h"
#include "common/files/sha256.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

const std::string kToken(32, 'a');
const Beacon kBeacon{.address = "10.0.0.1:7450", .fingerprint = std::string(64, '5')};

std::string hash_of(const std::string& token) {
  return sha256_hex(std::as_bytes(std::span(token)));
}

/// Sends the datagrams to this machine's port repeatedly. Others may listen there too.
class Voice {
 public:
  explicit Voice(std::vector<std::string> datagrams) : datagrams_(std::move(datagrams)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Voice() {
    ended_ = true;
    thread_.join();
  }

 private:
  void run() {
    const int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kBeaconPort);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (!ended_) {
      for (const std::string& each : datagrams_) {
        sendto(socket_fd, each.data(), each.size(), 0, reinterpret_cast<const sockaddr*>(&to),
               sizeof(to));
      }
      std::this_thread::sleep_for(5ms);  // sends until the test ends
    }
    close(socket_fd);
  }

  const std::vector<std::string> datagrams_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

TEST(Discover, FindsTheCoordinatorThatKnowsTheToken) {
  const Beacon other{.address = "10.0.0.9:1", .fingerprint = std::string(64, '6')};
  const Voice voice({"noise", "", std::string(2'000, 'x'), sign_beacon(other, hash_of("another")),
                     sign_beacon(kBeacon, hash_of(kToken))});
  const JoinString found = discover({.token = kToken, .limit = 60s, .notice = {}});
  EXPECT_EQ(found,
            (JoinString{
                .token = kToken, .address = kBeacon.address, .fingerprint = kBeacon.fingerprint}));
}

TEST(Discover, ReportsThatNoBeaconHasArrivedAndEndsAtItsTimeout) {
  const Voice voice({sign_beacon(kBeacon, hash_of("another"))});
  std::vector<std::string> told;
  try {
    discover({.token = std::string(32, 'b'),
              .limit = 2s,
              .patience = 20ms,
              .notice = [&](const auto& line) { told.push_back(line); }});
    ADD_FAILURE() << "accepted a beacon with another token";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(
                                  "found no beacon of a coordinator that knows this token within"));
  }
  ASSERT_FALSE(told.empty());
  EXPECT_THAT(told.front(), ::testing::HasSubstr("--beacon"));
}

}  // namespace
}  // namespace pfc
