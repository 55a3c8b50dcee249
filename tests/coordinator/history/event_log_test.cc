#include "coordinator/history/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ClusterEvent event(ClusterEvent::Kind kind, const std::string& text) {
  return {.kind = kind, .rank = {}, .text = text};
}

TEST(EventLog, NumbersEventsFromOne) {
  EventLog log;
  EXPECT_EQ(log.newest(), 0);
  log.add(event(ClusterEvent::Kind::kHost, "a"));
  log.add(event(ClusterEvent::Kind::kHost, "b"));
  EXPECT_EQ(log.events().front().number, 1);
  EXPECT_EQ(log.newest(), 2);
}

TEST(EventLog, KeepsTheNewestEvents) {
  EventLog log;
  for (int i = 0; i < 5'000; ++i) log.add(event(ClusterEvent::Kind::kHost, "host"));
  EXPECT_EQ(log.events().size(), EventLog::kMost);
  EXPECT_EQ(log.events().back().number, 5'000);
}

TEST(EventLog, KeepsFailuresDespiteManyCheckpoints) {
  EventLog log;
  log.add(event(ClusterEvent::Kind::kFailure, "rank 1: killed"));
  for (int i = 0; i < 5'000; ++i) log.add(event(ClusterEvent::Kind::kCheckpoint, "safe"));
  EXPECT_EQ(log.events().size(), EventLog::kMostCheckpoints + 1);
  EXPECT_EQ(log.events().front().text, "rank 1: killed");
}

TEST(EventLog, KeepsTextsAsShortSingleLines) {
  EventLog log;
  log.add(event(ClusterEvent::Kind::kFailure, "a\nforged\x1b[31m line" + std::string(10'000, 'x')));
  EXPECT_LE(log.events().front().text.size(), EventLog::kLongestText);
  EXPECT_THAT(log.events().front().text, Not(HasSubstr("\n")));
  EXPECT_THAT(log.events().front().text, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace pfc
