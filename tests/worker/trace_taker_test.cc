#include "worker/trace_taker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/machine/dynamic_library.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

/// A coordinator that requests traces. Its clock is 3 s ahead.
class Asker final : public CoordinatorClient {
 public:
  struct Sent {
    std::int64_t trace = 0;
    std::vector<TraceSpan> spans;
    std::int64_t begin_there = 0;
  };

  void set(const std::string&, const std::vector<char>&) override {}
  std::vector<char> get(const std::string&, std::chrono::milliseconds) override { return {}; }
  JoinResult join(std::chrono::milliseconds) override { return {}; }
  [[nodiscard]] bool stop_requested() const override { return false; }
  void on_superseded(std::function<void(const std::string&)>) override {}
  WallTime report_check(const std::vector<CheckFinding>&) override { return {}; }
  Farewell finish(Outcome, const std::string&) override { return {.told = true}; }
  void report(const Progress&) override {}

  void on_trace(std::function<void(const TraceOrder&)> listener) override {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }
  void asks(const TraceOrder& order) {
    const std::lock_guard lock(mutex_);
    listener_(order);
  }
  WallTime send_trace(const TracePart& part, std::chrono::milliseconds) override {
    const std::lock_guard lock(mutex_);
    if (is_gone_) throw CommError("the coordinator is gone");
    if (part.spans.empty() && part.last == nullptr) ++questions_;
    if (!part.spans.empty()) {
      sent_.push_back({part.trace,
                       {part.spans.begin(), part.spans.end()},
                       part.clock->there(part.spans.front().begin)});
    }
    if (part.last != nullptr) {
      summary_ = *part.last;
      error_ = part.clock->error();
    }
    changed_.notify_all();
    return std::chrono::system_clock::now() + 3s;
  }
  void is_gone() {
    const std::lock_guard lock(mutex_);
    is_gone_ = true;
  }
  void has_asked_the_clock() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return questions_ > 0; });
  }
  TracePart::Summary summary() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 1min, [this] { return summary_.has_value(); }));
    return summary_.value_or(TracePart::Summary());
  }

  std::vector<Sent> sent_;  // guarded by mutex_ until summary() has returned
  std::chrono::nanoseconds error_{0};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void(const TraceOrder&)> listener_;
  std::optional<TracePart::Summary> summary_;
  int questions_ = 0;
  bool is_gone_ = false;
};

class TraceTakerTest : public ::testing::Test {
 protected:
  void asks(std::int64_t id, std::int64_t first, std::int64_t last, std::int64_t most = 100'000) {
    client.asks({.id = id, .first_step = first, .last_step = last, .most_spans = most});
    client.has_asked_the_clock();
  }
  void trains(std::int64_t first, std::int64_t last, int spans = 1) {
    for (std::int64_t step = first; step <= last; ++step) {
      recorder.begin_step(step);
      for (int i = 0; i < spans; ++i) {
        const TraceTrack::Scope phase(training, "forward", step);
        const TraceTrack::Scope image(loader, "decode", step);
      }
    }
  }

  TraceRecorder recorder;
  const TraceTrack training = recorder.track(TraceRow::kPhases, "training");
  const TraceTrack loader = recorder.track(TraceRow::kLoader, "loader 0");
  Asker client;
};

