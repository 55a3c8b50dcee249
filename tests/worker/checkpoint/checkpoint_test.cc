#include "worker/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "common/error.h"
#include "common/files/safetensors.h"
#include "model/files/model_file.h"
#include "tests/support/counting_ops.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST_F(Checkpoint, RestoresTheSameBits) {
  Writers all = writers(1);
  save(all, 5);
  expect_loads(1, 5);
}

TEST_F(Checkpoint, LoadsFromAnyWorldSizeIntoAnyOther) {
  for (const int from : {1, 2, 4}) {
    Writers all = writers(from);
    save(all, from);
    for (const int to : {1, 2, 3, 4, 5}) expect_loads(to, from);
    empty_output();
  }
}

// The numbers of a row, and the number of updates that it has seen, are functions of its label.
TEST_F(Checkpoint, MovesRowsByLabelToOtherPositions) {
  const auto at = [](std::int64_t unit, std::uint64_t seed) {
    return WorldOptions{.classes = 43, .sample_unit = unit, .seed = seed};
  };
  for (const WorldOptions& from : {at(1, 1), at(8, 1), at(4, 2)}) {
    for (const int writers_before : {1, 3}) {
      Writers all = writers(writers_before);
      save(all, 5, from);
      for (const int to : {1, 2, 3}) {
        for (const WorldOptions& job : {at(1, 1), at(8, 1), at(2, 1), at(4, 2)}) {
          SCOPED_TRACE(from.sample_unit * 100 + job.sample_unit);
          expect_loads(to, 5, job);
        }
      }
      empty_output();
    }
  }
}

TEST_F(Checkpoint, RecordsThePositionsUnlessTheyAreLabels) {
  Writers all = writers(2);
  const auto has_positions = [&](std::int64_t step) {
    std::ifstream manifest(folder(step) / "manifest.json");
    return nlohmann::json::parse(manifest).contains("positions");
  };
  save(all, 5);
  EXPECT_FALSE(has_positions(5));
  empty_output();
  const WorldOptions blocks{.sample_unit = 4, .seed = 9};
  save(all, 6, blocks);
  EXPECT_TRUE(has_positions(6));
  const checkpoint_format::Identity id = checkpoint_format::load_manifest(folder(6)).identity;
  EXPECT_EQ(id.positions().sample_unit, 4);
  EXPECT_EQ(id.positions().seed, 9u);
}

TEST_F(Checkpoint, KeepsTheNeighboursOfClassesForAnyWorldSizeAndPositions) {
  const auto at = [](std::int64_t unit) {
    return WorldOptions{.classes = 43, .sample_unit = unit, .seed = 1, .neighbours = 3};
  };
  for (const std::int64_t unit : {1, 8}) {
    for (const CheckpointMode mode : {CheckpointMode::kCopy, CheckpointMode::kInPlace}) {
      Writers all = writers(2);
      save(all, 5, at(unit), mode);
      for (const int to : {1, 3}) {
        for (const std::int64_t wanted : {1, 2, 8}) expect_loads(to, 5, at(wanted));
      }
      empty_output();
    }
  }
}

TEST_F(Checkpoint, NeedNotHaveNeighbours) {
  Writers all = writers(1);
  save(all, 5);
  SmallWorker worker(0, 1, {.neighbours = 3});
  worker.fill(4);
  load_checkpoint(folder(5), worker.state());
  EXPECT_TRUE(worker.head.state().neighbours->table.empty());
  empty_output();
  save(all, 6, {.neighbours = 3});
  EXPECT_TRUE(std::filesystem::exists(folder(6) / "neighbours.safetensors"));
  expect_loads(1, 6);  // into a job that does not use them
}

TEST_F(Checkpoint, IsWrittenEvenByWorkersWithoutRows) {
  const WorldOptions few{.classes = 3};
  Writers all = writers(5);
  save(all, 5, few);
  expect_loads(2, 5, few);
  expect_loads(5, 5, few);
}

