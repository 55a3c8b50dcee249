#include "coordinator/agents/fault_target.h"

#include <gmock/gmock.h>

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FaultOfAJob : public ::testing::Test {
 protected:
  FaultOfAJob() {
    state.hosts = {{.name = "a", .local = true, .address = "10.0.0.1"},
                   {.name = "b", .address = "10.0.0.2"},
                   {.name = "c", .address = "10.0.0.3"}};
    state.hosts[1].addresses = {{.interface = "eth0", .address = "10.0.0.2", .prefix = 24},
                                {.interface = "docker0", .address = "172.17.0.1", .prefix = 16}};
    state.hosts[2].addresses = {{.interface = "eth0", .address = "10.0.0.3", .prefix = 24},
                                {.interface = "eth1", .address = "fd00::3", .prefix = 64},
                                {.interface = "docker0", .address = "172.17.0.1", .prefix = 16}};
    state.job.current.workers = {
        {.rank = 0, .host = "a", .slot = 0, .pid = 4710},
        {.rank = 1, .host = "b", .slot = 1, .incarnation = 5, .pid = 4711}};
  }

  std::variant<FaultTarget, Refusal> target(bool agent_comes_back = true) {
    return fault_target(state, request, agent_comes_back);
  }
  std::string refusal(bool agent_comes_back = true) {
    const auto result = target(agent_comes_back);
    const auto* refused = std::get_if<Refusal>(&result);
    return refused == nullptr ? "not refused" : refused->message;
  }

  ClusterState state;
  proto::InjectFaultRequest request;
};

TEST_F(FaultOfAJob, NamesTheProcessOfAWorker) {
  request.set_kind(proto::FAULT_STOP_WORKER);
  request.set_rank(1);
  request.set_lasts_ms(2'500);
  const auto found = std::get<FaultTarget>(target());
  EXPECT_EQ(found.host, "b");
  EXPECT_EQ(found.fault.slot(), 1);
  EXPECT_EQ(found.fault.incarnation(), 5);
  EXPECT_EQ(to_text(found), "stops rank 1 (host b, slot 1, pid 4711) for 2.5 s");
}

TEST_F(FaultOfAJob, IsRefusedForAMissingWorker) {
  request.set_kind(proto::FAULT_KILL_WORKER);
  request.set_rank(2);
  EXPECT_THAT(refusal(), HasSubstr("rank 2 does not exist in this generation, which has 2"));
  request.set_rank(0);
  state.job.current.workers[0].exit = ProcessExit{.code = 1};
  EXPECT_EQ(refusal(), "rank 0 has ended already");
}

TEST_F(FaultOfAJob, CutsOnlyAddressesThatAreUniqueToOtherHosts) {
  request.set_kind(proto::FAULT_PARTITION);
  request.set_host("b");
  EXPECT_THAT(std::get<FaultTarget>(target()).fault.addresses(),
              ElementsAre("10.0.0.1", "10.0.0.3", "fd00::3"));
}

TEST_F(FaultOfAJob, IsRefusedForAnUnknownHost) {
  request.set_kind(proto::FAULT_PARTITION);
  request.set_host("d");
  EXPECT_THAT(refusal(), HasSubstr("unknown host d"));
}

TEST_F(FaultOfAJob, IsRefusedIfItWouldEndTheJob) {
  request.set_kind(proto::FAULT_KILL_AGENT);
  request.set_host("a");
  EXPECT_THAT(refusal(false), HasSubstr("the job would end without it"));
  EXPECT_EQ(refusal(true), "not refused");
  request.set_host("b");
  EXPECT_EQ(refusal(false), "not refused");
}

}  // namespace
}  // namespace pfc