TEST_F(TraceTakerTest, ConvertsTimesToTheCoordinatorsClock) {
  const TraceTaker taker(recorder, &client, "cpu");
  asks(9, 2, 3);
  const auto before = std::chrono::system_clock::now();
  trains(1, 4);
  const TracePart::Summary summary = client.summary();
  EXPECT_EQ(summary.first_step, 2);
  EXPECT_EQ(summary.last_step, 3);
  EXPECT_EQ(summary.device, "cpu");
  EXPECT_TRUE(summary.notes.empty());
  ASSERT_EQ(client.sent_.size(), 2U);  // first the phases, then the loaders
  EXPECT_EQ(client.sent_[0].trace, 9);
  EXPECT_EQ(client.sent_[0].spans.size(), 2U);
  const auto expected = (before + 3s).time_since_epoch() / 1ns;
  EXPECT_GE(client.sent_[0].begin_there + client.error_.count() + 1'000, expected);
  EXPECT_LT(client.sent_[0].begin_there, expected + 60s / 1ns);
}

TEST_F(TraceTakerTest, SendsATraceInParts) {
  const TraceTaker taker(recorder, &client, "cpu");
  asks(1, 1, 1);
  trains(1, 2, 10'000);
  EXPECT_EQ(client.summary().dropped, 0U);
  EXPECT_EQ(client.sent_.size(), 3U + 3U);
  EXPECT_EQ(client.sent_[2].spans.size(), 10'000U - 2 * kMostSpansOfPart);
}

TEST_F(TraceTakerTest, SendsSpansUpToTheLimitAndThoseOfLoadersLast) {
  const TraceTaker taker(recorder, &client, "cpu");
  asks(1, 1, 1, 150);
  trains(1, 2, 100);
  EXPECT_EQ(client.summary().dropped, 50U);
  ASSERT_EQ(client.sent_.size(), 2U);
  EXPECT_EQ(client.sent_[0].spans.size(), 100U);
  EXPECT_EQ(client.sent_[1].spans.size(), 50U);
}

TEST_F(TraceTakerTest, RecordsEachTraceOnce) {
  const TraceTaker taker(recorder, &client, "cpu");
  asks(5, 1, 1);
  trains(1, 2);
  client.summary();
  asks(5, 1, 1'000'000);  // repeated on the next connection
  // The test expects that nothing happens, so there is no event for which it could wait. It watches
  // for 0.1 s.
  for (int step = 3; step < 100; ++step) {
    trains(step, step);
    ASSERT_FALSE(training.on());
    std::this_thread::sleep_for(1ms);
  }
}

TEST_F(TraceTakerTest, EndsATraceWhenANewerTraceIsRequested) {
  const TraceTaker taker(recorder, &client, "cpu");
  asks(5, 1, 1'000'000);
  while (!training.on()) trains(1, 2);
  // The last step is so far away that the loop below does not pass it before the trace begins.
  client.asks({.id = 6, .first_step = 3, .last_step = 1'000'000'000'000, .most_spans = 100});
  EXPECT_EQ(client.summary().first_step, 1);  // the summary is of the trace that was ended
  int step = 3;
  while (!training.on()) trains(step, step + 1), step += 2;
}

TEST_F(TraceTakerTest, SendsAnIncompleteTraceWhenTrainingEnds) {
  {
    const TraceTaker taker(recorder, &client, "cpu");
    asks(1, 1, 100);
    while (!training.on()) trains(1, 2);
  }
  EXPECT_EQ(client.summary().last_step, 1);
}

TEST_F(TraceTakerTest, TrainingContinuesWithoutTheCoordinator) {
  const TraceTaker taker(recorder, &client, "cpu");
  asks(1, 1, 1);
  client.is_gone();
  trains(1, 2);
}

TEST_F(TraceTakerTest, ReportsWhatATraceOfAGpuLacks) {
  const TraceTaker taker(recorder, &client, "cuda:0", {"/nowhere/libcupti.so.13"});
  asks(1, 1, 1);
  trains(1, 2);
  const TracePart::Summary summary = client.summary();
  ASSERT_EQ(summary.notes.size(), 1U);
  EXPECT_THAT(summary.notes[0],
              ::testing::HasSubstr("kernels are not in the trace (found no libcupti"));
}

TEST_F(TraceTakerTest, SendsKernelsOfAGpu) {
  const std::string path = PFC_FAKE_DRIVERS "/two_gpus/libcupti.so.13";
  const DynamicLibrary fake(path);
  const auto run =
      fake.find<void(const char*, std::uint32_t, std::uint64_t, std::uint64_t)>("fake_cupti_run");
  const TraceTaker taker(recorder, &client, "cuda:0", {path});
  asks(1, 1, 1);
  recorder.begin_step(1);
  {
    const TraceTrack::Scope phase(training, "forward", 1);
    run("_ZN3pfc7softmaxIfEEvPKfi", 7, 1'000, 0);
  }
  recorder.begin_step(2);
  EXPECT_TRUE(client.summary().notes.empty());
  ASSERT_EQ(client.sent_.size(), 2U);  // first the phases, then the kernels
  ASSERT_EQ(client.sent_[1].spans.size(), 1U);
  EXPECT_EQ(client.sent_[1].spans[0].number, 1);
}

}  // namespace
}  // namespace pfc
