#include "coordinator/jobs/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  for (std::size_t i = 0; i <= JobQueue::kMostEnded; ++i) {
    queue.remember({.id = std::to_string(i), .started = {}});
  }
  EXPECT_EQ(queue.ended().size(), JobQueue::kMostEnded);
  EXPECT_EQ(queue.ended().front().id, "1");
}

}  // namespace
}  // namespace pfc
