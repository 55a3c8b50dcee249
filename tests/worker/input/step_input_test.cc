#include "worker/input/step_input.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <numeric>

#include "kernels/make_ops.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

constexpr std::int64_t kBatch = 3;
const Shape kImages{kBatch, 2, 2, 3};

/// CPU Ops, shared by all tests of this file.
Ops* ops() {
  static const std::unique_ptr<Ops> ops =
      make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  return ops.get();
}

/// Batches whose labels and pixels identify their rank and number.
class NumberedBatches final : public Prefetcher {
 public:
  NumberedBatches(int rank, std::int64_t count) : rank_(rank), count_(count) {}

  std::unique_ptr<Batch> next() override {
    if (made_ == count_) return nullptr;
    auto batch = std::make_unique<Batch>();
    batch->size = kBatch;
    batch->index = made_;
    for (std::int64_t i = 0; i < kBatch; ++i) batch->labels.push_back(made_ * 100 + rank_ * 10 + i);
    batch->images.assign(static_cast<std::size_t>(kImages.elements()),
                         static_cast<std::uint8_t>(made_));
    ++made_;
    return batch;
  }
  void recycle(std::unique_ptr<Batch>) override { ++recycled; }

  std::atomic<int> recycled{0};

 private:
  int rank_;
  std::int64_t count_;
  std::int64_t made_ = 0;
};

/// Batches of which the one after the first `count` is damaged.
class FailingBatches final : public Prefetcher {
 public:
  FailingBatches(int rank, std::int64_t count) : whole_(rank, count) {}
  std::unique_ptr<Batch> next() override {
    auto batch = whole_.next();
    if (batch == nullptr) throw InputError("train.rec: record 7 is damaged");
    return batch;
  }
  void recycle(std::unique_ptr<Batch> batch) override { whole_.recycle(std::move(batch)); }

 private:
  NumberedBatches whole_;
};

/// Records calls, without arithmetic.
class SamplingOnly final : public Head {
 public:
  ActiveCentres sample(std::span<const std::int64_t> labels, std::int64_t step) const override {
    return {.step = step, .classes = {labels.begin(), labels.end()}};
  }
  HeadResult run(const Step&) override { return {}; }
  void move(const Step&) override {}
  void target_cosines(std::span<float>) override {}
  [[nodiscard]] RowRange shard() const override { return {}; }
  State state() override { return {}; }
  void state_changed() override {}
  void settle(std::span<const std::int64_t>) override {}
  void settle_all() override {}
};

TEST(StepInputs, GatherTheLabelsOfAllWorkersByRank) {
  testing::run_ranks(2, [](Comm& comm) {
    NumberedBatches batches(comm.rank(), 4);
    const SamplingOnly head;
    const auto inputs =
        make_step_inputs(*ops(), batches, comm, head,
                         {.images = kImages, .signals = [] { return WorkerSignals{}; }});
    for (std::int64_t i = 0; i < 4; ++i) {
      StepInput in = inputs->next();
      const std::int64_t b = i * 100;
      EXPECT_EQ(in.all_labels,
                (std::vector<std::int64_t>{b, b + 1, b + 2, b + 10, b + 11, b + 12}));
      EXPECT_EQ(in.active.classes, in.all_labels);
      EXPECT_EQ(in.active.step, i + 1);
      EXPECT_EQ(in.step, i + 1);
      inputs->recycle(in);
    }
    EXPECT_EQ(inputs->next().batch, nullptr);
    EXPECT_EQ(inputs->next().batch, nullptr) << "asking again is harmless";
    EXPECT_EQ(batches.recycled, 4);
  });
}

TEST(StepInputs, DoNotCopyImagesOnACpu) {
  testing::run_ranks(1, [](Comm& comm) {
    NumberedBatches batches(0, 2);
    const SamplingOnly head;
    const auto inputs =
        make_step_inputs(*ops(), batches, comm, head,
                         {.images = kImages, .signals = [] { return WorkerSignals{}; }});
    StepInput in = inputs->next();
    EXPECT_EQ(in.images.data, in.batch->images.data());
    EXPECT_EQ(in.images.shape, kImages);
    inputs->recycle(in);
    EXPECT_EQ(in.images.data, nullptr);
    EXPECT_EQ(in.batch, nullptr);
    EXPECT_EQ(in.all_labels.size(), std::size_t{kBatch}) << "the step still needs the labels";
  });
}

