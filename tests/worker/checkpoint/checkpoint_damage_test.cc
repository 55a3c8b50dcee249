// Checkpoints whose files are not as they were written, or are another job's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

TEST_F(Checkpoint, NamesAChangedFileAndTheCheckpointBefore) {
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
  EXPECT_EQ(load_checkpoint(folder(6), SmallWorker(0, 1).state()).step, 6);
}

TEST_F(Checkpoint, NamesAFileThatIsCutOffOrMissing) {
  Writers all = writers(1);
  save(all, 5);
  const auto path = folder(5) / "centres-00000-of-00001.safetensors";
  std::filesystem::resize_file(path, 100);
  EXPECT_THAT(load_error(5), AllOf(HasSubstr(path.string() + ": 100 bytes, expected"),
                                   HasSubstr("there is no checkpoint before it")));
  std::filesystem::remove(path);
  EXPECT_THAT(load_error(5), HasSubstr(path.string() + ": missing"));
}

TEST_F(Checkpoint, SkipsABrokenManifest) {
  Writers all = writers(1);
  save(all, 5);
  save(all, 6);
  for (const char* text : {"", "{", "[]", "{\"version\": 1}", "{\"version\": 2}"}) {
    testing::write_file(folder(6) / "manifest.json", std::string_view(text));
    EXPECT_EQ(newest_checkpoint(output_)->step, 5) << text;
    EXPECT_THAT(load_error(6), AllOf(HasSubstr("step-000000006/manifest.json: "),
                                     Not(HasSubstr("json.exception"))))
        << text;
  }
}

TEST_F(Checkpoint, RejectsImpossibleNumbersInAManifest) {
  Writers all = writers(1);
  save(all, 5);
  const auto path = folder(5) / "manifest.json";
  auto manifest = nlohmann::json::parse(std::ifstream(path));
  manifest["step"] = std::int64_t{1} << 62;
  testing::write_file(path, std::string_view(manifest.dump()));
  EXPECT_THAT(load_error(5), HasSubstr("out of range"));
}

TEST_F(Checkpoint, RefusesToStartWhenNoManifestCanBeRead) {
  Writers all = writers(1);
  save(all, 5);
  testing::write_file(folder(5) / "manifest.json", std::string_view("{"));
  EXPECT_THAT(message_of<InputError>([&] { (void)newest_checkpoint(output_); }),
              AllOf(HasSubstr("step-000000005/manifest.json: "), HasSubstr("move them away")));
}

TEST_F(Checkpoint, RejectsTheCheckpointOfAnotherJob) {
  Writers all = writers(1);
  save(all, 5);
  EXPECT_THAT(load_error(5, {.classes = 11}),
              HasSubstr("the number of classes is 10, but this job's is 11"));
  EXPECT_THAT(load_error(5, {.dimension = 8}), HasSubstr("embedding_size is 6"));
  EXPECT_THAT(load_error(5, {.optimizer = OptimizerKind::kAdamW}),
              HasSubstr("optimizer is sgd, but this job's is adamw"));
  SmallWorker other(0, 1);
  TrainingState state = other.state();
  state.network = "r50";
  EXPECT_THAT(message_of<InputError>([&] { load_checkpoint(folder(5), state); }),
              HasSubstr("network is small, but this job's is r50"));
}

}  // namespace
}  // namespace pfc
