#include "agent/network/addresses.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace pfc {
namespace {

TEST(NetworkAddresses, HaveAnInterfaceAPrefixAndAnMtu) {
  const auto addresses = network_addresses();
  ASSERT_FALSE(addresses.empty()) << "expected at least the loopback address";
  for (const proto::NetworkAddress& each : addresses) {
    EXPECT_FALSE(each.interface().empty());
    EXPECT_GT(each.prefix(), 0) << each.address();
    EXPECT_GT(each.mtu(), 0) << each.address();
    EXPECT_FALSE(each.address().starts_with("fe80:"));
  }
}

TEST(NetworkAddresses, OmitLoopbackIfThereAreOthers) {
  std::set<bool> loopback;
  for (const proto::NetworkAddress& each : network_addresses()) {
    loopback.insert(each.address().starts_with("127.") || each.address() == "::1");
  }
  EXPECT_EQ(loopback.size(), 1U);
}

}  // namespace
}  // namespace pfc
