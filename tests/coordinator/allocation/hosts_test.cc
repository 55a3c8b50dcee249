#include "coordinator/allocation/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;

HostSpec looked_up(const std::string& host) {
  std::vector<HostSpec> hosts = parse_hosts(host);
  look_up_hosts(hosts);
  return hosts.front();
}

TEST(LookUpHosts, FindsThisMachineByItsLoopbackAddresses) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "[::1]"}) {
    EXPECT_TRUE(looked_up(host).local) << host;
  }
  EXPECT_FALSE(looked_up("203.0.113.7").local);
  EXPECT_FALSE(looked_up("[2001:db8::7]").local);
}

TEST(LookUpHosts, MarksANameWithoutAddress) {
  std::vector<HostSpec> hosts = parse_hosts("no-such-host");
  look_up_hosts(hosts, [](const std::string&) { return std::vector<std::string>(); });
  EXPECT_FALSE(hosts.front().resolves);
  EXPECT_TRUE(hosts.front().answered);
  look_up_hosts(hosts, [](const std::string&) { return std::nullopt; });
  EXPECT_FALSE(hosts.front().answered) << "no name server has answered";
  EXPECT_TRUE(looked_up("localhost").resolves);
  EXPECT_TRUE(looked_up("203.0.113.7").resolves);
}

TEST(LookUpHosts, ReportsAForeignNameThatResolvesToLoopback) {
  std::vector<HostSpec> hosts = parse_hosts("h2,h3");
  look_up_hosts(hosts, [](const std::string& name) {
    return std::vector<std::string>{name == "h2" ? "127.0.1.1" : "203.0.113.7"};
  });
  EXPECT_TRUE(hosts[0].local);
  EXPECT_EQ(hosts[0].loopback, "127.0.1.1");
  EXPECT_EQ(hosts[1].loopback, "");
  EXPECT_EQ(looked_up("localhost").loopback, "");
}

TEST(LookUpHosts, RefusesToListThisMachineUnderTwoNames) {
  std::vector<HostSpec> hosts = parse_hosts("localhost:1,127.0.0.1:2");
  EXPECT_THAT(testing::message_of<InputError>([&] { look_up_hosts(hosts); }),
              HasSubstr("'localhost' and '127.0.0.1' are both this machine"));
}

TEST(AddressTowards, HasTheAddressFamilyOfThePeer) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_towards("::1"), "::1");
}

}  // namespace
}  // namespace pfc
