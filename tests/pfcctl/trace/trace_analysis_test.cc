#include "pfcctl/trace/trace_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pfcctl/trace/recorded_trace.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using testing::analysis_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RecordedTrace;

/// Rank 1 computes longer and comes 12 ms late into the collective of each step.
RecordedTrace late_rank(int steps) {
  RecordedTrace trace(3);
  for (int i = 0; i < steps; ++i) {
    const double begin = 100.0 * i;
    for (const Rank rank : {0, 1, 2}) {
      const double late = rank == 1 ? 12 : 0;
      trace.span(rank, RecordedTrace::kTraining, "forward", begin, begin + 50 + late, 10 + i)
          .span(rank, RecordedTrace::kTraining, "all_gather", begin + 50 + late, begin + 63, 10 + i)
          .span(rank, RecordedTrace::kStep, "all_gather", begin + 50 + late, begin + 63, i + 1, 64);
    }
  }
  return trace;
}

TEST(TraceAnalysis, FindsTheLastWorkerAndTheWaitsOfTheOthers) {
  const CollectedTrace trace = late_rank(20).collected(10, 29);
  const TraceAnalysis analysis = analysis_of(trace);
  ASSERT_EQ(analysis.collectives.size(), 1U);
  const CollectiveWaits& waits = analysis.collectives[0];
  EXPECT_EQ(waits.communicator, "step");
  EXPECT_EQ(waits.kind, "all_gather");
  EXPECT_EQ(waits.count, 20);
  EXPECT_EQ(waits.last, 1);
  EXPECT_EQ(waits.last_count, 20);
  EXPECT_NEAR(waits.wait_seconds, 0.012, 1e-6);
  EXPECT_NEAR(waits.waited_for_last_seconds, 20 * 0.012, 1e-5);
}

TEST(TraceAnalysis, NamesTheWorkerWithTheLongestWaitsNotTheMostFrequent) {
  RecordedTrace trace(2);
  for (int i = 0; i < 5; ++i) {  // rank 0 is late by 2 ms four times, rank 1 once by 200 ms
    const double begin = 300.0 * i, late_0 = i < 4 ? 2 : 0, late_1 = i < 4 ? 0 : 200;
    const double end = begin + late_0 + late_1 + 1;
    trace.span(0, RecordedTrace::kStep, "all_gather", begin + late_0, end, i + 1)
        .span(1, RecordedTrace::kStep, "all_gather", begin + late_1, end, i + 1);
  }
  const CollectiveWaits waits = analysis_of(trace.collected()).collectives.at(0);
  EXPECT_EQ(waits.last, 1);
  EXPECT_EQ(waits.last_count, 1);
  EXPECT_NEAR(waits.waited_for_last_seconds, 0.2, 1e-6);
}

TEST(TraceAnalysis, FindsSlowestAndFastestByTheirOwnTime) {
  const CollectedTrace trace = late_rank(4).collected(10, 13);
  const TraceAnalysis analysis = analysis_of(trace);
  EXPECT_EQ(analysis.slowest, 1);
  EXPECT_NEAR(analysis.slowest_own_seconds, 0.063, 1e-6);
  EXPECT_NEAR(analysis.fastest_own_seconds, 0.051, 1e-6);
  EXPECT_EQ(analysis.steps, 4);
  EXPECT_EQ(analysis.phases.front().phase, "forward");
  EXPECT_NEAR(analysis.phases.front().slowest_seconds, 0.062, 1e-6);
  EXPECT_NEAR(analysis.phases.front().fastest_seconds, 0.050, 1e-6);
}

TEST(TraceAnalysis, TextNamesTheLateRankAndItsCost) {
  const CollectedTrace trace = late_rank(20).collected(10, 29);
  const std::string text = to_text(trace, analysis_of(trace));
  EXPECT_THAT(text, HasSubstr("20 steps of 3 ranks"));
  EXPECT_THAT(text,
              HasSubstr("rank 1 (host-b, slot 1) entered 20 of 20 all_gathers of the "
                        "communicator \"step\" last; the others waited 12.0 ms per step for it."));
  EXPECT_THAT(text, HasSubstr("Slowest: rank 1 (host-b, slot 1), own work 63.0 ms per step"));
  EXPECT_THAT(text, HasSubstr("did not slow training down"));
}

// Returns a collective of two workers into which rank 1 comes 5 ms after rank 0.
CollectedTrace late_collective(const std::map<Rank, RecordedTrace::Clocks>& clocks) {
  return RecordedTrace(2, clocks)
      .span(0, RecordedTrace::kStep, "all_gather", 10, 16)
      .span(1, RecordedTrace::kStep, "all_gather", 15, 16)
      .collected();
}

