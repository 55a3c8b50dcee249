#include "pfcctl/chaos/recovery.h"

#include <gmock/gmock.h>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class RecoveryOfAJob : public ::testing::Test {
 protected:
  /// Passes a status on. Returns from how many faults training has resumed since the last status.
  std::size_t sees(std::chrono::milliseconds at, std::int64_t generation, std::int64_t images,
                   bool trains = true, bool has_stepped = true) {
    view = {.at = at,
            .generation = generation,
            .trains = trains,
            .images_seen = images,
            .has_stepped = has_stepped};
    return recovery.see(view).size();
  }
  void breaks(proto::FaultKind kind, std::chrono::milliseconds lasts = 0ms) {
    recovery.done({.kind = kind, .target = "rank 1", .lasts = lasts, .before = view, .took = {}});
  }

  Recovery recovery;
  JobView view;
};

TEST_F(RecoveryOfAJob, RecoversFromAKillWithTheFirstStepOfTheNextGeneration) {
  sees(1000ms, 1, 80);
  breaks(proto::FAULT_KILL_WORKER);
  EXPECT_EQ(sees(1100ms, 1, 88), 0) << "this step had begun before the fault";
  EXPECT_EQ(sees(1500ms, 2, 40, false, false), 0) << "the workers still join";
  EXPECT_EQ(sees(2500ms, 2, 40, true, false), 0) << "the generation has only loaded its state";
  EXPECT_EQ(sees(3000ms, 2, 48), 1);
  EXPECT_EQ(recovery.faults()[0].took, 2000ms);
  EXPECT_FALSE(recovery.waits_since());
}

TEST_F(RecoveryOfAJob, RecoversFromAnUndetectedStopOfAWorkerWithTheNextStep) {
  sees(1000ms, 1, 80);
  breaks(proto::FAULT_STOP_WORKER, 5s);
  EXPECT_EQ(sees(1100ms, 1, 88), 0);
  EXPECT_EQ(sees(6000ms, 1, 88), 0);
  EXPECT_EQ(sees(6100ms, 1, 88), 0);
  EXPECT_EQ(sees(6200ms, 1, 96), 1);
}

TEST_F(RecoveryOfAJob, RecoversWhileAWorkerIsStillStoppedIfTheNextGenerationTrains) {
  sees(1000ms, 1, 80);
  breaks(proto::FAULT_STOP_WORKER, 50s);
  EXPECT_EQ(sees(9000ms, 2, 48), 1);
}

TEST_F(RecoveryOfAJob, RecoversInTheSameGenerationFromAKillBeforeJoining) {
  sees(1000ms, 2, 40, false, false);
  breaks(proto::FAULT_KILL_WORKER);
  EXPECT_EQ(sees(1500ms, 2, 40, true, false), 0);
  EXPECT_EQ(sees(2000ms, 2, 48), 1);
}

TEST_F(RecoveryOfAJob, CanRecoverFromTwoFaultsWithOneStep) {
  sees(1000ms, 1, 80);
  breaks(proto::FAULT_KILL_WORKER);
  breaks(proto::FAULT_KILL_AGENT);
  EXPECT_EQ(recovery.waits_since(), 1000ms);
  EXPECT_EQ(sees(2000ms, 2, 48), 2);
}

TEST_F(RecoveryOfAJob, SummaryHasOneLinePerKind) {
  sees(0ms, 1, 0);
  const JobView begin = view;
  breaks(proto::FAULT_KILL_WORKER);
  sees(2000ms, 2, 48);
  breaks(proto::FAULT_KILL_WORKER);
  sees(6000ms, 3, 96);
  breaks(proto::FAULT_PARTITION, 1s);
  sees(10'000ms, 3, 500, false);
  view.images_lost = 30;
  const std::string text =
      summary(recovery.faults(), {.rate_before = 100, .begin = begin, .end = view, .refused = 1});
  EXPECT_THAT(text, HasSubstr("kill               2        2     2.0 s     4.0 s\n"));
  EXPECT_THAT(text, HasSubstr("partition          1        0         -         -\n"));
  EXPECT_THAT(text, HasSubstr("1 more were not injected\n"));
  EXPECT_THAT(text, HasSubstr("images lost: 30, 10.0 a fault\n"));
  EXPECT_THAT(text, HasSubstr("goodput: 50.0 images/s that count, over 10 s; 50.0 % of the 100.0"));
}

TEST(ViewOfAJob, ShowsWhetherThisGenerationHasFinishedAStep) {
  proto::StatusReply status;
  EXPECT_FALSE(view_of(status, 0ms).trains);
  status.set_state("training");
  proto::Progress* lead = status.add_workers()->mutable_progress();
  lead->set_images_seen(64);
  lead->set_resumed_images(64);
  EXPECT_FALSE(view_of(status, 0ms).has_stepped);
  lead->set_images_seen(72);
  EXPECT_TRUE(view_of(status, 0ms).has_stepped);
}

}  // namespace
}  // namespace pfc
