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

TEST(Outbox, ReturnsEveryMessageOnceAndInOrder) {
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

TEST(Outbox, DropsMessagesOfThePreviousJob) {
  Outbox outbox;
  outbox.add_event(started(0));
  outbox.add_output(line("hello"));
  outbox.begin_job();
  EXPECT_THAT(outbox.events(), IsEmpty());
  EXPECT_THAT(outbox.take(), IsEmpty());
}

TEST(Outbox, KeepsTheEndOfTheOutputAndCountsDroppedLines) {
  Outbox outbox;
  outbox.add_event(started(0));
  const std::string big(Outbox::kMaxOutputBytes / 4, 'x');
  for (int i = 0; i < 8; ++i) outbox.add_output(line(std::to_string(i) + big));
  const auto messages = outbox.take();
  ASSERT_THAT(messages, SizeIs(1 + 1 + 3)) << "events are never dropped";
  EXPECT_EQ(messages[0].output().lines(0),
            "(dropped here: 5 lines of output, which could not be sent in time)");
  EXPECT_TRUE(messages[1].has_started());
  EXPECT_TRUE(messages[2].output().lines(0).starts_with("5"));
  EXPECT_TRUE(messages[4].output().lines(0).starts_with("7"));
  outbox.add_output(line("again"));
  EXPECT_EQ(outbox.take().at(0).output().lines(0), "again");
}

TEST(Outbox, CountsDroppedLinesForEachSlotAndStream) {
  Outbox outbox;
  const auto from = [](int slot, bool is_stderr) {
    proto::AgentMessage message = line(std::string(Outbox::kMaxOutputBytes, 'x'));
    message.set_job_id("job");
    message.mutable_output()->set_slot(slot);
    message.mutable_output()->set_incarnation(3);
    message.mutable_output()->set_is_stderr(is_stderr);
    return message;
  };
  for (const int slot : {0, 1, 1}) outbox.add_output(from(slot, true));
  outbox.add_output(from(1, false));
  const auto messages = outbox.take();  // each exceeds the limit
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[0].output().slot(), 0);
  EXPECT_EQ(messages[1].output().slot(), 1);
  EXPECT_FALSE(messages[1].output().is_stderr());
  EXPECT_EQ(messages[2].output().lines_size(), 1);
  EXPECT_EQ(messages[2].output().lines(0),
            "(dropped here: 2 lines of output, which could not be sent in time)");
  EXPECT_EQ(messages[2].output().incarnation(), 3);
  EXPECT_EQ(messages[2].job_id(), "job");
}

TEST(Outbox, KeepsALimitedAmountOfLogsAcrossJobs) {
  Outbox outbox;
  proto::AgentMessage piece;
  piece.mutable_log_chunk()->set_text(std::string(std::size_t{1} << 20, 'x'));
  for (int i = 0; i < 9; ++i) outbox.add_log(piece);
  outbox.begin_job();
  EXPECT_EQ(outbox.take().size(), 3U);
  EXPECT_TRUE(outbox.take().empty());
  outbox.add_log(piece);
  EXPECT_EQ(outbox.take().size(), 1U);
}

}  // namespace
}  // namespace pfc
