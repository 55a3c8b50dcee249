// Tests the status text of pfcctl, and pfcctl stop.
#include "pfcctl/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "coordinator/access/gate.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/pfcctl/run_pfcctl.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

proto::StatusReply training(const std::string& state) {
  proto::StatusReply status;
  status.set_state("training");
  proto::WorkerStatus* worker = status.add_workers();
  worker->set_rank(1);
  worker->set_state(state);
  worker->set_stuck_seconds(43.4);
  worker->mutable_progress()->set_step(120);
  worker->mutable_progress()->set_phase("all_gather");
  return status;
}

TEST(StatusText, ShowsAWorkerWithoutProgressAndItsPhase) {
  EXPECT_THAT(status_text(training("no progress")),
              HasSubstr("rank 1 has made no progress for 43 s: step 120, phase all_gather\n"));
  EXPECT_THAT(status_text(training("training")), Not(HasSubstr("has made no progress")));
}

TEST(StatusText, RemovesControlCharactersFromOtherPrograms) {
  proto::StatusReply status = training("no progress\x1b[2J");
  status.set_reason("waiting\njob completed");
  status.mutable_workers(0)->set_host("a\nb");
  status.mutable_workers(0)->mutable_progress()->set_phase("x\r" + std::string(1'000, 'y'));
  const std::string text = status_text(status);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, HasSubstr("waiting job completed\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << "the state, the head and one row";
}

class PfcctlStop : public ::testing::Test {
 protected:
  [[nodiscard]] Ran stop(const std::string& options, const std::string& address) const {
    return pfcctl("stop " + options + " --state-dir " + state.path().string() + " --coordinator " +
                  address);
  }

  TemporaryFolder state;
  Gate gate{{.state_dir = state.path()}};
  /// This coordinator still waits for its host.
  testing::RunningCoordinator coordinator{
      {{.name = "elsewhere", .slots = 1}}, testing::impatient(), 0, "0123456789abcdef", &gate};
};

TEST_F(PfcctlStop, EndsTheJob) {
  expect_tells(stop("", coordinator.address()),
               {"the workers are ending; if they train, they write a checkpoint first"});
  const Verdict verdict = coordinator.verdict();
  EXPECT_EQ(verdict.kind, Verdict::Kind::kStopped);
  EXPECT_EQ(verdict.message, "job stopped by pfcctl stop before training began");
}

TEST_F(PfcctlStop, OptionNowEndsTheJobImmediately) {
  expect_tells(stop("--now", coordinator.address()), {"the job is ending"});
  EXPECT_EQ(coordinator.verdict().kind, Verdict::Kind::kStopped);
}

TEST_F(PfcctlStop, FailsAndNamesTheAddressIfThereIsNoCoordinator) {
  const Ran ran = stop("", "127.0.0.1:1");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.output, HasSubstr("pfcctl: error: coordinator 127.0.0.1:1 does not answer"));
}

}  // namespace
}  // namespace pfc