TEST_F(Checkpoint, KeepsAdamWsSecondMoments) {
  const WorldOptions adamw{.optimizer = OptimizerKind::kAdamW};
  Writers all = writers(2);
  save(all, 5, adamw);
  expect_loads(3, 5, adamw);
}

TEST_F(Checkpoint, KeepsTheAveragesOfTheBackbone) {
  const WorldOptions averaged{.average = true};
  for (const int from : {1, 3}) {
    Writers all = writers(from);
    save(all, 5, averaged);
    EXPECT_TRUE(std::filesystem::exists(folder(5) / "backbone_average.safetensors"));
    for (const int to : {1, 2, 3}) expect_loads(to, 5, averaged);
    expect_loads(2, 5);  // a job without averages
    empty_output();
  }
}

TEST_F(Checkpoint, BackboneFilesSayHowTheNetworkReadsPixels) {
  Writers all = writers(1);
  const PixelScale pixels{.mean = {0.25, 0.5, 0.75}, .std = {0.125, 0.25, 0.5}};
  save(all, 5, {.average = true, .pixels = pixels});
  for (const char* name : {"backbone.safetensors", "backbone_average.safetensors"}) {
    EXPECT_EQ(pixels_of(read_weights(folder(5) / name)), pixels) << name;
  }
  expect_loads(1, 5, {.average = true, .pixels = pixels});
}

TEST_F(Checkpoint, GivesItsWeightsToTheAveragesIfItHasNone) {
  Writers all = writers(1);
  save(all, 5);
  SmallWorker worker(0, 1, {.average = true});
  worker.fill(7);
  load_checkpoint(folder(5), worker.state());
  SmallWorker expected(0, 1);
  expected.fill(5);
  for (const auto& [own, average] :
       {std::pair{expected.backbone.weights.flat(), worker.average->weights()},
        std::pair{expected.backbone.state.flat(), worker.average->state()}}) {
    EXPECT_TRUE(std::equal(own.f32(), own.f32() + own.elements() / 2, average.f32()));
  }
}

/// Rewrites a checkpoint's file of centres with other numbers of seen updates.
class CheckpointedUpdates : public Checkpoint {
 protected:
  void rewrite(std::vector<std::int32_t> updated, std::vector<float> updates) const {
    const std::string name = "centres-00000-of-00001.safetensors";
    const SafetensorsFile old(folder(5) / name);
    std::vector<SafetensorsEntry> entries;
    for (const char* tensor : {"weight", "momentum"}) {
      const auto& t = old.at(tensor);
      entries.push_back({.name = tensor, .dtype = t.dtype, .shape = t.shape, .bytes = t.bytes});
    }
    const auto add = [&](const char* tensor, const char* dtype, auto shape, const auto& values) {
      entries.push_back({.name = tensor,
                         .dtype = dtype,
                         .shape = std::move(shape),
                         .bytes = std::as_bytes(std::span(values))});
    };
    using Sizes = std::vector<std::int64_t>;
    if (!updated.empty()) {
      add("updated", "I32", Sizes{static_cast<std::int64_t>(updated.size())}, updated);
      add("updates", "F32", Sizes{static_cast<std::int64_t>(updates.size() / 3), 3}, updates);
    }
    const std::filesystem::path beside = output_ / "beside";
    const WrittenFile written = write_safetensors(beside, entries);
    std::filesystem::rename(beside, folder(5) / name);
    checkpoint_format::Manifest manifest = checkpoint_format::load_manifest(folder(5));
    for (auto& file : manifest.files) {
      if (file.name == name) file.sha256 = written.sha256, file.bytes = written.bytes;
    }
    checkpoint_format::write_manifest(folder(5), manifest);
  }
};

