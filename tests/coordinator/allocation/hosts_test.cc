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
  EXPECT_FALSE(looked_up("no-such-host.invalid").resolves);
  EXPECT_TRUE(looked_up("localhost").resolves);
  EXPECT_TRUE(looked_up("203.0.113.7").resolves);
}

TEST(LookUpHosts, RefusesTwoNamesOfThisMachine) {
  std::vector<HostSpec> hosts = parse_hosts("localhost:1,127.0.0.1:2");
  EXPECT_THAT(testing::message_of<InputError>([&] { look_up_hosts(hosts); }),
              HasSubstr("'localhost' and '127.0.0.1' are both this machine"));
}

TEST(AddressTowards, IsOfTheFamilyOfThePeer) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_towards("::1"), "::1");
}

}  // namespace
}  // namespace pfc
