#include "common/config/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/config/config.h"
#include "common/config/job_json.h"
#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ReadJobFile : public ::testing::Test {
 protected:
  ReadJobFile() {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("job_file_" + std::string(test->name()) + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "job.json";
  }
  ~ReadJobFile() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  json read(const std::vector<std::string>& overrides = {}) const {
    return read_job_file(path_, overrides);
  }

  [[nodiscard]] std::string refusal(const std::vector<std::string>& overrides = {}) const {
    return testing::message_of<InputError>([&] { read(overrides); });
  }

  std::filesystem::path folder_, path_;
};

TEST_F(ReadJobFile, ReturnsTheObjectAsWritten) {
  write(R"({"network": "mbf", "lr": 0.02})");
  EXPECT_EQ(read(), json({{"network", "mbf"}, {"lr", 0.02}}));
}

TEST_F(ReadJobFile, NamesAMissingFile) {
  EXPECT_EQ(
      refusal(),
      path_.string() + ": cannot open this job file: No such file or directory; check the path");
  std::filesystem::create_directory(path_);
  EXPECT_THAT(refusal(), HasSubstr("this is a folder"));
}

TEST_F(ReadJobFile, ReadsAConfigurationOfArcfaceTorch) {
  path_ = folder_ / "ms1mv3_r50.py";
  write("from easydict import EasyDict as edict\nconfig = edict()\nconfig.lr = 0.2\n");
  EXPECT_EQ(read({"seed=7"}).at("lr"), 0.2);
  EXPECT_EQ(read({"seed=7"}).at("seed"), 7);
  EXPECT_EQ(read().at("seed"), 2048);
  std::ofstream(folder_ / "base.py") << "config = EasyDict()\nconfig.seed = 5\n";
  EXPECT_EQ(read().at("seed"), 5) << "base.py in the same folder has the defaults";
  std::filesystem::remove(folder_ / "base.py");
  ASSERT_EQ(::mkfifo((folder_ / "base.py").c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("base.py: not a regular file; expected"));
}

TEST_F(ReadJobFile, ReportsLineAndColumnOfASyntaxError) {
  write("{\n  \"lr\": 0.1,\n  \"seed\" 3\n}\n");
  EXPECT_THAT(refusal(), StartsWith(path_.string() + ":3:10: not valid JSON: syntax error"));
  EXPECT_THAT(refusal(), HasSubstr("expected ':'"));
  write("");
  EXPECT_THAT(refusal(), StartsWith(path_.string() + ":1:1: not valid JSON: "));
  write("\n\n!");
  EXPECT_THAT(refusal(), StartsWith(path_.string() + ":3:1: "));
}

TEST_F(ReadJobFile, NamesANumberThatIsOutOfRange) {
  write(R"({"batch_size": 8, "lr": 1e999})");
  EXPECT_EQ(refusal(),
            path_.string() + ": lr: expected a number of at most 1.7e308 in size, found 1e999");
  write("{}");
  EXPECT_EQ(refusal({"lr=-1e400"}),
            "--set lr=-1e400: expected a number of at most 1.7e308 in size, found -1e400");
  EXPECT_EQ(refusal({R"(lr_schedule={"power": 1e400})"}),
            R"(--set lr_schedule={"power": 1e400}: power: expected a number of at most 1.7e308 in )"
            "size, found 1e400");
}

TEST_F(ReadJobFile, RejectsADuplicateKey) {
  write(R"({"lr": 0.1, "lr_schedule": {"name": "polynomial"}, "lr": 0.2})");
  EXPECT_EQ(refusal(), path_.string() + ": key \"lr\" is given twice");
}

TEST_F(ReadJobFile, LimitsSizeAndDepth) {
  write(std::string(200'000, '['));
  EXPECT_THAT(refusal(), HasSubstr("found arrays and objects nested more than 16 deep"));
  write(std::string((1 << 20) + 1, ' '));
  EXPECT_THAT(refusal(), HasSubstr("larger than 1 MiB"));
}

TEST_F(ReadJobFile, RejectsAnythingButAnObject) {
  write("[1, 2]");
  EXPECT_THAT(refusal(), HasSubstr("expected a JSON object"));
}

TEST_F(ReadJobFile, AppliesOverridesInOrder) {
  write(R"({"lr": 0.1})");
  const json job = read({"lr=0.2", "lr=0.3", "network=r18", "resume=true", "rec=/a/b=c",
                         "output=", "val_targets=[\"lfw\"]", "lr_schedule.name=polynomial",
                         "lr_schedule.power=2"});
  EXPECT_EQ(job, json::parse(R"({"lr": 0.3, "network": "r18", "resume": true, "rec": "/a/b=c",
      "output": "", "val_targets": ["lfw"], "lr_schedule": {"name": "polynomial", "power": 2}})"));
}

TEST_F(ReadJobFile, ReplacesFp16ByAnotherPrecision) {
  write(R"({"fp16": true})");
  EXPECT_EQ(read({"precision=bf16"}), json({{"precision", "bf16"}}));
}

TEST_F(ReadJobFile, ChangesAPartOfTheDefaultSchedule) {
  for (const char* job : {"{}", R"({"lr_schedule": "polynomial"})"}) {
    write(job);
    const JobConfig config = parse_job(read({"lr_schedule.power=2"}), "job.json");
    EXPECT_EQ(config.lr_schedule.power, 2.0) << job;
  }
}

TEST_F(ReadJobFile, ChangesTheScheduleByItsNameAndParts) {
  write(R"({"lr_schedule": {"name": "polynomial", "power": 2}})");
  const JobConfig config =
      parse_job(read({"lr_schedule.epochs=[3, 5]", "lr_schedule.name=multistep"}), "job.json");
  EXPECT_EQ(config.lr_schedule.kind, ScheduleKind::kMultistep);
  EXPECT_EQ(config.lr_schedule.epochs, (std::vector<std::int64_t>{3, 5}));
  const JobConfig cycle =
      parse_job(read({"lr_schedule.pct_start=0.5", "lr_schedule.name=one_cycle"}), "job.json");
  EXPECT_EQ(cycle.lr_schedule.pct_start, 0.5);
  EXPECT_EQ(read({"lr_schedule.powr=3", "lr_schedule.name=cosine"})["lr_schedule"],
            json::parse(R"({"name": "cosine", "powr": 3})"))
      << "a key of no schedule is left, so that it is refused";
}

TEST_F(ReadJobFile, ChangesTheLossByItsNameAndParts) {
  write(R"({"loss": {"name": "adaface", "m": 0.3, "h": 0.2}})");
  EXPECT_EQ(read({"loss.name=adaface"})["loss"],
            json::parse(R"({"name": "adaface", "m": 0.3, "h": 0.2})"));
  EXPECT_EQ(read({"loss.name=curricularface"})["loss"],
            json::parse(R"({"name": "curricularface", "m": 0.3})"));
  write("{}");
  EXPECT_EQ(read({"loss.m=0.3", "loss.name=adaface"})["loss"],
            json::parse(R"({"name": "adaface", "m": 0.3})"));
}

TEST_F(ReadJobFile, NamesTheOverrideThatIsWrong) {
  write(R"({"lr_schedule": "polynomial"})");
  EXPECT_THAT(refusal({"lr"}), StartsWith("--set lr: expected key=value"));
  EXPECT_THAT(refusal({"=3"}), StartsWith("--set =3: expected key=value"));
  EXPECT_EQ(refusal({"batchsize=3"}),
            R"(--set batchsize=3: unknown key "batchsize"; did you mean "batch_size"?)");
  EXPECT_EQ(refusal({"batch_size.x=2"}),
            "--set batch_size.x=2: \"batch_size\" is not an object; set its value as a whole: "
            "--set batch_size=value");
  EXPECT_THAT(refusal({"seed={\"a\": 1, \"a\": 2}"}), HasSubstr("is given twice"));
}

TEST_F(ReadJobFile, RejectsAnOverrideThatIsNotText) {
  write("{}");
  EXPECT_EQ(refusal({"notes=caf\xe9"}), "--set notes=caf\xe9: expected UTF-8");
  EXPECT_THAT(refusal({""}), StartsWith("--set '': expected key=value"));
}

TEST_F(ReadJobFile, ShowsAnEmptyPath) {
  EXPECT_THAT(testing::message_of<InputError>([] { read_job_file("", {}); }),
              StartsWith("--config '': "));
}

}  // namespace
}  // namespace pfc