TEST_F(CheckpointedUpdates, AreEmptyInAnOlderFile) {
  Writers all = writers(1);
  save(all, 5);
  rewrite({}, {});
  SmallWorker worker(0, 1);
  worker.fill(7);
  load_checkpoint(folder(5), worker.state());
  const Head::State state = worker.head.state();
  EXPECT_EQ(state.history->count(), 0);
  EXPECT_THAT(state.updated, ::testing::Each(0));
}

TEST_F(CheckpointedUpdates, AreRejectedIfImpossible) {
  Writers all = writers(1);
  save(all, 5);
  const std::vector<float> two(6, 0.5f);
  rewrite(std::vector<std::int32_t>(10, 3), two);
  EXPECT_THAT(load_error(5),
              AllOf(HasSubstr("centres-00000-of-00001.safetensors: expected the tensor"),
                    HasSubstr("[10] of numbers from 0 to 2")));
  rewrite(std::vector<std::int32_t>(10, -1), two);
  EXPECT_THAT(load_error(5), HasSubstr("numbers from 0 to 2"));
  rewrite(std::vector<std::int32_t>(9, 0), two);
  EXPECT_THAT(load_error(5), HasSubstr("I32 [10]"));
}

TEST_F(Checkpoint, HoldsTheDocumentedFiles) {
  Writers all = writers(2);
  save(all, 5);
  std::set<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(folder(5))) {
    names.insert(e.path().filename().string());
  }
  EXPECT_THAT(names, ElementsAre("backbone.safetensors", "backbone_optimizer.safetensors",
                                 "centres-00000-of-00002.safetensors",
                                 "centres-00001-of-00002.safetensors", "manifest.json"));
  const auto manifest = nlohmann::json::parse(std::ifstream(folder(5) / "manifest.json"));
  EXPECT_EQ(manifest["version"], 3);
  EXPECT_EQ(manifest["trained"],
            nlohmann::json::parse(R"({"images": 1280, "next": {"epoch": 0, "position": 1280},
      "planned": {"world_size": 1, "batch_size": 256, "gradient_acc": 1}})"));
  EXPECT_EQ(manifest["job_id"], "job");
  EXPECT_EQ(manifest["world_size"], 2);
  EXPECT_EQ(manifest["global_batch"], 256);
  EXPECT_EQ(manifest["job"]["network"], "small");
  EXPECT_EQ(manifest["files"].size(), 4u);
}

TEST_F(Checkpoint, HoldsTheStateAtBeginEvenIfItChangesLater) {
  Writers all = writers(1);
  SmallWorker worker(0, 1);
  worker.fill(5);
  all[0]->begin(worker.state(), testing::trained_with(5, 256), worker.job(), CheckpointMode::kCopy);
  worker.fill(6);
  all[0]->wait();
  EXPECT_EQ(all[0]->finished_step(), 5);
  all[0]->publish(5);
  expect_loads(1, 5);
}

TEST_F(Checkpoint, IsOnDiskWhenBeginReturnsIfWrittenInPlace) {
  Writers all = writers(1);
  SmallWorker worker(0, 1);
  worker.fill(5);
  all[0]->begin(worker.state(), testing::trained_with(5, 256), worker.job(),
                CheckpointMode::kInPlace);
  EXPECT_EQ(all[0]->finished_step(), 5);
  worker.fill(6);
  all[0]->publish(5);
  expect_loads(1, 5);
}

TEST_F(Checkpoint, HasTheSameBytesIfItIsWrittenWithoutACopy) {
  const WorldOptions adamw{.optimizer = OptimizerKind::kAdamW};
  std::map<std::string, std::vector<std::byte>> files[2];
  for (const CheckpointMode mode : {CheckpointMode::kCopy, CheckpointMode::kInPlace}) {
    Writers all = writers(3);
    save(all, 5, adamw, mode);
    for (const auto& e : std::filesystem::directory_iterator(folder(5))) {
      files[mode == CheckpointMode::kCopy ? 0 : 1][e.path().filename().string()] =
          testing::read_file(e.path());
    }
    expect_loads(2, 5, adamw);
    empty_output();
  }
  EXPECT_EQ(files[0].size(), 6u);
  EXPECT_EQ(files[0], files[1]);
}

