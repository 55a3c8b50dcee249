#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <semaphore>
#include <vector>

#include "kernels/make_ops.h"
#include "tests/support/thread_comm.h"
#include "worker/gradients/make_grad_reducer.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

/// A Comm of two workers that only records its sums. A sum starts when the test allows it.
class WatchedComm : public Comm {
 public:
  explicit WatchedComm(float* gradients) : gradients_(gradients) {}

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 2; }
  [[nodiscard]] std::string description() const override { return "watched"; }
  [[nodiscard]] CommCounters counters() const override { return {}; }
  void all_gather(const Tensor&, const Tensor&) override {}
  void reduce_scatter_sum(const Tensor&, const Tensor&) override {}
  void all_to_all(const Tensor&, const Tensor&) override {}
  void broadcast(const Tensor&, int) override {}
  void barrier() override {}
  void abort(const std::string&) override {}

  void all_reduce_sum(const Tensor& in_out) override {
    const std::int64_t offset = in_out.f32() - gradients_;
    EXPECT_GE(offset, ready_offset) << "started before its gradients were final";
    started.release();
    allowed.acquire();
    if (fails) throw CommError("rank 1 is gone");
    reduced.push_back({offset, in_out.elements()});
  }

  struct Slice {
    std::int64_t offset, count;
  };
  std::vector<Slice> reduced;  // used by the reducer's thread until wait() returns
  std::atomic<std::int64_t> ready_offset = 1 << 20;
  std::counting_semaphore<> started{0}, allowed{0};
  std::atomic<bool> fails = false;

 private:
  float* const gradients_;
};

class Reducer : public ::testing::Test {
 protected:
  void make(std::int64_t bucket_elements) {
    reducer_ = make_grad_reducer(*ops_, comm_, {gradients_.data(), Shape{10}},
                                 {.bucket_bytes = bucket_elements * 4});
  }
  void ready(std::int64_t offset) {
    comm_.ready_offset = offset;
    reducer_->ready(offset);
  }

  std::vector<float> gradients_ = std::vector<float>(10);
  std::unique_ptr<Ops> ops_ = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  WatchedComm comm_{gradients_.data()};
  std::unique_ptr<GradReducer> reducer_;
};

TEST_F(Reducer, ReducesWholeBucketsFromTheEndToTheStart) {
  make(4);
  comm_.allowed.release(3);
  for (const std::int64_t offset : {9, 7, 6, 3, 1, 0}) ready(offset);
  reducer_->wait();
  EXPECT_THAT(comm_.reduced, ElementsAre(FieldsAre(6, 4), FieldsAre(2, 4), FieldsAre(0, 2)));
}

TEST_F(Reducer, ReducesNoBucketBeforeItIsFinal) {  // WatchedComm checks it
  std::mt19937 random(3);
  make(3);
  for (int step = 0; step < 50; ++step) {
    comm_.allowed.release(4);
    for (std::int64_t offset = 10; offset > 0;) {
      offset -= std::min<std::int64_t>(offset, 1 + random() % 4);
      ready(offset);
    }
    reducer_->wait();
    comm_.ready_offset = 1 << 20;
  }
  EXPECT_EQ(comm_.reduced.size(), 200u);
}

TEST_F(Reducer, ReducesDuringTheBackwardPass) {
  make(4);
  ready(6);
  comm_.started.acquire();  // the sum of the first bucket has started, but has not finished
  ready(2);
  ready(0);  // none of the calls of ready() waits for the sum
  comm_.allowed.release(3);
  reducer_->wait();
  const GradReducer::Timeline& t = reducer_->timeline();
  ASSERT_EQ(t.buckets.size(), 3u);
  EXPECT_LE(t.buckets[0].start, t.wait_called);
  for (const auto& bucket : t.buckets) {
    EXPECT_LE(bucket.start, bucket.end);
    EXPECT_LE(bucket.end, t.wait_done);
  }
}

TEST_F(Reducer, ThrowsAFailureFromEveryWait) {
  make(4);
  comm_.fails = true;
  comm_.allowed.release(3);
  ready(0);
  EXPECT_THROW(reducer_->wait(), CommError);
  ready(0);
  EXPECT_THROW(reducer_->wait(), CommError);
}

TEST_F(Reducer, RejectsWaitingTooEarly) {
  make(4);
  comm_.allowed.release(1);
  ready(6);
  EXPECT_THROW(reducer_->wait(), std::logic_error);
}

TEST(ReducerOfOne, LeavesTheGradientsUnchanged) {
  testing::Meeting alone(1);
  testing::ThreadComm comm(alone, 0);
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  std::vector<float> g = {1, 2};
  const auto reducer = make_grad_reducer(*ops, comm, {g.data(), Shape{2}});
  reducer->ready(0);
  reducer->wait();
  EXPECT_EQ(g, (std::vector<float>{1, 2}));
  EXPECT_TRUE(reducer->timeline().buckets.empty());
}

TEST(ReducerOfMany, ReducesTheSameBucketsOnRanksWithDifferentSpeeds) {
  std::mutex mutex;
  std::vector<std::vector<std::int64_t>> orders;  // guarded by mutex
  testing::run_ranks(3, [&](Comm& comm) {
    const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
    std::vector<float> g(1000);
    const auto reducer =
        make_grad_reducer(*ops, comm, {g.data(), Shape{1000}}, {.bucket_bytes = 4 * 64});
    std::mt19937 random(static_cast<unsigned>(comm.rank()));
    for (int step = 0; step < 10; ++step) {
      for (std::size_t i = 0; i < g.size(); ++i) {
        g[i] = static_cast<float>(i + static_cast<std::size_t>(comm.rank()));
      }
      for (std::int64_t offset = 1000; offset > 0;) {
        offset -= std::min<std::int64_t>(offset, 1 + random() % 200);
        reducer->ready(offset);
      }
      reducer->wait();
      for (std::size_t i = 0; i < g.size(); ++i) ASSERT_EQ(g[i], static_cast<float>(3 * i + 3));
    }
    std::vector<std::int64_t> order;
    for (const auto& bucket : reducer->timeline().buckets) order.push_back(bucket.offset);
    const std::lock_guard lock(mutex);
    orders.push_back(order);
  });
  EXPECT_EQ(orders[0].size(), 16u);
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(orders[0], orders[2]);
}

TEST(GradReducer, ChoosesTheBucketSizeByTheNetworksSize) {
  EXPECT_EQ(default_bucket_bytes(100 << 20), (100 << 20) / 16 / 4096 * 4096);
  EXPECT_EQ(default_bucket_bytes(1 << 20), 512 << 10);
  EXPECT_EQ(default_bucket_bytes(1LL << 30), 8 << 20);
}

TEST(GradReducerTimeline, CountsTheTimeBeforeWaitAsOverlapped) {
  const GradReducer::Timeline timeline{.buckets = {{.start = 0.0, .end = 1.0},
                                                   {.start = 1.0, .end = 3.0},
                                                   {.start = 3.0, .end = 4.0}},
                                       .wait_called = 2.5};
  EXPECT_DOUBLE_EQ(timeline.busy_seconds(), 4.0);
  EXPECT_DOUBLE_EQ(timeline.overlapped_seconds(), 2.5);
}

}  // namespace
}  // namespace pfc
