#include "agent/workers/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <stdexcept>

namespace pfc {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Returns the hardware threads of each worker, by slot.
std::vector<std::vector<int>> plan(const std::string& machine, BindMode mode, int workers,
                                   const std::vector<int>& near = {}) {
  std::vector<std::vector<int>> cpus;
  for (const Binding& each : plan_binding(Topology::synthetic(machine), mode, workers, near)) {
    cpus.push_back(each.cpus);
  }
  return cpus;
}

TEST(PlanBinding, AssignsWholeCores) {
  EXPECT_THAT(plan("numa:1 core:2 pu:2", BindMode::kCores, 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(PlanBinding, MakesSharesContiguous) {
  EXPECT_THAT(plan("numa:2 core:4 pu:1", BindMode::kCores, 2),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(plan("numa:1 core:5 pu:1", BindMode::kCores, 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
}

TEST(PlanBinding, ReturnsTheNumberOfCoresOfEachWorker) {
  EXPECT_THAT(plan_binding(Topology::synthetic("numa:1 core:4 pu:2"), BindMode::kCores, 2, {}),
              Each(Field(&Binding::cores, 2)));
}

TEST(PlanBinding, GivesAWorkerAllCoresOfItsNumaNodes) {
  EXPECT_THAT(
      plan("numa:2 core:2 pu:1", BindMode::kNuma, 4),
      ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(2, 3)));
  EXPECT_THAT(plan("numa:4 core:2 pu:1", BindMode::kNuma, 2),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
}

TEST(PlanBinding, BindsNoWorkerIfItWouldGetAllNumaNodes) {
  EXPECT_THAT(plan("numa:1 core:4 pu:1", BindMode::kNuma, 2), Each(IsEmpty()));
  EXPECT_THAT(plan("numa:2 core:4 pu:1", BindMode::kNuma, 1), Each(IsEmpty()));
}

TEST(PlanBinding, BindsNoWorkerIfThereAreMoreWorkersThanCores) {
  EXPECT_THAT(plan("numa:1 core:2 pu:2", BindMode::kCores, 3), Each(IsEmpty()));
  EXPECT_THAT(plan("numa:1 core:2 pu:2", BindMode::kCores, 3), SizeIs(3));
}

TEST(PlanBinding, BindsNoWorkerInModeNone) {
  EXPECT_THAT(plan("numa:2 core:4 pu:1", BindMode::kNone, 2), Each(IsEmpty()));
}

TEST(PlanBinding, PutsWorkersNearTheirGpus) {
  EXPECT_THAT(plan("numa:2 core:2 pu:1", BindMode::kCores, 3, {1, 0, 1}),
              ElementsAre(ElementsAre(2), ElementsAre(0, 1), ElementsAre(3)));
  EXPECT_THAT(plan("numa:2 core:2 pu:1", BindMode::kNuma, 2, {1, 1}),
              ElementsAre(ElementsAre(2, 3), ElementsAre(2, 3)));
}

TEST(PlanBinding, DividesTheCoresEquallyIfTheNumaNodeOfAGpuIsUnknownOrTooSmall) {
  for (const std::vector<int>& near : {std::vector{1, -1}, {1}, {1, 9}, {1, 1}}) {
    EXPECT_THAT(plan("numa:2 core:1 pu:1", BindMode::kCores, 2, near),
                ElementsAre(ElementsAre(0), ElementsAre(1)));
  }
}

TEST(TopologyHere, HasNoNodeForAMissingDevice) {
  EXPECT_EQ(Topology::here().node_of_device("ffff:ff:1f.7"), -1);
  EXPECT_EQ(Topology::here().node_of_device("nonsense"), -1);
}

TEST(TopologyHere, HasTheCoresOfThisProcessOnly) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const std::vector<std::vector<int>> cores = Topology::here().cores();
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_THAT(cores, ElementsAre(ElementsAre(first)));
}

TEST(TopologySynthetic, RejectsAnInvalidDescription) {
  EXPECT_THROW(Topology::synthetic("nonsense"), std::runtime_error);
}

}  // namespace
}  // namespace pfc
