#include "common/network_address.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

TEST(JoinHostPort, PutsAnIpv6AddressInBrackets) {
  EXPECT_EQ(join_host_port("a", 7450), "a:7450");
  EXPECT_EQ(join_host_port("10.0.0.2", 7450), "10.0.0.2:7450");
  EXPECT_EQ(join_host_port("2001:db8::7", 7450), "[2001:db8::7]:7450");
}

TEST(PlainAddress, IsTheShortestForm) {
  EXPECT_EQ(plain_address("[2001:DB8:0::0:7]"), "2001:db8::7");
  EXPECT_EQ(plain_address("::ffff:10.0.0.2"), "10.0.0.2");
  EXPECT_EQ(plain_address("10.0.0.2"), "10.0.0.2");
}

TEST(PlainAddress, LeavesTextThatIsNoAddressUnchanged) {
  for (const char* name : {"", "a", "node-7.cluster", "[", "[]", "[a]"}) {
    EXPECT_EQ(plain_address(name), name);
  }
}

TEST(AddressOfPeer, ReadsWhatGrpcWrites) {
  EXPECT_EQ(address_of_peer("ipv4:10.0.0.2:4711"), "10.0.0.2");
  EXPECT_EQ(address_of_peer("ipv6:%5B2001:db8::7%5D:4711"), "2001:db8::7");
  EXPECT_EQ(address_of_peer("ipv6:[::1]:4711"), "::1");
  EXPECT_EQ(address_of_peer("ipv6:%5B::ffff:10.0.0.2%5D:4711"), "10.0.0.2");
  EXPECT_EQ(address_of_peer("unix:/run/pfc"), "unix:/run/pfc");
}

TEST(HostOf, ReadsNamesAndAddresses) {
  EXPECT_EQ(host_of("a:7450"), "a");
  EXPECT_EQ(host_of("10.0.0.2:1"), "10.0.0.2");
  EXPECT_EQ(host_of("[2001:db8::7]:65535"), "2001:db8::7");
}

TEST(HostOf, IsEmptyUnlessTheTextIsHostAndPort) {
  for (const char* wrong : {"", "a", ":1", "a:", "a:0", "a:65536", "a:x", "2001:db8::7:7450",
                            "[2001:db8::7]", "[a]:1", "[]:1"}) {
    EXPECT_EQ(host_of(wrong), "") << wrong;
  }
}

}  // namespace
}  // namespace pfc
