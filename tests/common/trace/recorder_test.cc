#include "common/trace/recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm_count.h"
#include "worker/report/phase_timer.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

class Recorder : public ::testing::Test {
 protected:
  TraceRecorder recorder;
  const TraceTrack training = recorder.track(TraceRow::kPhases, "training");
  const TraceTrack loader = recorder.track(TraceRow::kLoader, "loader 0");

  static void adds(const TraceTrack& track, const char* name) {
    const TimePoint now = Clock::now();
    track.add(name, now, now, 1);
  }

  /// Each step adds a span whose number is the step.
  void trains(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) {
      recorder.begin_step(step);
      const TimePoint now = Clock::now();
      training.add("forward", now, now, training.step());
    }
  }

  static std::vector<std::int64_t> numbers(const std::vector<TraceSpan>& spans) {
    std::vector<std::int64_t> all;
    for (const TraceSpan& span : spans) all.push_back(span.number);
    return all;
  }
};

TEST_F(Recorder, IsOffUntilATraceIsRequested) {
  trains(1, 3);
  EXPECT_FALSE(training.on());
  EXPECT_FALSE(TraceTrack().on());
}

TEST_F(Recorder, RecordsTheRequestedSteps) {
  recorder.arm(3, 4);
  trains(1, 9);
  recorder.wait();
  const TraceRecording recording = recorder.take();
  EXPECT_EQ(numbers(recording.spans), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(recording.first_step, 3);
  EXPECT_EQ(recording.last_step, 4);
  EXPECT_FALSE(training.on());
}

TEST_F(Recorder, RecordsWorkAfterTheLastStep) {
  recorder.arm(1, 1);
  trains(1, 1);
  adds(training, "checkpoint");
  trains(2, 2);
  EXPECT_EQ(recorder.take().spans.back().name, std::string("checkpoint"));
}

TEST_F(Recorder, StartsWithTheNextStepIfTheFirstHasBegun) {
  trains(1, 5);
  recorder.arm(3, 7);
  trains(6, 8);
  const TraceRecording recording = recorder.take();
  EXPECT_EQ(recording.first_step, 6);
  EXPECT_EQ(numbers(recording.spans), (std::vector<std::int64_t>{6, 7}));
}

TEST_F(Recorder, RecordsNothingIfTheRequestedStepsAreOver) {
  recorder.arm(3, 4);
  trains(8, 8);
  recorder.wait();
  EXPECT_EQ(recorder.take().first_step, 0);
}

TEST_F(Recorder, CountsSpansThatDidNotFit) {
  recorder.arm(1, 1, {.spans = 2, .loader_spans = 1});
  recorder.begin_step(1);
  for (int i = 0; i < 3; ++i) adds(training, "forward");
  for (int i = 0; i < 5; ++i) adds(loader, "decode");
  recorder.stop();
  const TraceRecording recording = recorder.take();
  EXPECT_EQ(recording.spans.size(), 2U);
  EXPECT_EQ(recording.loader_spans.size(), 1U);
  EXPECT_EQ(recording.dropped, 1U + 4U);
}

TEST_F(Recorder, KeepsAllSpansOfManyThreads) {
  recorder.arm(1, 1);
  recorder.begin_step(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const TraceTrack own = recorder.track(TraceRow::kThread, std::to_string(i));
      for (int n = 0; n < 1'000; ++n) const TraceTrack::Scope scope(own, "work", n);
    });
  }
  for (std::thread& thread : threads) thread.join();
  recorder.stop();
  const TraceRecording recording = recorder.take();
  EXPECT_EQ(recording.spans.size(), 4'000U);
  EXPECT_EQ(recording.tracks.size(), 6U);
}

TEST_F(Recorder, DropsSpansThatEndAfterTheRecording) {
  recorder.arm(1, 1);
  recorder.begin_step(1);
  {
    const TraceTrack::Scope scope(training, "forward");
    recorder.begin_step(2);
  }
  EXPECT_TRUE(recorder.take().spans.empty());
}

TEST_F(Recorder, DropsSpansThatBeganBeforeTheRecording) {
  recorder.arm(1, 1);
  {
    const TraceTrack::Scope scope(loader, "wait_for_room");
    recorder.begin_step(1);
  }
  recorder.stop();
  EXPECT_TRUE(recorder.take().loader_spans.empty());
}

TEST_F(Recorder, EndsTheWaitWhenItIsStopped) {
  recorder.arm(1, 100);
  recorder.begin_step(1);
  auto waiting = std::async(std::launch::async, [this] { recorder.wait(); });
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);  // it is still waiting
  recorder.stop();
  waiting.get();
  EXPECT_EQ(recorder.take().first_step, 1);
}

TEST_F(Recorder, ANewTraceReplacesAnUncollectedTrace) {
  recorder.arm(1, 1);
  trains(1, 2);
  recorder.arm(5, 5);
  trains(5, 6);
  EXPECT_EQ(numbers(recorder.take().spans), (std::vector<std::int64_t>{5}));
}

TEST_F(Recorder, RecordsThePhasesOfTraining) {
  PhaseTimer phase(training);
  recorder.arm(7, 7);
  recorder.begin_step(7);
  phase("forward", [] { std::this_thread::sleep_for(2ms); });  // a measurable duration
  recorder.stop();
  const TraceRecording recording = recorder.take();
  ASSERT_EQ(recording.spans.size(), 1U);
  EXPECT_EQ(recording.spans[0].name, std::string("forward"));
  EXPECT_EQ(recording.spans[0].number, 7);
  EXPECT_GE(recording.spans[0].end - recording.spans[0].begin, 2ms);
}

TEST_F(Recorder, RecordsCollectivesWithTheirNumberAndBytes) {
  CommCount count(recorder.track(TraceRow::kCollectives, "step"));
  { const CommCount::Call before(count, CollectiveKind::kBarrier, 0); }
  recorder.arm(1, 1);
  recorder.begin_step(1);
  { const CommCount::Call call(count, CollectiveKind::kAllGather, 64); }
  recorder.stop();
  const TraceRecording recording = recorder.take();
  ASSERT_EQ(recording.spans.size(), 1U);
  EXPECT_EQ(recording.spans[0].name, std::string("all_gather"));
  EXPECT_EQ(recording.spans[0].number, 2);
  EXPECT_EQ(recording.spans[0].bytes, 64U);
  EXPECT_EQ(recording.tracks[recording.spans[0].track].name, "step");
}

}  // namespace
}  // namespace pfc
