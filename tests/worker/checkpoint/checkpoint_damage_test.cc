// Tests checkpoints whose files were changed, or belong to another job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/other_user.h"
#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

TEST_F(Checkpoint, NamesAChangedFileAndThePreviousCheckpoint) {
  Writers all = writers(2);
  save(all, 5);
  save(all, 6);
  for (const char* name : {"backbone.safetensors", "backbone_optimizer.safetensors",
                           "centres-00001-of-00002.safetensors"}) {
    const auto path = folder(6) / name;
    flip_a_byte(path);
    EXPECT_THAT(load_error(6),
                AllOf(HasSubstr(path.string() + ": sha256 is "), HasSubstr(", expected "),
                      HasSubstr("move " + folder(6).string() + " away to resume from " +
                                folder(5).string())));
    flip_a_byte(path);
  }
  EXPECT_EQ(load_checkpoint(folder(6), SmallWorker(0, 1).state()).trained.step, 6);
}

TEST_F(Checkpoint, RejectsImpossibleNeighbours) {
  const WorldOptions hard{.classes = 10, .neighbours = 3};
  for (const std::int32_t wrong : {-2, 10}) {
    Writers all = writers(1);
    SmallWorker worker(0, 1, hard);
    worker.fill(5);
    worker.head.state().neighbours->table[4] = wrong;
    all[0]->begin(worker.state(), testing::trained_with(5, 256), worker.job(),
                  CheckpointMode::kCopy);
    all[0]->wait();
    all[0]->publish(5);
    EXPECT_THAT(load_error(5, hard),
                HasSubstr((folder(5) / "neighbours.safetensors").string() +
                          ": neighbours: expected I32 [10, k] with classes or -1, found " +
                          std::to_string(wrong)));
    empty_output();
  }
  Writers all = writers(1);
  save(all, 5, hard);
  flip_a_byte(folder(5) / "neighbours.safetensors");
  EXPECT_THAT(load_error(5, hard), HasSubstr("neighbours.safetensors: sha256 is "));
}

TEST_F(Checkpoint, NamesATruncatedOrMissingFile) {
  Writers all = writers(1);
  save(all, 5);
  const auto path = folder(5) / "centres-00000-of-00001.safetensors";
  std::filesystem::resize_file(path, 100);
  EXPECT_THAT(load_error(5), AllOf(HasSubstr(path.string() + ": 100 bytes, expected"),
                                   HasSubstr("there is no checkpoint before it")));
  std::filesystem::remove(path);
  EXPECT_THAT(load_error(5), HasSubstr(path.string() + ": missing"));
}

TEST_F(Checkpoint, SaysHowToContinueWithoutAnUnreadableFile) {
  Writers all = writers(1);
  save(all, 5);
  save(all, 6);
  const auto path = folder(6) / "backbone.safetensors";
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(load_error(6),
              AllOf(HasSubstr("not a regular file but a folder"),
                    HasSubstr("the checkpoint cannot be used: move " + folder(6).string() +
                              " away to resume from " + folder(5).string())));
}

TEST_F(Checkpoint, FindsAMissingOrShortFileBeforeTheJobStarts) {
  Writers all = writers(2);
  save(all, 5);
  const WorldOptions world;
  const auto check = [&] {
    check_checkpoint_fits(
        folder(5),
        {.network = "small", .embedding_size = world.dimension, .classes = world.classes});
  };
  const auto error = [&] { return message_of<InputError>(check); };
  EXPECT_NO_THROW(check());
  const auto path = folder(5) / "centres-00001-of-00002.safetensors";
  std::filesystem::resize_file(path, 100);
  EXPECT_THAT(error(), HasSubstr(path.string() + ": 100 bytes, expected"));
  std::filesystem::remove(path);
  EXPECT_THAT(error(), HasSubstr(path.string() + ": missing; the checkpoint cannot be used"));
}

TEST_F(Checkpoint, SkipsABrokenManifest) {
  Writers all = writers(1);
  save(all, 5);
  save(all, 6);
  for (const char* text :
       {"", "{", "[]", "{\"version\": 1}", "{\"version\": 2}", "{\"version\": 3}"}) {
    testing::write_file(folder(6) / "manifest.json", std::string_view(text));
    EXPECT_EQ(newest_checkpoint(output_)->trained.step, 5) << text;
    EXPECT_THAT(load_error(6),
                AllOf(HasSubstr("step-000000006/manifest.json:"), Not(HasSubstr("json.exception"))))
        << text;
  }
}

TEST_F(Checkpoint, SkipsUnreadableEntries) {
  Writers all = writers(1);
  save(all, 5);
  std::filesystem::create_symlink("step-000000006", folder(6));
  std::filesystem::create_directories(folder(7));
  std::filesystem::create_symlink("manifest.json", folder(7) / "manifest.json");
  testing::write_file(folder(8), std::string_view("a file"));
  std::filesystem::copy(folder(5), folder(9));
  std::filesystem::permissions(output_, std::filesystem::perms::all);
  std::filesystem::permissions(temporary_.path(), std::filesystem::perms::all);
  std::filesystem::permissions(folder(9), std::filesystem::perms::none);
  const testing::OtherUser nobody;
  EXPECT_EQ(newest_checkpoint(output_)->trained.step, 5);
}

