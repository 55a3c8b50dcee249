// Tests that the invariants of decide() hold in random histories of a cluster: workers die, become
// silent, lose their peers, join late or never; hosts are cut off, drained and come back; links
// break. To test millions of events, run rendezvous_simulation by hand.
#include <gtest/gtest.h>

#include "tests/coordinator/simulation/simulated_cluster.h"

namespace pfc {
namespace {

TEST(RendezvousSimulation, AlwaysEndsOrProgressesAndKeepsItsInvariants) {
  std::string problem;
  const testing::Tally tally = testing::simulate(60'000, 1, problem);
  EXPECT_EQ(problem, "");
  // The simulated events do happen.
  EXPECT_GT(tally.generations, 1'000);
  EXPECT_GT(tally.restarts, 500);
  EXPECT_GT(tally.planned, 50);
  EXPECT_GT(tally.smaller, 100);
  EXPECT_GT(tally.left_out, 20);
  EXPECT_GT(tally.stopped, 10);
  EXPECT_GT(tally.failed, 10);
}

}  // namespace
}  // namespace pfc
