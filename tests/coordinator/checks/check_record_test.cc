#include "coordinator/checks/check_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/version.h"
#include "proto/check_text.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class CheckOfTwoHosts : public ::testing::Test {
 protected:
  CheckOfTwoHosts() {
    for (const char* name : {"host-a", "host-b"}) {
      state.hosts.push_back({.name = name, .slots = 1, .registered = true, .agent_id = name});
      WorkerState& worker = state.job.current.workers.emplace_back();
      worker.rank = static_cast<Rank>(state.job.current.workers.size()) - 1;
      worker.host = name;
    }
    state.job.current.number = 1;
    state.job.started_at = now;
    state.address = "10.0.0.1:7450";
  }

  void tells(Rank rank, const std::string& what, const std::string& found,
             proto::CheckComparison comparison = proto::CHECK_NOT_COMPARED) {
    proto::ReportCheckRequest request;
    proto::CheckFinding& finding = *request.add_findings();
    finding.set_host("somebody else");
    finding.set_rank(-1);
    finding.set_what(what);
    finding.set_found(found);
    finding.set_comparison(comparison);
    finding.set_otherwise(proto::CHECK_STOPS);
    record.add(state.job.current.workers.at(rank), request);
  }

  proto::CheckReport report() { return record.report(state, refused, now); }

  TimePoint now{std::chrono::seconds{1000}};
  ClusterState state;
  CheckRecord record;
  RefusedAgents refused;
};

TEST_F(CheckOfTwoHosts, FillsInTheHostOfAWorkersFinding) {
  tells(1, "open files", "1024");
  ASSERT_THAT(report().findings(), SizeIs(1));
  EXPECT_EQ(report().findings(0).host(), "host-b");
}

TEST_F(CheckOfTwoHosts, NamesAHostThatIsLeaving) {
  state.hosts[1].leaving = Leaving{.reason = "pfcctl drain", .within = {}, .at = now};
  ASSERT_THAT(report().findings(), SizeIs(1));
  const proto::CheckFinding finding = report().findings(0);
  EXPECT_EQ(finding.host(), "host-b");
  EXPECT_EQ(finding.found(), "the host is being drained: pfcctl drain");
  EXPECT_THAT(finding.remedy(), HasSubstr("start the agent of this host again"));
  EXPECT_EQ(finding.verdict(), proto::CHECK_STOPS);
}

TEST_F(CheckOfTwoHosts, SanitizesTheTextsOfAWorker) {
  tells(0, "open\nfiles", "\x1b[31m1024");
  EXPECT_EQ(report().findings(0).what(), "open files");
  EXPECT_EQ(report().findings(0).found(), " [31m1024");
}

TEST_F(CheckOfTwoHosts, ExpectsWorkersOfTheCoordinatorsVersion) {
  tells(0, "pfc-worker", std::string("version ") + version(), proto::CHECK_SAME_EVERYWHERE);
  tells(1, "pfc-worker", "version 9.9.9", proto::CHECK_SAME_EVERYWHERE);
  const proto::CheckReport found = report();
  EXPECT_EQ(found.findings(0).host(), "host-b");
  EXPECT_EQ(found.findings(0).verdict(), proto::CHECK_STOPS);
  EXPECT_THAT(found.findings(0).expected(), HasSubstr("as the coordinator has"));
}

TEST_F(CheckOfTwoHosts, ReportsTheEndOfAWorkerOnce) {
  worker_exited(state, state.job.current.workers[1], ProcessExit{.signal = 9}, {}, now);
  record.note(state);
  record.note(state);
  ASSERT_THAT(report().findings(), SizeIs(1));
  EXPECT_EQ(report().findings(0).host(), "host-b");
  EXPECT_THAT(report().findings(0).found(), HasSubstr("SIGKILL"));
  EXPECT_EQ(report().findings(0).verdict(), proto::CHECK_STOPS);
}

