// Tests checkpoints of one-byte class centres. They are loaded with other numbers of workers, in
// other precisions, and with and without momentum.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tests/worker/checkpoint/checkpoint_fixture.h"
#include "worker/checkpoint/stored_centres.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

constexpr std::int64_t kStoredClasses = 23, kStoredSize = 20, kStoredCentres = 2;
constexpr std::int64_t kStoredRow = kStoredCentres * kStoredSize;
const WorldOptions kStoredWorld{
    .classes = kStoredClasses, .dimension = kStoredRow, .sub_centres = kStoredCentres};

/// The rows of all workers.
struct AllRows {
  std::vector<std::byte> bytes;  ///< as stored, with scales
  std::vector<float> centres, momentum;
  std::vector<float> current;  ///< centres after all updates
  std::vector<std::int32_t> updated;
};

void append(std::vector<std::byte>& to, const Tensor& t) {
  if (!t) return;
  const auto* const first = static_cast<const std::byte*>(t.data);
  to.insert(to.end(), first, first + t.bytes());
}

/// A worker with a real head.
class HeadWorker {
 public:
  HeadWorker(Comm& comm, CentrePrecision precision, double momentum)
      : small_(comm.rank(), comm.size(), kStoredWorld),
        head_(make_head(*small_.ops, comm,
                        {.classes = kStoredClasses,
                         .embedding_size = kStoredSize,
                         .sub_centres = kStoredCentres,
                         .sample_rate = 0.2,
                         .momentum = momentum,
                         .centre_precision = precision})) {
    small_.fill(1);
  }
  [[nodiscard]] TrainingState state() {
    return {.ops = *small_.ops,
            .backbone = small_.backbone,
            .optimizer = small_.optimizer,
            .head = *head_,
            .loss_scale = small_.loss_scale,
            .classes = kStoredClasses,
            .network = "small",
            .sub_centres = kStoredCentres};
  }
  [[nodiscard]] nlohmann::json job() const { return small_.job(); }

  /// Runs steps in which some classes are active.
  void train() {
    for (std::int64_t step = 1; step <= 9; ++step) {
      std::vector<float> x(3 * kStoredSize);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(((i + 1) * static_cast<std::size_t>(step) * 37) % 19) - 9;
      }
      const std::vector<std::int64_t> labels{step, 22 - step, 2 * step};
      const ActiveCentres active = head_->sample(labels, step);
      head_->run({.all_embeddings = Tensor(x.data(), {3, kStoredSize}),
                  .all_labels = labels,
                  .active = active,
                  .update = step});
    }
  }

  void add_rows(AllRows& all) {
    const Head::State state = head_->state();
    for (const ScaledRows& t : {state.centres, state.momentum}) {
      append(all.bytes, t);
      append(all.bytes, t.scales);
    }
    const auto numbers = [&](const ScaledRows& t, std::vector<float>& to) {
      if (!t) return;
      to.resize(to.size() + static_cast<std::size_t>(t.elements()));
      copy_rows_to_host(*small_.ops, to.data() + std::ssize(to) - t.elements(), t);
    };
    numbers(state.centres, all.centres);
    numbers(state.momentum, all.momentum);
    std::vector<float> current(static_cast<std::size_t>(state.centres.elements()));
    head_->read_current(head_->shard(), current);
    all.current.insert(all.current.end(), current.begin(), current.end());
    all.updated.insert(all.updated.end(), state.updated.begin(), state.updated.end());
  }

 private:
  SmallWorker small_;
  std::unique_ptr<Head> head_;
};

class OneByteCheckpoint : public Checkpoint {
 protected:
  /// Calls `prepare` for each worker of a new world, and returns the workers' rows.
  AllRows world(int workers, CentrePrecision precision, double momentum,
                const std::function<void(Comm&, HeadWorker&)>& prepare) {
    std::vector<AllRows> parts(static_cast<std::size_t>(workers));
    testing::run_ranks(workers, [&](Comm& comm) {
      HeadWorker worker(comm, precision, momentum);
      prepare(comm, worker);
      worker.add_rows(parts[static_cast<std::size_t>(comm.rank())]);
    });
    AllRows all;
    const auto add = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    for (const AllRows& part : parts) {
      add(all.bytes, part.bytes);
      add(all.centres, part.centres);
      add(all.momentum, part.momentum);
      add(all.current, part.current);
      add(all.updated, part.updated);
    }
    return all;
  }
  /// Trains, or loads the newest checkpoint, and saves the state of this step.
  AllRows save(int workers, std::int64_t step, CentrePrecision precision, double momentum) {
    Writers all = writers(workers);
    const auto newest = newest_checkpoint(output_);
    AllRows rows = world(workers, precision, momentum, [&](Comm& comm, HeadWorker& worker) {
      newest ? static_cast<void>(load_checkpoint(newest->folder, worker.state())) : worker.train();
      CheckpointWriter& writer = *all[static_cast<std::size_t>(comm.rank())];
      writer.begin(worker.state(), testing::trained_with(step, 256), worker.job(),
                   CheckpointMode::kCopy);
      writer.wait();
    });
    all[0]->publish(step);
    return rows;
  }
  AllRows load(int workers, CentrePrecision precision, double momentum) {
    return world(workers, precision, momentum, [&](Comm&, HeadWorker& worker) {
      load_checkpoint(newest_checkpoint(output_)->folder, worker.state());
    });
  }
};

