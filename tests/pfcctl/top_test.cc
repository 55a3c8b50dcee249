#include "pfcctl/top.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void add_worker(proto::StatusReply& status, const std::string& state, double own_seconds) {
  proto::WorkerStatus* worker = status.add_workers();
  worker->set_rank(status.workers_size() - 1);
  worker->set_host("a");
  worker->set_state(state);
  worker->set_own_step_seconds(own_seconds);
}

proto::StatusReply four_workers() {
  proto::StatusReply status;
  status.set_state("training");
  add_worker(status, "training", 0.2);
  add_worker(status, "training", 0.4);
  add_worker(status, "no progress", 0.2);
  add_worker(status, "training", 0.2);
  slowest_first(status);
  return status;
}

TEST(Top, ListsStuckWorkersFirstThenTheSlowest) {
  const proto::StatusReply status = four_workers();
  std::vector<int> ranks;
  for (const proto::WorkerStatus& worker : status.workers()) ranks.push_back(worker.rank());
  EXPECT_EQ(ranks, (std::vector<int>{2, 1, 0, 3}));
}

TEST(Top, ListsWorkersWithoutATimeLast) {
  proto::StatusReply status = four_workers();
  for (proto::WorkerStatus& worker : *status.mutable_workers()) {
    if (worker.rank() == 1) worker.set_own_step_seconds(std::nan(""));
  }
  slowest_first(status);
  EXPECT_EQ(status.workers(3).rank(), 1);
}

TEST(Top, FillsTheScreenAndCountsTheOthers) {
  const std::string text = top_text(four_workers(), 2);
  EXPECT_THAT(text, HasSubstr("    1  a"));
  EXPECT_THAT(text, Not(HasSubstr("    0  a")));
  EXPECT_THAT(text, HasSubstr("and 2 faster ranks\n"));
  EXPECT_THAT(top_text(four_workers(), 4), Not(HasSubstr("faster")));
}

TEST(Top, ShowsWhereTheTimeGoes) {
  proto::StatusReply status;
  status.set_state("training");
  add_worker(status, "training", 0.25);
  proto::WorkerStatus& worker = *status.mutable_workers(0);
  worker.set_slowness(2.1);
  worker.mutable_progress()->set_step_seconds(10);
  worker.mutable_progress()->set_own_seconds(8);
  worker.mutable_progress()->set_own_data_wait_seconds(1);
  worker.mutable_progress()->mutable_gpu()->set_utilisation(0.93);
  worker.mutable_progress()->mutable_gpu()->set_throttled(true);
  const std::string text = top_text(status, 10);
  for (const char* part : {" 250 ms", " 2.1x", " 80 %", " 10 %", " 93 %!"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Top, RemovesControlCharactersFromAWorker) {
  proto::StatusReply status;
  add_worker(status, "training\x1b[2J", 0);
  status.mutable_workers(0)->set_host("a\nb");
  EXPECT_THAT(top_text(status, 10), Not(HasSubstr("\x1b")));
  EXPECT_THAT(top_text(status, 10), Not(HasSubstr("a\nb")));
}

TEST(Top, PrintsOneLineIfNoJobRuns) {
  proto::StatusReply status;
  status.set_state("idle");
  EXPECT_EQ(top_text(status, 10), "idle\n");
}

}  // namespace
}  // namespace pfc
