#include "comm/network_interface.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

TEST(NetworkInterface, IsFoundByAddressAndByHostName) {
  EXPECT_EQ(network_interface_of("127.0.0.1"), "lo");
  EXPECT_EQ(network_interface_of("localhost"), "lo");
}

TEST(NetworkInterface, IsEmptyForAnAddressOfAnotherMachine) {
  EXPECT_EQ(network_interface_of("192.0.2.1"), "");  // RFC 5737: belongs to no machine
  EXPECT_EQ(network_interface_of("no such host"), "");
}

}  // namespace
}  // namespace pfc