TEST_F(Checkpoint, SearchFailsInAFolderThatCannotBeListed) {
  std::filesystem::create_directory_symlink("loop", temporary_ / "loop");
  EXPECT_THAT(message_of<StorageError>([&] { (void)newest_checkpoint(temporary_ / "loop"); }),
              AllOf(HasSubstr((temporary_ / "loop").string()), HasSubstr("cannot list")));
}

/// Manifests with impossible values.
class WrongManifest : public Checkpoint {
 protected:
  using Change = std::function<void(nlohmann::json&)>;

  WrongManifest() {
    Writers all = writers(2);
    save(all, 5);
    whole_ = nlohmann::json::parse(std::ifstream(file_));
  }
  /// Returns the error for a changed manifest.
  std::string error_of(nlohmann::json manifest, const Change& change) {
    change(manifest);
    testing::write_file(file_, std::string_view(manifest.dump()));
    return load_error(5);
  }
  /// Returns the manifest as written by version 1.
  [[nodiscard]] nlohmann::json old() const {
    nlohmann::json manifest = whole_;
    manifest["version"] = 1;
    manifest.erase("sha256");
    manifest.erase("job_id");
    return manifest;
  }

  const std::filesystem::path file_ = folder(5) / "manifest.json";
  nlohmann::json whole_;
};

TEST_F(WrongManifest, IsRejectedBeyondItsLimits) {
  testing::write_file(file_, std::string_view(std::string(5'000'000, '[')));
  EXPECT_EQ(
      load_error(5),
      file_.string() + ": found arrays and objects nested more than 16 deep; expected at most 16");
  testing::write_file(file_, std::string_view(std::string((16 << 20) + 1, ' ')));
  EXPECT_EQ(load_error(5), file_.string() + ": 16.0 MiB of JSON, expected at most 16.0 MiB");
}

TEST_F(WrongManifest, IsDetectedByItsChecksum) {
  EXPECT_THAT(error_of(whole_, [](auto& m) { m["global_batch"] = 257; }),
              AllOf(HasSubstr(file_.string() + ": sha256 of its other keys is "),
                    HasSubstr(", expected " + whole_["sha256"].get<std::string>())));
  EXPECT_THAT(error_of(whole_, [](auto& m) { m["job"]["lr"] = 3; }), HasSubstr("was edited"));
  EXPECT_THAT(error_of(whole_, [](auto& m) { m.erase("sha256"); }), HasSubstr("sha256"));
}

TEST_F(WrongManifest, OfAnOlderVersionIsAcceptedOnlyIfItsValuesAgree) {
  testing::write_file(file_, std::string_view(old().dump()));
  expect_loads(3, 5);
  EXPECT_THAT(error_of(old(), [](auto& m) { m["step"] = 40; }),
              HasSubstr(file_.string() + ": step 40 in the folder step-000000005"));
  EXPECT_THAT(error_of(old(), [](auto& m) { m["step"] = 5.5; }),
              HasSubstr("step: expected an integer, found 5.5"));
  EXPECT_THAT(error_of(old(), [](auto& m) { m["step"] = 1e12; }),
              HasSubstr("step: expected an integer, found 1000000000000.0"));
  EXPECT_THAT(error_of(old(), [](auto& m) { m["step"] = std::int64_t{1} << 62; }),
              HasSubstr("out of range"));
  EXPECT_THAT(error_of(old(), [](auto& m) { m["world_size"] = std::int64_t{1} << 40; }),
              HasSubstr("world_size: expected an integer"));
  EXPECT_THAT(error_of(old(),
                       [](auto& m) {
                         m["job"]["batch_size"] = 64;
                         m["job"]["gradient_acc"] = 2;
                         m["global_batch"] = 128;
                       }),
              HasSubstr("global_batch is 128, but world_size x batch_size x gradient_acc is 256"));
}

TEST_F(WrongManifest, DerivesThePositionInTheDataFromStepsInOlderVersions) {
  const auto trained_of = [&](const Change& change) {
    nlohmann::json manifest = old();
    change(manifest);
    testing::write_file(file_, std::string_view(manifest.dump()));
    return checkpoint_format::load_manifest(folder(5)).identity.trained;
  };
  // Step 5 of 2 workers x batch 64 x gradient_acc 2, in epochs of 3 micro-batches, with 16 images
  // left over.
  const TrainedSoFar trained = trained_of([](auto& m) {
    m["job"].update({{"batch_size", 64}, {"gradient_acc", 2}, {"num_image", 400}});
  });
  EXPECT_EQ(trained.images, 5 * 256);
  EXPECT_EQ(trained.next, (DataPlace{3, 128}));
  EXPECT_EQ(trained.planned, (StepBatch{2, 64, 2}));
  EXPECT_EQ(trained_of([](auto&) {}).next, (DataPlace{0, 5 * 256}))
      << "the number of images is unknown";
}

