#include "pfcctl/trace/trace_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/pfcctl/trace/recorded_trace.h"

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::RecordedTrace;

json written(const CollectedTrace& trace) {
  std::string text;
  write_trace_json(trace, match_collectives(trace), [&](std::string_view part) { text += part; });
  return json::parse(text);
}

json events(const json& trace, const std::string& phase) {
  json found = json::array();
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

/// Returns the metadata of a row or a process.
json metadata(const json& trace, const std::string& name, int pid, int tid) {
  for (const json& event : events(trace, "M")) {
    if (event.at("name") == name && event.at("pid") == pid && event.at("tid") == tid) {
      return event.at("args");
    }
  }
  return {};
}

CollectedTrace json_trace_of_two_ranks() {
  return RecordedTrace(2)
      .span(0, RecordedTrace::kTraining, "forward", 5, 10, 42)
      .span(0, RecordedTrace::kStep, "all_gather", 10, 16.5, 7, 4'096)
      .span(1, RecordedTrace::kStep, "all_gather", 15, 16.5, 7, 4'096)
      .span(1, RecordedTrace::kLoader, "decode", 11, 12, 3)
      .collected();
}

TEST(TraceJson, HasAnEventForEachSpan) {
  const json spans = events(written(json_trace_of_two_ranks()), "X");
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0], (json{{"ph", "X"},
                            {"name", "forward"},
                            {"cat", "phase"},
                            {"pid", 0},
                            {"tid", 1},
                            {"ts", 0.0},
                            {"dur", 5000.0},
                            {"args", {{"step", 42}}}}));
  EXPECT_EQ(spans[3].at("cat"), "loader");
  EXPECT_EQ(spans[3].at("args"), (json{{"batch", 3}}));
}

TEST(TraceJson, NamesTheWorkerThatCameLast) {
  const json spans = events(written(json_trace_of_two_ranks()), "X");
  const json args = spans[1].at("args");
  EXPECT_EQ(args.at("number"), 7);
  EXPECT_EQ(args.at("bytes"), 4'096);
  EXPECT_EQ(args.at("last_rank"), 1);
  EXPECT_DOUBLE_EQ(args.at("waited_ms"), 5.0);
  EXPECT_DOUBLE_EQ(spans[2].at("args").at("waited_ms"), 0.0);
}

TEST(TraceJson, DrawsArrowsFromTheWorkerThatCameLast) {
  const json trace = written(json_trace_of_two_ranks());
  const json tails = events(trace, "s"), heads = events(trace, "f");
  ASSERT_EQ(tails.size(), 1U);
  ASSERT_EQ(heads.size(), 1U);
  EXPECT_EQ(tails[0].at("id"), heads[0].at("id"));
  EXPECT_EQ(tails[0].at("pid"), 1);
  EXPECT_EQ(heads[0].at("pid"), 0);
  EXPECT_EQ(heads[0].at("bp"), "e");
  EXPECT_DOUBLE_EQ(tails[0].at("ts"), 10'000.0);
  EXPECT_DOUBLE_EQ(heads[0].at("ts"), 10'000.0);
}

TEST(TraceJson, DrawsNoArrowToAWorkerThatLeftFirst) {
  const json trace = written(RecordedTrace(3)
                                 .span(0, RecordedTrace::kStep, "all_gather", 0, 8)
                                 .span(1, RecordedTrace::kStep, "all_gather", 1, 12)
                                 .span(2, RecordedTrace::kStep, "all_gather", 10, 12)
                                 .collected());
  const json tails = events(trace, "s"), heads = events(trace, "f");
  ASSERT_EQ(tails.size(), 1U);
  ASSERT_EQ(heads.size(), 1U);
  EXPECT_EQ(tails[0].at("pid"), 2);
  EXPECT_EQ(heads[0].at("pid"), 1);
}

TEST(TraceJson, NamesProcessesAndThreads) {
  const json trace = written(json_trace_of_two_ranks());
  EXPECT_EQ(metadata(trace, "process_name", 1, 0).at("name"), "rank 1 (host-b, slot 1)");
  EXPECT_EQ(metadata(trace, "process_sort_index", 1, 0).at("sort_index"), 1);
  EXPECT_EQ(metadata(trace, "thread_name", 0, 1).at("name"), "training");
  EXPECT_EQ(metadata(trace, "thread_name", 0, 2).at("name"), "collectives: step");
  EXPECT_EQ(metadata(trace, "thread_name", 0, 5).at("name"), "loader 0");
}

TEST(TraceJson, ReportsTheClockError) {
  const json trace = written(
      RecordedTrace(
          1, {{0, {.ahead = std::chrono::seconds{3}, .error = std::chrono::milliseconds{2}}}})
          .span(0, RecordedTrace::kTraining, "forward", 0, 1)
          .collected());
  const json& rank = trace.at("otherData").at("ranks").at(0);
  EXPECT_DOUBLE_EQ(rank.at("clock_error_ms"), 2.0);
  EXPECT_THAT(metadata(trace, "process_labels", 0, 0).at("labels").get<std::string>(),
              HasSubstr("clock within 2.00 ms"));
  EXPECT_THAT(trace.at("otherData").at("begin").get<std::string>(),
              HasSubstr("2023-11-14T22:13:20.00"));
}

TEST(TraceJson, ReportsMissingData) {
  const json trace = written(RecordedTrace(2)
                                 .span(0, RecordedTrace::kTraining, "forward", 0, 1)
                                 .lost(1, "the worker has ended")
                                 .collected());
  EXPECT_EQ(trace.at("otherData").at("ranks").at(1).at("problem"), "the worker has ended");
}

TEST(TraceJson, IsValidWithoutEvents) {
  const json trace = written(RecordedTrace(1).lost(0, "died").collected());
  EXPECT_TRUE(events(trace, "X").empty());
}

TEST(TraceJson, EscapesTextFromOtherPrograms) {
  CollectedTrace trace = json_trace_of_two_ranks();
  trace.ranks.at(0).host = "a\"b\\c";
  trace.names.at(0) = "\xff";
  EXPECT_EQ(metadata(written(trace), "process_name", 0, 0).at("name"), "rank 0 (a\"b\\c, slot 0)");
}

TEST(TraceJson, IsWrittenInPieces) {
  RecordedTrace recorded(1);
  for (int i = 0; i < 4'000; ++i) recorded.span(0, RecordedTrace::kLoader, "decode", i, i + 0.5, i);
  CollectedTrace trace = recorded.collected();
  auto& spans = trace.ranks.at(0).spans;
  const auto once = spans;
  for (int i = 0; i < 5; ++i) spans.insert(spans.end(), once.begin(), once.end());
  int pieces = 0;
  std::string text;
  write_trace_json(trace, {}, [&](std::string_view part) {
    ++pieces;
    text += part;
  });
  EXPECT_GT(pieces, 1);
  EXPECT_EQ(events(json::parse(text), "X").size(), 24'000U);
}

}  // namespace
}  // namespace pfc
