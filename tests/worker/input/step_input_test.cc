#include "worker/input/step_input.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/make_ops.h"
#include "tests/support/fake_dataset.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

constexpr std::int64_t kBatch = 3;
const Shape kImages{kBatch, 8, 8, 3};

/// CPU Ops, shared by all tests of this file.
Ops* ops() {
  static const std::unique_ptr<Ops> ops =
      make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  return ops.get();
}

/// Returns options for the first `count` batches of this rank. The data set's labels are the
/// numbers of the images.
PrefetcherOptions batches_of(const Comm& comm, std::int64_t count) {
  return {.batch_size = kBatch,
          .rank = comm.rank(),
          .world_size = comm.size(),
          .shuffle = false,
          .last_batch = count};
}

/// Records calls, without arithmetic.
class SamplingOnly : public Head {
 public:
  explicit SamplingOnly(const ClassPositions& positions = {}) : positions_(positions) {}
  void follow(std::function<HeadSettings(std::int64_t)>) override {}
  [[nodiscard]] HeadSettings settings(std::int64_t) const override { return {}; }
  ActiveCentres sample(std::span<const std::int64_t> labels, std::int64_t step) const override {
    return {.step = step, .classes = {labels.begin(), labels.end()}};
  }
  HeadResult run(const Step&) override { return {}; }
  void move(const Step&) override {}
  void target_cosines(std::span<float>) override {}
  [[nodiscard]] RowRange shard() const override { return {}; }
  [[nodiscard]] const ClassPositions& positions() const override { return positions_; }
  State state() override { return {}; }
  const LossState& loss_before(std::int64_t) const override { return loss_; }
  void read_current(RowRange, std::span<float>) override {}
  void state_changed() override {}
  void settle(std::span<const std::int64_t>) override {}
  void settle_all() override {}
  Tensor teacher() override { return {}; }

 private:
  const ClassPositions positions_;
  LossState loss_;
};

/// Calls a function in each call of sample().
class WatchedSampling final : public SamplingOnly {
 public:
  explicit WatchedSampling(std::function<void()> watch) : watch_(std::move(watch)) {}
  ActiveCentres sample(std::span<const std::int64_t> labels, std::int64_t step) const override {
    watch_();
    return SamplingOnly::sample(labels, step);
  }

 private:
  const std::function<void()> watch_;
};

TEST(StepInputs, TurnLabelsIntoPositions) {
  const testing::FakeDataset dataset(120);
  const ClassPositions positions{.classes = 120, .sample_unit = 8, .seed = 3};
  testing::run_ranks(2, [&](Comm& comm) {
    Prefetcher batches(dataset, batches_of(comm, 1));
    const SamplingOnly head(positions);
    StepInputs inputs(*ops(), batches, comm, head,
                      {.images = kImages, .signals = [] { return WorkerSignals{}; }});
    const StepInput in = inputs.next();
    ASSERT_EQ(in.all_labels.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(in.all_labels[i], positions.position_of(static_cast<std::int64_t>(i)));
    }
    EXPECT_EQ(in.active.classes, in.all_labels);
    EXPECT_EQ(inputs.next().batch, nullptr);
  });
}

TEST(StepInputs, GatherTheLabelsOfAllWorkersByRank) {
  const testing::FakeDataset dataset(120);
  testing::run_ranks(2, [&](Comm& comm) {
    Prefetcher batches(dataset, batches_of(comm, 20));
    const SamplingOnly head;
    StepInputs inputs(*ops(), batches, comm, head,
                      {.images = kImages, .signals = [] { return WorkerSignals{}; }});
    std::set<const void*> memory;
    for (std::int64_t i = 0; i < 20; ++i) {
      StepInput in = inputs.next();
      const std::int64_t b = i * 6;
      EXPECT_EQ(in.all_labels, (std::vector<std::int64_t>{b, b + 1, b + 2, b + 3, b + 4, b + 5}));
      memory.insert(in.batch.get());
      EXPECT_EQ(in.active.classes, in.all_labels);
      EXPECT_EQ(in.active.step, i + 1);
      EXPECT_EQ(in.step, i + 1);
      inputs.recycle(in);
    }
    EXPECT_EQ(inputs.next().batch, nullptr);
    EXPECT_EQ(inputs.next().batch, nullptr) << "a further call must return the same";
    EXPECT_LE(std::ssize(memory), prefetch_depth(2) + kStepInputs) << "batches must be recycled";
  });
}

TEST(StepInputs, DoNotCopyImagesOnACpu) {
  testing::run_ranks(1, [](Comm& comm) {
    const testing::FakeDataset dataset(120);
    Prefetcher batches(dataset, batches_of(comm, 2));
    const SamplingOnly head;
    StepInputs inputs(*ops(), batches, comm, head,
                      {.images = kImages, .signals = [] { return WorkerSignals{}; }});
    StepInput in = inputs.next();
    EXPECT_EQ(in.images.data, in.batch->images.data());
    EXPECT_EQ(in.images.shape, kImages);
    inputs.recycle(in);
    EXPECT_EQ(in.images.data, nullptr);
    EXPECT_EQ(in.batch, nullptr);
    EXPECT_EQ(in.all_labels.size(), std::size_t{kBatch}) << "the step still needs the labels";
  });
}