TEST(StepInputs, SampleOncePerOptimizerStepUnderGradientAccumulation) {
  testing::run_ranks(1, [](Comm& comm) {
    NumberedBatches batches(0, 6);
    const SamplingOnly head;
    const auto inputs = make_step_inputs(
        *ops(), batches, comm, head,
        {.images = kImages, .gradient_acc = 3, .signals = [] { return WorkerSignals{}; }});
    std::vector<std::int64_t> steps;
    for (int i = 0; i < 6; ++i) steps.push_back(inputs->next().active.step);
    EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 1, 1, 2, 2, 2}));
  });
}

TEST(StepInputs, ReportAStopToAllWorkersAtTheSameBatch) {
  std::mutex mutex;
  std::vector<std::int64_t> stopped_at;
  testing::run_ranks(3, [&](Comm& comm) {
    NumberedBatches batches(comm.rank(), 8);
    const SamplingOnly head;
    std::atomic<int> asked{0};
    const auto signals = [&] {
      return WorkerSignals{.stop = comm.rank() == 1 && ++asked > 2,
                           .checkpoint_on_disk = comm.rank() + 5,
                           .snapshot_request = comm.rank() + 3};
    };
    const auto inputs =
        make_step_inputs(*ops(), batches, comm, head, {.images = kImages, .signals = signals});
    for (StepInput in = inputs->next(); in.batch != nullptr; in = inputs->next()) {
      EXPECT_EQ(in.signals.checkpoint_on_disk, 5) << "the minimum over all workers";
      EXPECT_EQ(in.signals.snapshot_request, 5) << "the maximum over all workers";
      if (!in.signals.stop) continue;
      const std::lock_guard lock(mutex);
      stopped_at.push_back(in.batch->index);
      EXPECT_EQ(inputs->next().batch, nullptr);
      break;
    }
  });
  EXPECT_EQ(stopped_at, (std::vector<std::int64_t>{2, 2, 2}));
}

TEST(StepInputs, EndWithTheMicroBatchOfTheStop) {
  testing::run_ranks(2, [&](Comm& comm) {
    NumberedBatches batches(comm.rank(), 12);
    const SamplingOnly head;
    std::atomic<int> asked{0};
    const auto signals = [&] {
      return WorkerSignals{.stop = comm.rank() == 1 && ++asked > 4};  // from index 4 on
    };
    const auto inputs = make_step_inputs(
        *ops(), batches, comm, head, {.images = kImages, .gradient_acc = 3, .signals = signals});
    std::int64_t micro_batches = 0;
    while (inputs->next().batch != nullptr) ++micro_batches;
    EXPECT_EQ(micro_batches, 5) << "4 is the second of its step";
  });
}

TEST(StepInputs, ReportFailedDataToAllWorkersAtTheSameBatch) {
  std::array<std::string, 3> told;
  testing::run_ranks(3, [&](Comm& comm) {
    const bool fails = comm.rank() == 1;
    FailingBatches batches(comm.rank(), fails ? 2 : 6);
    const SamplingOnly head;
    const auto inputs =
        make_step_inputs(*ops(), batches, comm, head,
                         {.images = kImages, .signals = [] { return WorkerSignals{}; }});
    EXPECT_EQ(inputs->next().step, 1);
    EXPECT_EQ(inputs->next().step, 2);
    for (int again = 0; again < 2; ++again) {
      try {
        (void)inputs->next();
        ADD_FAILURE() << "rank " << comm.rank() << " received a third batch";
      } catch (const DataFailed& failed) {
        EXPECT_EQ(failed.mine(), fails);
        told[static_cast<std::size_t>(comm.rank())] = failed.what();
      }
    }
  });
  EXPECT_EQ(told[0], "the data of another worker have failed");
  EXPECT_EQ(told[1], "train.rec: record 7 is damaged");
  EXPECT_EQ(told[2], told[0]);
}

}  // namespace
}  // namespace pfc