TEST(TraceAnalysis, AlignsClocksThatDifferBySeconds) {
  const CollectedTrace trace = late_collective({{0, {.ahead = 3s, .error = 200us}}});
  const auto matched = match_collectives(trace);
  ASSERT_EQ(matched.size(), 1U);
  const CollectedSpan& a = *matched[0].parts[0].span;
  const CollectedSpan& b = *matched[0].parts[1].span;
  EXPECT_NEAR(static_cast<double>(a.end_ns - b.end_ns), 0, 200'000.0);
  EXPECT_NEAR(static_cast<double>(b.begin_ns - a.begin_ns), 5e6, 200'000.0);
  EXPECT_NEAR(static_cast<double>(trace.ranks.at(0).summary.clock_error_ns()), 200'000.0, 1.0);
  EXPECT_EQ(matched[0].last, 1U);
  EXPECT_TRUE(matched[0].sure);
}

TEST(TraceAnalysis, NamesNoWorkerIfTheClockErrorIsTooLarge) {
  const CollectedTrace trace = late_collective({{0, {.error = 3ms}}, {1, {.error = 3ms}}});
  EXPECT_FALSE(match_collectives(trace)[0].sure);
  const TraceAnalysis analysis = analysis_of(trace);
  EXPECT_FALSE(analysis.collectives[0].last);
  EXPECT_THAT(to_text(trace, analysis), HasSubstr("unknown (clocks too inaccurate)"));
}

TEST(TraceAnalysis, IgnoresCollectivesThatARankDidNotRecord) {
  const CollectedTrace trace = RecordedTrace(2)
                                   .span(0, RecordedTrace::kStep, "all_gather", 10, 16, 1)
                                   .span(0, RecordedTrace::kStep, "all_gather", 20, 26, 2)
                                   .span(1, RecordedTrace::kStep, "all_gather", 20, 26, 2)
                                   .collected();
  const auto matched = match_collectives(trace);
  ASSERT_EQ(matched.size(), 1U);
  EXPECT_EQ(matched[0].number, 2);
}

TEST(TraceAnalysis, IgnoresCollectivesEnqueuedOnAGpu) {
  const CollectedTrace trace = RecordedTrace(2)
                                   .span(0, RecordedTrace::kStep, "all_gather", 10, 11)
                                   .span(1, RecordedTrace::kStep, "all_gather", 15, 16)
                                   .device(0, "cuda:0")
                                   .device(1, "cuda:1")
                                   .collected();
  EXPECT_TRUE(match_collectives(trace).empty());
}

TEST(TraceAnalysis, ReportsWhetherInputSlowsTraining) {
  RecordedTrace recorded(2);
  for (const Rank rank : {0, 1}) {
    recorded.span(rank, RecordedTrace::kTraining, "data_wait", 0, 40)
        .span(rank, RecordedTrace::kTraining, "forward", 40, 100);
  }
  // Rank 0 waits for its loader until 30 ms, then both exchange labels.
  recorded.span(0, RecordedTrace::kInputs, "wait_for_batch", -20, 30);
  const CollectedTrace trace = recorded.collected();
  const TraceAnalysis analysis = analysis_of(trace);
  EXPECT_EQ(analysis.hungriest, 0);
  EXPECT_NEAR(analysis.input_share, 0.3, 1e-6);
  EXPECT_THAT(
      to_text(trace, analysis),
      HasSubstr("The input slowed training down: rank 0 (host-b, slot 0) waited for its own "
                "data for 30.0 % of the time."));
}

TEST(TraceAnalysis, NamesMissingData) {
  const CollectedTrace trace =
      late_rank(2).lost(2, "the worker has ended").dropped(0, 17).collected(10, 11);
  EXPECT_FALSE(trace.complete());
  const std::string text = to_text(trace, analysis_of(trace));
  EXPECT_THAT(text, HasSubstr("rank 2 (host-b, slot 2): incomplete: the worker has ended\n"));
  EXPECT_THAT(text, HasSubstr("rank 0 (host-b, slot 0): 17 events dropped"));
  EXPECT_THAT(text, HasSubstr("rank 1 (host-b, slot 1) entered 2 of 2"));
}

TEST(TraceAnalysis, AcceptsATraceWithoutSpans) {
  const CollectedTrace trace = RecordedTrace(2).lost(0, "died").lost(1, "died").collected();
  const std::string text = to_text(trace, analysis_of(trace));
  EXPECT_THAT(text, HasSubstr("0 steps of 2 ranks, 0 events"));
  EXPECT_THAT(text, Not(HasSubstr("Slowest")));
}

TEST(TraceAnalysis, DoesNotCompareASingleRank) {
  const CollectedTrace trace =
      RecordedTrace(1).span(0, RecordedTrace::kTraining, "forward", 0, 10).collected();
  EXPECT_THAT(to_text(trace, analysis_of(trace)), Not(HasSubstr("Slowest")));
}

TEST(TraceCollector, DropsUnreadableParts) {
  proto::StartTraceReply begun;
  begun.set_workers(2);
  TraceCollector collector(begun);
  proto::TraceSpans sent;
  sent.add_names("forward");
  sent.add_tracks()->set_name("training");
  sent.add_spans()->set_track(7);
  proto::TraceChunk part;
  part.set_spans(sent.SerializeAsString());
  collector.add(part);
  part.set_rank(1);
  part.set_spans("\xff\xff");
  collector.add(part);
  for (const Rank rank : {0, 1}) {
    EXPECT_EQ(collector.trace().ranks.at(rank).problem, "a part of it is malformed");
    EXPECT_TRUE(collector.trace().ranks.at(rank).spans.empty());
  }
}

TEST(TraceCollector, ReportsRanksWithoutData) {
  proto::StartTraceReply begun;
  begun.set_workers(2);
  TraceCollector collector(begun);
  collector.end_early("the coordinator does not answer");
  EXPECT_EQ(collector.trace().ranks.at(1).problem, "the coordinator does not answer");
}

}  // namespace
}  // namespace pfc
