#include "coordinator/rules/host_addresses.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

bool admits(const std::string& wish, const std::string& address,
            const std::string& interface = "eth0") {
  return NetworkWish(wish).admits({.interface = interface, .address = address, .prefix = 24});
}

TEST(NetworkOption, AdmitsTheAddressesOfANetwork) {
  EXPECT_TRUE(admits("10.0.0.0/8", "10.255.3.4"));
  EXPECT_FALSE(admits("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(admits("10.1.2.0/23", "10.1.3.255"));
  EXPECT_FALSE(admits("10.1.2.0/23", "10.1.4.0"));
  EXPECT_TRUE(admits("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(admits("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_TRUE(admits("0.0.0.0/0", "10.0.0.1"));
  EXPECT_FALSE(admits("0.0.0.0/0", "fd00::1"));
}

TEST(NetworkOption, AdmitsOneAddress) {
  EXPECT_TRUE(admits("10.0.0.1", "10.0.0.1"));
  EXPECT_FALSE(admits("10.0.0.1", "10.0.0.2"));
  EXPECT_TRUE(admits("FD00::0:1", "fd00::1"));
}

TEST(NetworkOption, AdmitsTheAddressesOfAnInterface) {
  EXPECT_TRUE(admits("eth1", "10.0.0.1", "eth1"));
  EXPECT_FALSE(admits("eth1", "10.0.0.1", "eth0"));
}

TEST(NetworkOption, AdmitsAllAddressesWhenEmpty) { EXPECT_TRUE(admits("", "fd00::1")); }

TEST(NetworkOption, RejectsInvalidNetworks) {
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0",
                           "a b", "fd00::/129", "eth0/8", "an_interface_name"}) {
    EXPECT_THROW(NetworkWish{text}, InputError) << text;
  }
  EXPECT_EQ(testing::message_of<InputError>([] { NetworkWish("10.0.0.0/33"); }),
            "--network: found '10.0.0.0/33', expected a network (10.0.0.0/8), an address, or an "
            "interface (eth0)");
}

TEST(NetworkOf, IsTheAddressWithoutTheBitsOfTheHost) {
  EXPECT_EQ(network_of({.interface = "eth0", .address = "10.1.2.77", .prefix = 26}),
            "10.1.2.64/26");
  EXPECT_EQ(network_of({.interface = "eth0", .address = "fd77::3:1", .prefix = 64}), "fd77::/64");
}

proto::NetworkAddress told(const std::string& interface, const std::string& address, int prefix) {
  proto::NetworkAddress added;
  added.set_interface(interface);
  added.set_address(address);
  added.set_prefix(prefix);
  added.set_mtu(-3);
  return added;
}

TEST(AddressesIn, OmitsInvalidAddresses) {
  proto::AgentRegistration registration;
  *registration.add_addresses() = told("eth0", "somewhere", 24);
  *registration.add_addresses() = told("a name with\nspaces", "10.0.0.1", 24);
  *registration.add_addresses() = told("eth1", "10.0.0.2", 77);
  const std::vector<HostAddress> expected{
      {.interface = "eth1", .address = "10.0.0.2", .prefix = 32, .mtu = 0}};
  EXPECT_EQ(addresses_in(registration), expected);
}

TEST(AddressesIn, ReturnsAtMost32) {
  proto::AgentRegistration registration;
  for (int i = 0; i < 1'000; ++i) *registration.add_addresses() = told("eth0", "10.0.0.1", 24);
  EXPECT_EQ(addresses_in(registration).size(), 32U);
}

}  // namespace
}  // namespace pfc
