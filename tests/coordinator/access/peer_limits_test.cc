#include "coordinator/access/peer_limits.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

using namespace std::chrono_literals;

TEST(PeerLimits, RefuseCallsBeyondTheRateOfOnePeer) {
  PeerLimits limits(10, 20);
  TimePoint now = Clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(limits.may_call("a", now));
  EXPECT_FALSE(limits.may_call("a", now));
  EXPECT_TRUE(limits.may_call("b", now));
  now += 500ms;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(limits.may_call("a", now));
  EXPECT_FALSE(limits.may_call("a", now));
}

TEST(PeerLimits, RefuseFurtherRepliesToAPeerThatDoesNotReadEarlierOnes) {
  PeerLimits limits(10, 20);
  EXPECT_TRUE(limits.may_send("a", kMostWaitingBytes));
  EXPECT_FALSE(limits.may_send("a", 1));
  EXPECT_TRUE(limits.may_send("b", 1));
  limits.sent("a", kMostWaitingBytes);
  EXPECT_TRUE(limits.may_send("a", 1));
}

TEST(PeerLimits, ForgetPeersOnlyWhenTheirAllowanceIsFullAgain) {
  PeerLimits limits(10, 20);
  TimePoint now = Clock::now();
  for (int i = 0; i < 20; ++i) limits.may_call("a", now);
  for (int i = 0; i < 5'000; ++i) limits.may_call(std::to_string(i), now);
  EXPECT_FALSE(limits.may_call("a", now)) << "a forgotten peer could call again";
}

}  // namespace
}  // namespace pfc