TEST(StepInputs, SampleClassesOncePerOptimizerStep) {
  testing::run_ranks(1, [](Comm& comm) {
    const testing::FakeDataset dataset(120);
    Prefetcher batches(dataset, batches_of(comm, 6));
    const SamplingOnly head;
    StepInputs inputs(
        *ops(), batches, comm, head,
        {.images = kImages, .gradient_acc = 3, .signals = [] { return WorkerSignals{}; }});
    std::vector<std::int64_t> steps;
    for (int i = 0; i < 6; ++i) steps.push_back(inputs.next().active.step);
    EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 1, 1, 2, 2, 2}));
  });
}

TEST(StepInputs, ReportAStopToAllWorkersAtTheSameBatch) {
  std::mutex mutex;
  std::vector<std::int64_t> stopped_at;
  testing::run_ranks(3, [&](Comm& comm) {
    const testing::FakeDataset dataset(120);
    Prefetcher batches(dataset, batches_of(comm, 8));
    const SamplingOnly head;
    std::atomic<int> asked{0};
    const auto signals = [&] {
      return WorkerSignals{.stop = comm.rank() == 1 && ++asked > 2,
                           .checkpoint_on_disk = comm.rank() + 5,
                           .snapshot_request = comm.rank() + 3};
    };
    StepInputs inputs(*ops(), batches, comm, head, {.images = kImages, .signals = signals});
    for (StepInput in = inputs.next(); in.batch != nullptr; in = inputs.next()) {
      EXPECT_EQ(in.signals.checkpoint_on_disk, 5) << "the minimum over all workers";
      EXPECT_EQ(in.signals.snapshot_request, 5) << "the maximum over all workers";
      if (!in.signals.stop) continue;
      const std::lock_guard lock(mutex);
      stopped_at.push_back(in.batch->index);
      EXPECT_EQ(inputs.next().batch, nullptr);
      break;
    }
  });
  EXPECT_EQ(stopped_at, (std::vector<std::int64_t>{2, 2, 2}));
}

TEST(StepInputs, SampleClassesOnlyAfterTheStepBeforeIfTheyDependOnIt) {
  const testing::FakeDataset dataset(120);
  testing::run_ranks(2, [&](Comm& comm) {
    Prefetcher batches(dataset, batches_of(comm, 16));
    std::atomic<std::int64_t> trained{0};  // steps
    std::vector<std::int64_t> seen;        // steps that were trained when each input was sampled
    const WatchedSampling head([&] { seen.push_back(trained); });
    const auto waits = [](std::int64_t step) { return step == 4 || step == 7; };
    {
      StepInputs inputs(*ops(), batches, comm, head,
                        {.images = kImages,
                         .gradient_acc = 2,
                         .signals = [] { return WorkerSignals{}; },
                         .waits_for_step_before = waits});
      for (std::int64_t micro_batch = 0; micro_batch < 12; ++micro_batch) {
        EXPECT_EQ(inputs.next().step, micro_batch / 2 + 1);
        // Gives the other thread time to sample too early.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (micro_batch % 2 == 1) ++trained;
      }
    }  // its thread waits for step 7, which never comes
    ASSERT_EQ(seen.size(), 12u);
    EXPECT_EQ(seen[6], 3) << "the first micro-batch of step 4";
  });
}

TEST(StepInputs, EndAfterTheMicroBatchInWhichAWorkerRequestsAStop) {
  testing::run_ranks(2, [&](Comm& comm) {
    const testing::FakeDataset dataset(120);
    Prefetcher batches(dataset, batches_of(comm, 12));
    const SamplingOnly head;
    std::atomic<int> asked{0};
    const auto signals = [&] {
      return WorkerSignals{.stop = comm.rank() == 1 && ++asked > 4};  // true from batch index 4 on
    };
    StepInputs inputs(*ops(), batches, comm, head,
                      {.images = kImages, .gradient_acc = 3, .signals = signals});
    std::int64_t micro_batches = 0;
    while (inputs.next().batch != nullptr) ++micro_batches;
    EXPECT_EQ(micro_batches, 5) << "index 4 is the second of its step";
  });
}

TEST(StepInputs, ReportFailedDataToAllWorkersAtTheSameBatch) {
  std::array<std::string, 3> told;
  testing::run_ranks(3, [&](Comm& comm) {
    const bool fails = comm.rank() == 1;
    testing::FakeDataset dataset(120);
    if (fails) dataset.bad_label = 21;  // the first image of its third batch
    Prefetcher batches(dataset, batches_of(comm, 6));
    const SamplingOnly head;
    StepInputs inputs(*ops(), batches, comm, head,
                      {.images = kImages, .signals = [] { return WorkerSignals{}; }});
    EXPECT_EQ(inputs.next().step, 1);
    EXPECT_EQ(inputs.next().step, 2);
    for (int again = 0; again < 2; ++again) {
      try {
        (void)inputs.next();
        ADD_FAILURE() << "rank " << comm.rank() << " received a third batch";
      } catch (const DataFailed& failed) {
        EXPECT_EQ(failed.mine(), fails);
        told[static_cast<std::size_t>(comm.rank())] = failed.what();
      }
    }
  });
  EXPECT_EQ(told[0], "the data of another worker have failed");
  EXPECT_EQ(told[1], "label of image 21");
  EXPECT_EQ(told[2], told[0]);
}

}  // namespace
}  // namespace pfc