TEST_F(WrongManifest, DerivesUpdatesFromStepsInOlderVersions) {
  const auto updates_of = [&](const Change& change) {
    nlohmann::json manifest = old();
    change(manifest);
    testing::write_file(file_, std::string_view(manifest.dump()));
    return checkpoint_format::load_manifest(folder(5)).identity.loss_scale.updates;
  };
  EXPECT_EQ(updates_of([](auto& m) { m["loss_scale"]["updates"] = 4; }), 4);
  EXPECT_EQ(updates_of([](auto& m) { m["loss_scale"].erase("updates"); }), 5);
  EXPECT_EQ(updates_of([](auto& m) {
              m["loss_scale"].erase("updates");
              m["loss_scale"]["updates_left_out"] = 2;
            }),
            3);
  for (const std::int64_t updates : {std::int64_t{-1}, std::int64_t{1} << 62}) {
    EXPECT_THAT(error_of(old(), [&](auto& m) { m["loss_scale"]["updates"] = updates; }),
                HasSubstr("out of range"));
  }
}

TEST_F(Checkpoint, IsNeitherCountedNorRemovedIfDamaged) {
  Writers all = writers(1, 1, 2);
  save(all, 1);
  save(all, 2);
  testing::write_file(folder(2) / "manifest.json", std::string_view("{"));
  std::filesystem::create_directories(folder(7) / "somebody's");
  for (const std::int64_t step : {3, 4, 5}) save(all, step);
  all.clear();  // waits for the removal of old checkpoints
  EXPECT_THAT(entries(),
              ElementsAre("step-000000002", "step-000000004", "step-000000005", "step-000000007"));
}

TEST_F(Checkpoint, IsNotRemovedIfOfAnotherModel) {
  Writers others = writers(1);
  save(others, 1, {.classes = 3});
  save(others, 2, {.feature_size = 64});
  save(others, 3, {.sub_centres = 2});
  Writers all = writers(1, 1, 1);
  for (const std::int64_t step : {4, 5}) save(all, step);
  all.clear();
  EXPECT_THAT(entries(),
              ElementsAre("step-000000001", "step-000000002", "step-000000003", "step-000000005"));
}

TEST_F(Checkpoint, SetsAsideOtherFoldersWithItsName) {
  std::filesystem::create_directories(folder(5) / "somebody's");
  Writers all = writers(1);
  save(all, 5);
  std::filesystem::remove(folder(5) / "manifest.json");
  save(all, 5);
  all.clear();
  EXPECT_THAT(entries(), ElementsAre("step-000000005", "step-000000005.set-aside-1",
                                     "step-000000005.set-aside-2"));
  EXPECT_TRUE(std::filesystem::exists(output_ / "step-000000005.set-aside-1/somebody's"));
  expect_loads(1, 5);
}

TEST_F(Checkpoint, RejectsAFolderWithoutAReadableManifest) {
  Writers all = writers(1);
  save(all, 5);
  testing::write_file(folder(5) / "manifest.json", std::string_view("{"));
  EXPECT_THAT(message_of<InputError>([&] { (void)newest_checkpoint(output_); }),
              AllOf(HasSubstr("step-000000005/manifest.json:"), HasSubstr("move them away")));
}

TEST_F(Checkpoint, RejectsTheCheckpointOfAnotherJob) {
  Writers all = writers(1);
  save(all, 5);
  EXPECT_THAT(load_error(5, {.classes = 11}),
              HasSubstr("the number of classes is 10, but this job's is 11"));
  EXPECT_THAT(load_error(5, {.dimension = 8}),
              HasSubstr("embedding_size (plus 1 for a bias) is 6"));
  EXPECT_THAT(load_error(5, {.feature_size = 64}),
              HasSubstr("feature_size is 0, but this job's is 64"));
  EXPECT_THAT(load_error(5, {.sub_centres = 3}),
              HasSubstr("sub_centres is 1, but this job's is 3"));
  EXPECT_THAT(load_error(5, {.optimizer = OptimizerKind::kAdamW}),
              HasSubstr("optimizer is sgd, but this job's is adamw"));
  EXPECT_THAT(load_error(5, {.pixels = {.mean = {0.25, 0.5, 0.5}}}),
              HasSubstr("image_mean is [0.5,0.5,0.5], but this job's is [0.25,0.5,0.5]"));
  EXPECT_THAT(load_error(5, {.pixels = {.std = {0.25, 0.5, 0.5}}}),
              HasSubstr("image_std is [0.5,0.5,0.5], but this job's is [0.25,0.5,0.5]"));
  SmallWorker other(0, 1);
  TrainingState state = other.state();
  state.network = "r50";
  EXPECT_THAT(message_of<InputError>([&] { load_checkpoint(folder(5), state); }),
              HasSubstr("network is small, but this job's is r50"));
}

}  // namespace
}  // namespace pfc
