#include "agent/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

proto::AgentMessage started(int slot) {
  proto::AgentMessage message;
  message.mutable_started()->set_slot(slot);
  return message;
}

proto::AgentMessage line(const std::string& text) {
  proto::AgentMessage message;
  message.mutable_output()->add_lines(text);
  return message;
}

TEST(Outbox, GivesEveryMessageOnceAndInOrder) {
  Outbox outbox;
  outbox.add_event(started(0));
  outbox.add_output(line("hello"));
  const auto messages = outbox.take();
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_TRUE(messages[0].has_started());
  EXPECT_EQ(messages[1].output().lines(0), "hello");
  EXPECT_THAT(outbox.take(), IsEmpty());
}

TEST(Outbox, KeepsTheEventsOfTheLastProcessInEachSlot) {
  Outbox outbox;
  outbox.add_event(started(0));
  outbox.add_event(started(1));
  outbox.take();
  EXPECT_THAT(outbox.events(), SizeIs(2));
  outbox.begin_incarnation(0);
  ASSERT_THAT(outbox.events(), SizeIs(1));
  EXPECT_EQ(outbox.events()[0].started().slot(), 1);
}

TEST(Outbox, KeepsNothingOfTheJobBefore) {
  Outbox outbox;
  outbox.add_event(started(0));
  outbox.add_output(line("hello"));
  outbox.begin_job();
  EXPECT_THAT(outbox.events(), IsEmpty());
  EXPECT_THAT(outbox.take(), IsEmpty());
}

TEST(Outbox, CountsTheOutputThatItDrops) {
  Outbox outbox;
  const std::string big(Outbox::kMaxOutputBytes / 4, 'x');
  for (int i = 0; i < 8; ++i) outbox.add_output(line(big));
  outbox.add_event(started(0));
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