TEST_F(Checkpoint, CopiesNoCentresIfWrittenInPlace) {
  const WorldOptions large{.classes = 1000};
  SmallWorker worker(0, 1, large);
  testing::CountingOps ops(1);
  const auto copies_of_centres = [&](CheckpointMode mode) {
    const TrainingState s = worker.state();
    ops.copied.clear();
    Writers all = writers(1);
    all[0]->begin(
        {ops, s.backbone, s.optimizer, s.head, s.loss_scale, s.average, s.classes, s.network},
        testing::trained_with(5, 256), worker.job(), mode);
    all[0]->wait();
    return std::ranges::count(ops.copied, 1000u * 6 * sizeof(float));
  };
  EXPECT_EQ(copies_of_centres(CheckpointMode::kCopy), 2);  // centres and momentum
  EXPECT_EQ(copies_of_centres(CheckpointMode::kInPlace), 0);
}

TEST_F(Checkpoint, IsInvisibleBeforeItIsPublished) {
  EXPECT_FALSE(newest_checkpoint(output_ / "absent").has_value());
  EXPECT_FALSE(newest_checkpoint(output_).has_value());
  Writers all = writers(2);
  EXPECT_EQ(all[0]->finished_step(), 0);
  begin(all, 0, 5);
  all[0]->wait();
  EXPECT_FALSE(newest_checkpoint(output_).has_value());
  EXPECT_THAT(message_of<StorageError>([&] { all[0]->publish(5); }),
              HasSubstr("the part of rank 1 is missing"));
  EXPECT_FALSE(newest_checkpoint(output_).has_value());
}

TEST_F(Checkpoint, SearchSkipsAFolderWithoutAManifest) {
  Writers all = writers(1);
  save(all, 5);
  std::filesystem::create_directories(folder(6));
  expect_loads(1, 5);
  EXPECT_THAT(message_of<InputError>([&] { read_manifest(folder(6)); }),
              HasSubstr("the checkpoint is incomplete"));
}

TEST_F(Checkpoint, KeepsTheNewest) {
  Writers all = writers(1, 1, 2);
  for (std::int64_t step = 1; step <= 4; ++step) save(all, step);
  all.clear();  // waits for the removal of old checkpoints
  EXPECT_THAT(entries(), ElementsAre("step-000000003", "step-000000004"));
}

TEST_F(Checkpoint, NeverRemovesTheOneThatWasJustPublished) {
  Writers all = writers(1, 1, 1);
  save(all, 8);
  save(all, 3);
  all.clear();  // waits for the removal of old checkpoints
  EXPECT_THAT(entries(), ElementsAre("step-000000003"));
}

TEST_F(Checkpoint, MayBeWrittenAgain) {
  Writers first = writers(2);
  save(first, 5);
  Writers second = writers(3, 2);
  save(second, 5);
  second.clear();
  EXPECT_THAT(entries(), ElementsAre("step-000000005"));
  EXPECT_EQ(read_manifest(folder(5)).world_size, 3);
  expect_loads(1, 5);
}

TEST_F(Checkpoint, WriterRemovesLeftoversOfACrash) {
  Writers crashed = writers(2);
  begin(crashed, 1, 5);
  crashed[1]->wait();
  EXPECT_THAT(entries(), ElementsAre(".step-000000005.job.g1.tmp"));
  Writers all = writers(2, 2);
  EXPECT_TRUE(entries().empty());
}

TEST_F(Checkpoint, IsNotChangedByAWorkerOfAnOldGeneration) {
  Writers current = writers(2, 2);
  Writers old = writers(2, 1);
  begin(current, 0, 5);
  begin(old, 1, 5);
  current[0]->wait();
  old[1]->wait();
  EXPECT_THROW(current[0]->publish(5), StorageError);
}

