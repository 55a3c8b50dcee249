// Tests a trace over real gRPC with two fake workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>

#include "tests/coordinator/rpc/service_fixture.h"
#include "worker/trace_taker.h"

namespace pfc::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class TraceService : public ServiceOfOneHost {
 protected:
  using Stub = proto::CoordinatorService::Stub;

  void train_at_step(std::int64_t step) {
    join_both();
    for (CoordinatorClient* worker : {first.get(), second.get()}) {
      worker->report({.step = step,
                      .total_steps = 1'000'000,
                      .phase = "forward",
                      .steps = static_cast<std::uint64_t>(step),
                      .step_seconds = 0.1 * static_cast<double>(step)});
    }
    wait_until([&] {
      const proto::StatusReply status = coordinator.status();
      return std::ranges::all_of(status.workers(), [step](const proto::WorkerStatus& worker) {
        return worker.progress().step() == step;
      });
    });
  }

  grpc::Status begins(int steps, proto::StartTraceReply& reply) {
    proto::StartTraceRequest request;
    request.set_steps(steps);
    grpc::ClientContext context;
    return stub()->StartTrace(&context, request, &reply);
  }

  proto::ReadTraceReply reads(std::int64_t trace, int from) {
    grpc::ClientContext context;
    proto::ReadTraceRequest request;
    proto::ReadTraceReply reply;
    request.set_trace(trace);
    request.set_from(from);
    const grpc::Status status = stub()->ReadTrace(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
};

/// A worker that trains, as seen by its recorder. A step takes 0.1 s.
class Trainee {
 public:
  explicit Trainee(CoordinatorClient& client) : taker_(recorder_, &client, "cpu") {}
  ~Trainee() {
    stops_ = true;
    thread_.join();
  }
  Trainee(const Trainee&) = delete;
  Trainee& operator=(const Trainee&) = delete;

 private:
  TraceRecorder recorder_;
  TraceTrack training_ = recorder_.track(TraceRow::kPhases, "training");
  std::atomic<bool> stops_{false};
  std::thread thread_{[this] {
    for (std::int64_t step = 10; !stops_; ++step) {
      recorder_.begin_step(step);
      const TraceTrack::Scope scope(training_, "forward", step);
      std::this_thread::sleep_for(100ms);  // duration of the step
    }
  }};
  TraceTaker taker_;
};

TEST_F(TraceService, GathersTheRecordingsOfAllWorkers) {
  train_at_step(10);
  const Trainee a(*first), b(*second);
  proto::StartTraceReply begun;
  const grpc::Status status = begins(5, begun);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(begun.workers(), 2);
  EXPECT_EQ(begun.last_step(), begun.first_step() + 4);
  std::array<int, 2> spans{0, 0};
  proto::ReadTraceReply reply;
  for (int from = 0; !reply.over(); from += reply.parts_size()) {
    reply = reads(begun.trace(), from);
    for (const proto::TraceChunk& part : reply.parts()) {
      proto::TraceSpans sent;
      ASSERT_TRUE(sent.ParseFromString(part.spans()));
      EXPECT_EQ(sent.names(0), "forward");
      spans.at(static_cast<std::size_t>(part.rank())) += sent.spans_size();
    }
  }
  EXPECT_GT(spans[0], 0);
  EXPECT_GT(spans[1], 0);
  ASSERT_EQ(reply.ranks_size(), 2);
  EXPECT_EQ(reply.ranks(1).host(), "a");
  EXPECT_EQ(reply.ranks(1).problem(), "");
  const proto::TraceSummary& summary = reply.ranks(1).summary();
  EXPECT_GT(summary.clock_error_ns(), 0);
  // Both use this machine's clock. The error grows if a process is delayed.
  EXPECT_LT(std::abs(summary.clock_ahead_ns()), 1s / 1ns + summary.clock_error_ns());
}

TEST_F(TraceService, NamesAWorkerThatEndsDuringTheTrace) {
  train_at_step(10);
  const Trainee a(*first);
  proto::StartTraceReply begun;
  ASSERT_TRUE(begins(5, begun).ok());
  second->finish(CoordinatorClient::Outcome::kCompleted, "");
  proto::ReadTraceReply reply;
  for (int from = 0; !reply.over(); from += reply.parts_size()) reply = reads(begun.trace(), from);
  EXPECT_EQ(reply.ranks(0).problem(), "");
  EXPECT_THAT(reply.ranks(1).problem(), HasSubstr("has ended"));
}

TEST_F(TraceService, IsRefusedBeforeTrainingBegins) {
  join_both();
  grpc::ClientContext context;
  proto::StartTraceRequest request;
  proto::StartTraceReply reply;
  request.set_steps(5);
  const grpc::Status status = stub()->StartTrace(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("is not training now"));
}

TEST_F(TraceService, TakesOneTraceAtATime) {
  train_at_step(10);
  proto::StartTraceReply begun;
  ASSERT_TRUE(begins(5, begun).ok());
  EXPECT_THAT(begins(5, begun).error_message(), HasSubstr("is being taken"));
}

TEST_F(TraceService, RefusesAnImpossibleNumberOfSteps) {
  join_both();
  proto::StartTraceReply begun;
  EXPECT_THAT(begins(0, begun).error_message(), HasSubstr("found 0 steps, expected 1 to 10000"));
}

}  // namespace
}  // namespace pfc::testing
