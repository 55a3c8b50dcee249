#include "coordinator/jobs/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/jobs/job_status.h"

namespace pfc {
namespace {

Job named(const std::string& id, std::size_t bytes = 2) {
  return {.id = id, .file = "job.json", .json = std::string(bytes, 'x')};
}

TEST(JobQueue, ReturnsJobsInOrderOfArrival) {
  JobQueue queue;
  for (const char* id : {"a", "b", "c"}) EXPECT_FALSE(queue.add(named(id)));
  EXPECT_EQ(queue.take("b")->id, "b");
  EXPECT_EQ(queue.take()->id, "a");
  EXPECT_EQ(queue.take()->id, "c");
  EXPECT_FALSE(queue.take());
  EXPECT_FALSE(queue.take("b"));
}

TEST(JobQueue, RefusesMoreJobsThanMayWait) {
  JobQueue queue;
  for (std::size_t i = 0; i < JobQueue::kMostWaiting; ++i) EXPECT_FALSE(queue.add(named("a")));
  EXPECT_EQ(queue.add(named("b"))->kind, Refusal::Kind::kOldGeneration);
  queue.take();
  EXPECT_FALSE(queue.add(named("b")));
}

TEST(JobQueue, RefusesMoreBytesThanMayWait) {
  JobQueue queue;
  EXPECT_FALSE(queue.add(named("a", JobQueue::kMostBytes - 1)));
  EXPECT_TRUE(queue.add(named("b", 2)));
  EXPECT_FALSE(queue.add(named("c", 1)));
  queue.take("a");
  EXPECT_FALSE(queue.add(named("b", 2)));
}

TEST(JobQueue, RemembersTheLastJobsThatHaveEnded) {
  JobQueue queue;
  for (int i = 0; i <= JobQueue::kMostEnded; ++i) {
    queue.remember(ended_job(named(std::to_string(i)), Verdict::Kind::kStopped, "out"));
  }
  EXPECT_EQ(queue.ended().jobs_size(), JobQueue::kMostEnded);
  EXPECT_EQ(queue.ended().jobs(0).status().job_id(), "1");
  EXPECT_EQ(queue.find_ended("0"), nullptr);
  EXPECT_EQ(queue.find_ended("2")->status().state(), "stopped");
}

TEST(JobQueue, ContinuesWithTheEndedJobsOfAnotherCoordinator) {
  JobQueue first, second;
  proto::EndedJob job = ended_job(named("a"), Verdict::Kind::kFailed, "no space");
  job.set_workers(3);
  job.add_first_ranks(0);
  job.add_first_ranks(2);
  first.remember(job);
  proto::EndedJobs saved;
  ASSERT_TRUE(saved.ParseFromString(first.ended().SerializeAsString()));
  second.restore(saved);
  const proto::EndedJob* const restored = second.find_ended("a");
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(restored->SerializeAsString(), job.SerializeAsString());
  EXPECT_EQ(restored->status().started_ms(), 0) << "the job has not begun";
}

}  // namespace
}  // namespace pfc
