#include "coordinator/traces/trace_gatherer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PlanTrace, StartsLateEnoughForTheRequestToArrive) {
  const auto steps =
      plan_trace({.steps = 20, .step = 100, .total_steps = 1'000, .step_seconds = 0.1});
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->first, 100 + 2 + 5);
  EXPECT_EQ(steps->last, steps->first + 19);
}

TEST(PlanTrace, CountsTheTimeSinceTheLastReport) {
  const TraceWish wish{
      .steps = 1, .step = 100, .total_steps = 1'000, .step_seconds = 0.1, .told_seconds = 1};
  EXPECT_EQ(plan_trace(wish)->first, 100 + 2 + 15);
}

TEST(PlanTrace, EndsWithTheJob) {
  const auto steps =
      plan_trace({.steps = 20, .step = 990, .total_steps = 1'000, .step_seconds = 1});
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->last, 1'000);
}

TEST(PlanTrace, IsEmptyIfTheJobEndsBeforeTheTraceCanStart) {
  EXPECT_FALSE(plan_trace({.steps = 20, .step = 999, .total_steps = 1'000, .step_seconds = 0.01}));
}

class GathererOfATrace : public ::testing::Test {
 protected:
  static constexpr std::int64_t kTrace = 7;

  void begins(int workers = 2) {
    std::vector<TraceGatherer::Worker> all;
    for (Rank rank = 0; rank < workers; ++rank) all.push_back({rank, "host-b", rank});
    gatherer.begin(kTrace, {.first = 10, .last = 19}, all, now, from_ms(1'000'000));
  }
  std::variant<proto::SendTraceReply, Refusal> sends(Rank rank, const std::string& spans,
                                                     bool last = false,
                                                     std::int64_t trace = kTrace) {
    proto::SendTraceRequest request;
    request.set_rank(rank);
    request.set_trace(trace);
    request.set_spans(spans);
    if (last) request.mutable_last()->set_first_step(10);
    return gatherer.add(request, now);
  }
  /// Returns the reply; nothing if the reader has to wait for it.
  std::optional<proto::ReadTraceReply> reads(int from = 0) {
    std::optional<proto::ReadTraceReply> read;
    proto::ReadTraceRequest request;
    request.set_trace(kTrace);
    request.set_from(from);
    gatherer.read(
        request,
        [&read](std::variant<proto::ReadTraceReply, Refusal> result) {
          if (auto* const reply = std::get_if<proto::ReadTraceReply>(&result)) read = *reply;
        },
        Patience(), 12, now);
    now += TraceGatherer::kLongestRead;
    if (!read) gatherer.expire(13, now);  // answers it while `read` exists
    return read;
  }

  TraceGatherer gatherer;
  TimePoint now = Clock::now();
};

TEST_F(GathererOfATrace, OrdersEachWorkerToRecord) {
  begins();
  const auto order = gatherer.order(1);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->trace(), kTrace);
  EXPECT_EQ(order->first_step(), 10);
  EXPECT_EQ(order->last_step(), 19);
  EXPECT_FALSE(gatherer.order(2));
}

TEST_F(GathererOfATrace, DividesItsMemoryAmongTheWorkers) {
  begins(2);
  const std::int64_t of_two = gatherer.order(0)->most_spans();
  begins(1'024);
  EXPECT_LT(gatherer.order(0)->most_spans(), of_two / 10);
  EXPECT_GT(gatherer.order(0)->most_spans(), 1'000);
}

TEST_F(GathererOfATrace, AnswersWithItsClock) {
  begins();
  now += 2s;
  const auto reply = sends(0, "");
  EXPECT_EQ(std::get<proto::SendTraceReply>(reply).clock_ns(), 1'002'000'000'000);
}

TEST_F(GathererOfATrace, ForwardsThePartsInOrder) {
  begins();
  sends(0, "first");
  sends(1, "second");
  const auto reply = reads();
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->parts_size(), 2);
  EXPECT_EQ(reply->parts(1).rank(), 1);
  EXPECT_EQ(reply->parts(1).spans(), "second");
  EXPECT_FALSE(reply->over());
  EXPECT_THAT(reply->missing(), ElementsAre(0, 1));
}

TEST_F(GathererOfATrace, EndsTheTraceWhenAllWorkersHaveSentTheirLastPart) {
  begins();
  sends(0, "a", true);
  sends(1, "b", true);
  EXPECT_FALSE(gatherer.goes_on());
  const auto reply = reads();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->over());
  ASSERT_EQ(reply->ranks_size(), 2);
  EXPECT_EQ(reply->ranks(1).host(), "host-b");
  EXPECT_EQ(reply->ranks(1).summary().first_step(), 10);
  EXPECT_EQ(reply->ranks(1).problem(), "");
}

TEST_F(GathererOfATrace, AnswersAReaderBeforeThePartsArrive) {
  begins();
  const auto reply = reads();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->parts_size(), 0);
  EXPECT_FALSE(reply->over());
  EXPECT_EQ(reply->step(), 13);
}

TEST_F(GathererOfATrace, AnswersAWaitingReaderImmediately) {
  begins();
  int answers = 0;
  proto::ReadTraceRequest request;
  request.set_trace(kTrace);
  gatherer.read(
      request, [&answers](const auto&) { ++answers; }, Patience(), 12, now);
  EXPECT_EQ(answers, 0);
  sends(1, "a");
  EXPECT_EQ(answers, 1);
}

TEST_F(GathererOfATrace, NamesAWorkerThatDied) {
  begins();
  sends(0, "a", true);
  gatherer.lose(1, "the worker has ended");
  const auto reply = reads();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->over());
  EXPECT_EQ(reply->ranks(0).problem(), "");
  EXPECT_EQ(reply->ranks(1).problem(), "the worker has ended");
}

TEST_F(GathererOfATrace, DoesNotWaitForAMuchSlowerWorker) {
  begins();
  sends(0, "a", true);
  gatherer.expire(12, now + TraceGatherer::kSlowest - 1s);
  EXPECT_TRUE(gatherer.goes_on());
  gatherer.expire(12, now + TraceGatherer::kSlowest);
  EXPECT_FALSE(gatherer.goes_on());
}

TEST_F(GathererOfATrace, RefusesUnrequestedParts) {
  const auto wanted = [&](const auto& result) {
    return std::holds_alternative<proto::SendTraceReply>(result);
  };
  EXPECT_FALSE(wanted(sends(0, "a")));
  begins();
  EXPECT_FALSE(wanted(sends(0, "a", false, kTrace + 1)));
  EXPECT_FALSE(wanted(sends(5, "a")));
  EXPECT_TRUE(wanted(sends(0, "a", true)));
  EXPECT_FALSE(wanted(sends(0, "a")));
  // Any other kind of refusal would end the worker's generation.
  EXPECT_EQ(std::get<Refusal>(sends(0, "a")).kind, Refusal::Kind::kInvalid);
}

TEST_F(GathererOfATrace, KeepsAtMostItsShareOfEachRank) {
  begins();
  const std::string part(std::size_t{250} << 10, 'x');
  for (int i = 0; i < 100; ++i) sends(0, part);
  std::size_t bytes = 0;
  for (int from = 0;;) {
    const auto reply = reads(from);
    ASSERT_TRUE(reply);
    if (reply->parts_size() == 0) break;
    from += reply->parts_size();
    for (const auto& each : reply->parts()) bytes += each.spans().size();
  }
  EXPECT_LE(bytes, TraceGatherer::kMostBytesOfRank);
  sends(1, "", true);
  EXPECT_THAT(reads(100)->ranks(0).problem(), HasSubstr("more than its share of 2048 KiB"));
}

TEST_F(GathererOfATrace, LimitsTheSizeOfAReply) {
  begins(16);
  const std::string part(std::size_t{200} << 10, 'x');
  for (Rank rank = 0; rank < 16; ++rank) sends(rank, part);
  EXPECT_LT(reads()->ByteSizeLong(), 2 * TraceGatherer::kMostBytesOfReply);
}

TEST_F(GathererOfATrace, CountsAsUnreadWhenTheReaderStopsPolling) {
  begins();
  EXPECT_TRUE(gatherer.is_read(now + 1s));
  EXPECT_FALSE(gatherer.is_read(now + TraceGatherer::kUnread));
  reads();
  EXPECT_TRUE(gatherer.is_read(now + 1s));
  EXPECT_FALSE(gatherer.is_read(now + TraceGatherer::kUnread));
}

TEST_F(GathererOfATrace, ForgetsATraceAfterAWhile) {
  begins();
  gatherer.end("the job has ended");
  gatherer.expire(12, now);
  EXPECT_TRUE(reads());
  gatherer.expire(12, now + TraceGatherer::kKept);
  EXPECT_FALSE(reads());
}

TEST_F(GathererOfATrace, LimitsTheTextsOfAWorkersSummary) {
  begins(1);
  proto::SendTraceRequest request;
  request.set_trace(kTrace);
  request.mutable_last()->set_device(std::string(1'000, 'd'));
  for (int i = 0; i < 100; ++i) request.mutable_last()->add_notes("\x1b[2J");
  gatherer.add(request, now);
  const auto reply = reads();
  ASSERT_TRUE(reply);
  EXPECT_LE(reply->ranks(0).summary().device().size(), 64U);
  EXPECT_EQ(reply->ranks(0).summary().notes_size(), 8);
  EXPECT_EQ(reply->ranks(0).summary().notes(0), " [2J");
}

}  // namespace
}  // namespace pfc
