#include "agent/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

proto::AgentMessage started(Generation generation, Rank rank) {
  proto::AgentMessage message;
  message.set_generation(generation);
  message.mutable_started()->set_rank(rank);
  return message;
}

proto::AgentMessage line(const std::string& text) {
  proto::AgentMessage message;
  message.mutable_output()->add_lines(text);
  return message;
}

TEST(Outbox, GivesEveryMessageOnceAndInOrder) {
  Outbox outbox;
  outbox.add_event(started(1, 0));
  outbox.add_output(line("hello"));
  const auto messages = outbox.take();
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_TRUE(messages[0].has_started());
  EXPECT_EQ(messages[1].output().lines(0), "hello");
  EXPECT_THAT(outbox.take(), IsEmpty());
}

TEST(Outbox, KeepsTheEventsOfTheCurrentGeneration) {
  Outbox outbox;
  outbox.begin_generation(1);
  outbox.add_event(started(1, 0));
  outbox.take();
  EXPECT_THAT(outbox.events(), SizeIs(1));
  outbox.begin_generation(2);
  EXPECT_THAT(outbox.events(), IsEmpty());
}

TEST(Outbox, CountsTheOutputThatItDrops) {
  Outbox outbox;
  const std::string big(Outbox::kMaxOutputBytes / 4, 'x');
  for (int i = 0; i < 8; ++i) outbox.add_output(line(big));
  outbox.add_event(started(1, 0));
  const auto kept = outbox.take();
  EXPECT_THAT(kept, SizeIs(3 + 1)) << "events are never dropped";
  outbox.add_output(line("again"));
  const auto messages = outbox.take();
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_EQ(messages[0].output().lines(0), "(5 lines of output before this were dropped)");
  EXPECT_EQ(messages[1].output().lines(0), "again");
}

}  // namespace
}  // namespace pfc