TEST_F(OneByteCheckpoint, KeepsItsBytesForAnyNumbersOfWorkers) {
  for (const CentrePrecision precision : {CentrePrecision::kInt8, CentrePrecision::kFp8}) {
    for (const double momentum : {0.9, 0.0}) {
      const AllRows one = save(1, 1, precision, momentum);
      EXPECT_EQ(load(1, precision, momentum).bytes, one.bytes);
      for (const int workers : {2, 3}) {
        const AllRows loaded = load(workers, precision, momentum);
        EXPECT_EQ(loaded.centres, one.centres);
        EXPECT_EQ(loaded.momentum, one.momentum);
        EXPECT_EQ(loaded.updated, one.updated);
        EXPECT_EQ(save(workers, workers, precision, momentum).bytes, loaded.bytes);
      }
      EXPECT_EQ(load(1, precision, momentum).bytes, one.bytes);
      empty_output();
    }
  }
}

TEST_F(OneByteCheckpoint, LoadsIntoOtherPrecisionsAndBack) {
  for (const CentrePrecision precision : {CentrePrecision::kInt8, CentrePrecision::kFp8}) {
    const AllRows one = save(2, 1, precision, 0.9);
    for (const CentrePrecision wide : {CentrePrecision::kFp32, CentrePrecision::kBf16}) {
      const AllRows widened = save(3, wide == CentrePrecision::kFp32 ? 2 : 3, wide, 0.9);
      EXPECT_EQ(widened.centres, one.centres);
      EXPECT_EQ(widened.momentum, one.momentum);
    }
    EXPECT_EQ(load(2, precision, 0.9).bytes, one.bytes);
    const AllRows other = load(
        1, precision == CentrePrecision::kInt8 ? CentrePrecision::kFp8 : CentrePrecision::kInt8,
        0.9);
    EXPECT_EQ(other.momentum, one.momentum);
    double squares = 0, errors = 0;
    for (std::size_t i = 0; i < one.centres.size(); ++i) {
      squares += double{one.centres[i]} * double{one.centres[i]};
      errors += (double{other.centres[i]} - double{one.centres[i]}) *
                (double{other.centres[i]} - double{one.centres[i]});
    }
    EXPECT_LT(errors, 2e-3 * squares);
    empty_output();
  }
}

TEST_F(OneByteCheckpoint, AppliesMissedUpdatesIfTheNextJobKeepsNoMomentum) {
  const AllRows with = save(2, 1, CentrePrecision::kFp32, 0.9);
  EXPECT_NE(with.current, with.centres) << "some rows have missed updates";
  const AllRows without = load(3, CentrePrecision::kFp32, 0);
  EXPECT_TRUE(without.momentum.empty());
  for (std::size_t i = 0; i < with.current.size(); ++i) {
    EXPECT_NEAR(without.current[i], with.current[i], 1e-6) << i;
  }
}

TEST_F(OneByteCheckpoint, StartsMomentumAtZeroIfNoneIsStored) {
  const AllRows without = save(2, 1, CentrePrecision::kInt8, 0);
  const AllRows with = load(1, CentrePrecision::kInt8, 0.9);
  EXPECT_EQ(with.centres, without.centres);
  EXPECT_EQ(with.updated, without.updated);
  EXPECT_EQ(with.momentum, std::vector<float>(without.centres.size()));
}

TEST_F(OneByteCheckpoint, RejectsScalesOfAnotherShape) {
  save(1, 1, CentrePrecision::kInt8, 0);
  const std::string name = "centres-00000-of-00001.safetensors";
  const SafetensorsFile whole(folder(1) / name);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [tensor, stored] : whole.tensors()) {
    entries.push_back({tensor, stored.dtype, stored.shape, stored.bytes, {}});
    if (tensor == "weight_scale") entries.back().shape = {kStoredCentres, kStoredClasses};
  }
  write_safetensors(folder(1) / "changed", entries);
  const auto open = [&](const std::string&) { return SafetensorsFile(folder(1) / "changed"); };
  checkpoint_format::Identity id = checkpoint_format::load_manifest(folder(1)).identity;
  const std::string message = testing::message_of<InputError>([&] {
    StoredCentres(id, {.classes = kStoredClasses}, {0, kStoredClasses}, OptimizerKind::kSgd, open);
  });
  EXPECT_TRUE(
      message.ends_with("weight_scale has dtype F32 or an unexpected shape; expected F32 [23, 2]"))
      << message;
}

}  // namespace
}  // namespace pfc