TEST_F(Checkpoint, NamesTheFileWhenTheDiskIsFullAndKeepsThePreviousOne) {
  Writers all = writers(1);
  save(all, 5);
  for (const CheckpointMode mode : {CheckpointMode::kCopy, CheckpointMode::kInPlace}) {
    const FileSizeLimit limit(600);
    begin(all, 0, 6, {}, mode);
    EXPECT_THAT(message_of<StorageError>([&] { all[0]->wait(); }),
                AllOf(HasSubstr(".step-000000006.job.g1.tmp/"), HasSubstr("File too large")));
  }
  EXPECT_EQ(all[0]->finished_step(), 5);  // the error was thrown once
  EXPECT_THAT(entries(), ElementsAre("step-000000005"));
  expect_loads(1, 5);
  save(all, 7);
  expect_loads(1, 7);
}

TEST_F(Checkpoint, LeavesNothingBehindWhenItFails) {
  Writers all = writers(3);
  save(all, 5);
  begin(all, 0, 6);
  begin(all, 2, 6);
  all[0]->wait();
  all[2]->wait();
  {
    const FileSizeLimit limit(100);
    begin(all, 1, 6);
    EXPECT_THROW(all[1]->wait(), StorageError);
  }
  EXPECT_EQ(entries().size(), 2u);  // only rank 0 may remove a finished part
  all.clear();
  EXPECT_THAT(entries(), ElementsAre("step-000000005"));
  expect_loads(3, 5);
}

/// Removes the folder while it is written to, as when rank 0 ends.
class HeadThatLosesTheFolder : public SmallHead {
 public:
  explicit HeadThatLosesTheFolder(std::filesystem::path folder)
      : SmallHead({.classes = 4}, {0, 4}, 6, OptimizerKind::kSgd), folder_(std::move(folder)) {}
  [[nodiscard]] State state() override {
    std::filesystem::remove_all(folder_);
    return SmallHead::state();
  }

 private:
  const std::filesystem::path folder_;
};

TEST_F(Checkpoint, ThrowsCommErrorWhenRankZeroHasEnded) {
  Writers all = writers(2);
  SmallWorker worker(1, 2);
  HeadThatLosesTheFolder head(output_ / ".step-000000006.job.g1.tmp");
  TrainingState state{.ops = *worker.ops,
                      .backbone = worker.backbone,
                      .optimizer = worker.optimizer,
                      .head = head,
                      .loss_scale = worker.loss_scale,
                      .classes = worker.options.classes,
                      .network = "small"};
  all[1]->begin(state, testing::trained_with(6, 256), worker.job(), CheckpointMode::kInPlace);
  EXPECT_THAT(message_of<CommError>([&] { all[1]->wait(); }), HasSubstr("rank 0 has abandoned"));
}

TEST_F(Checkpoint, ThrowsAFailedWriteInBothThreads) {
  Writers all = writers(1);
  const FileSizeLimit limit(600);
  begin(all, 0, 6);
  const auto poll = [&] {
    while (all[0]->finished_step() == 0) std::this_thread::yield();
  };
  EXPECT_THROW(poll(), StorageError);
  EXPECT_THROW(all[0]->wait(), StorageError);
}

TEST_F(Checkpoint, SurvivesAKillWhileTheNextOneIsWritten) {
  for (int repeat = 0; repeat < 8; ++repeat) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      Writers all = writers(2, 1, 2);
      for (std::int64_t step = 1;; ++step) save(all, step % 9 + 1);
    }
    while (!newest_checkpoint(output_)) std::this_thread::yield();
    // So the kill comes at different points of the child's loop.
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * repeat));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const auto newest = newest_checkpoint(output_);
    ASSERT_TRUE(newest.has_value());
    expect_loads(3, newest->trained.step);
    empty_output();
  }
}

}  // namespace
}  // namespace pfc
