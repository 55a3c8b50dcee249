#include "coordinator/rules/quiet_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(QuietHosts, AreReportedWhenTheyBecomeSilentAndWhenTheyReturn) {
  const TimePoint start{1000s};
  ClusterState state;
  state.hosts = {{.name = "a", .registered = true, .last_heard = start}, {.name = "not yet here"}};
  QuietHosts quiet;
  EXPECT_THAT(quiet.update(state, 30s, start + 4s), IsEmpty());
  EXPECT_THAT(quiet.update(state, 30s, start + 5s),
              ElementsAre("host a: its agent does not answer; the host counts as lost after 30 s"));
  EXPECT_THAT(quiet.update(state, 30s, start + 6s), IsEmpty());
  state.hosts[0].last_heard = start + 7s;
  EXPECT_THAT(quiet.update(state, 30s, start + 7s), ElementsAre("host a: its agent answers again"));
}

TEST(QuietHosts, AreNotReportedAgainOnceTheyWereDeclaredLost) {
  const TimePoint start{1000s};
  for (const bool is_back : {false, true}) {
    ClusterState state;
    state.hosts = {{.name = "a", .registered = true, .last_heard = start}};
    QuietHosts quiet;
    EXPECT_THAT(quiet.update(state, 30s, start + 5s), ::testing::SizeIs(1));
    state.hosts[0].registered = is_back;
    if (is_back) state.hosts[0].came_at = state.hosts[0].last_heard = start + 40s;
    EXPECT_THAT(quiet.update(state, 30s, start + 40s), IsEmpty());
  }
}

}  // namespace
}  // namespace pfc