TEST_F(CheckOfTwoHosts, SaysHowToStartTheAgentOfAMissingHost) {
  state.hosts[1].registered = false;
  ASSERT_THAT(report().findings(), SizeIs(1));
  EXPECT_EQ(report().findings(0).found(), "none has registered");
  EXPECT_THAT(report().findings(0).remedy(),
              AllOf(HasSubstr("pfc-agent --coordinator 10.0.0.1:7450 --host host-b"),
                    HasSubstr("firewalls")));
}

TEST_F(CheckOfTwoHosts, SaysWhyTheAgentOfAHostWasRefused) {
  state.hosts[1].registered = false;
  refused.add("host-b.example.com", "host host-b runs pfc 9.9.9, the coordinator 0.1.0", now);
  ASSERT_THAT(report().findings(), SizeIs(1));
  EXPECT_THAT(report().findings(0).found(), HasSubstr("refused: host host-b runs pfc 9.9.9"));
}

TEST_F(CheckOfTwoHosts, ReportsASecondAgentOfAHost) {
  refused.add("host-b", "host host-b has an agent already", now);
  ASSERT_THAT(report().findings(), SizeIs(1));
  EXPECT_THAT(report().findings(0).found(), HasSubstr("another agent was refused"));
  EXPECT_EQ(report().findings(0).verdict(), proto::CHECK_STOPS);
}

TEST_F(CheckOfTwoHosts, IgnoresASecondAgentThatHasStoppedRetrying) {
  refused.add("host-b", "host host-b has an agent already", now - std::chrono::seconds{61});
  EXPECT_THAT(report().findings(), SizeIs(0));
}

TEST_F(CheckOfTwoHosts, NotesAnAgentOfAnUnlistedHost) {
  refused.add("elsewhere", "host elsewhere is not in the coordinator's --hosts", now);
  ASSERT_THAT(report().findings(), SizeIs(1));
  EXPECT_EQ(report().findings(0).verdict(), proto::CHECK_NOTE);
  EXPECT_EQ(count_of(report(), proto::CHECK_STOPS), 0);
}

TEST_F(CheckOfTwoHosts, ForgetsTheRefusalOfAnAgentThatWasAdmittedLater) {
  refused.add("host-b", "it was of another version", now);
  refused.forget("host-b");
  EXPECT_THAT(report().findings(), SizeIs(0));
}

TEST_F(CheckOfTwoHosts, KeepsABoundedNumberOfRefusals) {
  for (std::size_t i = 0; i < 2 * RefusedAgents::kMost; ++i) {
    refused.add("host" + std::to_string(i), "why", now);
  }
  EXPECT_EQ(refused.last().size(), RefusedAgents::kMost);
}

TEST_F(CheckOfTwoHosts, KeepsABoundedNumberOfFindings) {
  for (std::size_t i = 0; i < CheckRecord::kMostFindings + 5; ++i) tells(0, "x", "y");
  EXPECT_THAT(report().findings(), SizeIs(CheckRecord::kMostFindings + 1));
  EXPECT_EQ(report().findings(0).what(), "check");
}

TEST(RefusedAgents, ForgetTheReasonOfAnAgentThatIsAdmitted) {
  RefusedAgents refused;
  const TimePoint now = Clock::now();
  EXPECT_EQ(refused.newest(), "");
  EXPECT_TRUE(refused.add("a", "another version", now));
  EXPECT_TRUE(refused.add("b", "not in --hosts", now + std::chrono::seconds{1}));
  EXPECT_EQ(refused.newest(), "not in --hosts");
  refused.forget("b");
  EXPECT_EQ(refused.newest(), "another version");
  refused.forget("a");
  EXPECT_EQ(refused.newest(), "");
}

TEST(RefusedAgents, ArePrintedOnceAMinute) {
  RefusedAgents refused;
  const TimePoint now = Clock::now();
  EXPECT_TRUE(refused.add("a", "one reason", now));
  EXPECT_FALSE(refused.add("a", "one reason", now + std::chrono::seconds{90}));
  EXPECT_FALSE(refused.add("a", "another reason", now + std::chrono::seconds{100}));
  EXPECT_TRUE(refused.add("a", "a third reason", now + std::chrono::seconds{170}));
}

}  // namespace
}  // namespace pfc
