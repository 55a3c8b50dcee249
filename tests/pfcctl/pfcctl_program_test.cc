// Tests the output and the exit codes of the program pfcctl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/version.h"
#include "tests/pfcctl/run_pfcctl.h"
#include "tests/support/encoded_images.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;

TEST(Pfcctl, CheckListsDevicesAndPasses) {
  expect_tells(pfcctl("check"),
               {"[X] CPU", "[X] Gloo", "oneDNN ", "[ok] two workers over loopback"});
}

TEST(Pfcctl, CheckPrintsJson) {
  const Ran ran = pfcctl("check --json");
  const auto report = nlohmann::json::parse(ran.output);
  EXPECT_EQ(report["can_train"], true);
  EXPECT_EQ(report["devices"][0]["name"], "CPU");
  for (const auto& [library, version] : report["libraries"].items()) {
    EXPECT_THAT(version.get<std::string>(), ::testing::MatchesRegex("[0-9]+[.][0-9]+.*"))
        << library;
  }
  for (const auto& trial : report["trials"]) EXPECT_EQ(trial["ok"], true) << trial;
}

/// Returns pfcctl's JSON output if it loads this fake driver.
nlohmann::json with_driver(const std::string& driver, const std::string& arguments) {
  setenv("LD_LIBRARY_PATH", (std::string(PFC_FAKE_DRIVERS "/") + driver).c_str(), 1);
  const Ran ran = pfcctl(arguments);
  unsetenv("LD_LIBRARY_PATH");
  return nlohmann::json::parse(ran.output);
}
nlohmann::json check_with_driver(const std::string& driver) {
  return with_driver(driver, "check --json");
}

TEST(Pfcctl, SuggestsStopForCancel) {
  expect_refused("cancel", "unknown command cancel; did you mean stop?");
}

TEST(Pfcctl, HelpListsTheOptionsOfAllVerbsLast) {
  const std::string help = pfcctl("logs --help").output;
  for (const char* own : {"--rank", "--follow", "--tail"}) {
    EXPECT_LT(help.find(own), help.find("Which coordinator")) << help;
  }
  EXPECT_LT(help.find("Which coordinator"), help.find("--state-dir")) << help;
}

TEST(Pfcctl, ImportsAConfigurationOfArcfaceTorch) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "wf42m_vit_b.py";
  std::ofstream(file) << "from easydict import EasyDict as edict\nconfig = edict()\n"
                         "config.network = 'swin_b'\nconfig.output = None\n";
  const Ran ran = pfcctl("config import " + file.string());
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.output, HasSubstr("\"output\": \"work_dirs/wf42m_vit_b\""));
  EXPECT_THAT(ran.output, HasSubstr("warning: pfc-coordinator would refuse this job"));
  EXPECT_THAT(ran.output, HasSubstr("found \"swin_b\""));
  std::ofstream(file) << "import os\n";
  expect_refused("config import " + file.string(), "wf42m_vit_b.py:1: 'import os': ");
}

TEST(Pfcctl, ModelInfoNamesAFileWithoutANetwork) {
  const TemporaryFolder folder;
  std::ofstream(folder / "model.pt") << "PK\x03\x04";
  expect_refused("model info " + (folder / "model.pt").string(),
                 "model.pt: begins like a zip file");
}

TEST(Pfcctl, CheckListsEveryGpuAndTheVersionOfNccl) {
  const auto report = check_with_driver("two_gpus");
  ASSERT_EQ(report["devices"].size(), 3U);
  EXPECT_EQ(report["devices"][1]["name"], "cuda:0");
  EXPECT_THAT(report["devices"][2]["detail"].get<std::string>(),
              HasSubstr("Fake GPU B?, 32.0 GiB, compute capability 9.1, PCI 0000:1C:00.0"));
  EXPECT_THAT(report["collectives"][1]["detail"].get<std::string>(), HasSubstr("2.28.9"));
  // A build without CUDA reports that and marks GPUs as not available.
  const bool built = built_with_cuda();
  for (const auto& entry : {report["devices"][1], report["collectives"][1]}) {
    EXPECT_EQ(entry["available"], built);
    EXPECT_EQ(entry["detail"].get<std::string>().find("built without CUDA; ") == 0, !built);
  }
}

TEST(Pfcctl, CheckGivesTheReasonIfThereIsNoGpu) {
  const auto report = check_with_driver("too_old");
  ASSERT_EQ(report["devices"].size(), 2U);
  EXPECT_EQ(report["devices"][1]["name"], "CUDA");
  EXPECT_EQ(report["devices"][1]["available"], false);
  EXPECT_THAT(report["devices"][1]["detail"].get<std::string>(),
              HasSubstr("found CUDA 12.8, expected 13.0"));
}

TEST(Pfcctl, CheckFailsIfTheTemporaryFolderIsNotWritable) {
  setenv("TMPDIR", "/proc", 1);
  const Ran failed = pfcctl("check");
  unsetenv("TMPDIR");
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.output, HasSubstr("[FAILED] temporary files: cannot write to /proc"));
}

TEST(Pfcctl, SuggestsTheNearestVerbOrOption) {
  expect_refused("stauts", "unknown command stauts; did you mean status?");
  expect_refused("status --jsn", "unknown option --jsn; did you mean --json?");
}

TEST(Pfcctl, AnswersMistakesWithOneLineAndExitCode2) {
  for (const char* arguments :
       {"", "chek", "data", "data synth", "data synth --out", "plan",
        "data synth --out /tmp/x --identities 0", "data synth --out /tmp/x --identities many",
        "--log-level loud check", "replay", "replay head"}) {
    expect_refused(arguments, "");
  }
}

TEST(Pfcctl, HelpShowsExamples) {
  const Ran ran = pfcctl("data synth --help");
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.output, HasSubstr("pfcctl data synth --identities 200"));
  EXPECT_EQ(pfcctl("--version").output, "0.1.0\n");
}

TEST(Pfcctl, FailsIfItsOutputCannotBeWritten) {
  // The # comments out the 2>&1 that pfcctl() appends.
  const Ran ran = pfcctl("--version 2>&1 >/dev/full #");
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.output, HasSubstr("cannot write standard output: No space left on device"));
}

TEST(Pfcctl, DataSynthWritesASet) {
  const TemporaryFolder folder;
  const Ran ran = pfcctl(
      "data synth --identities 2 --images-per-identity 2 --val-identities 2 "
      "--val-pairs 10 --out " +
      (folder.path() / "set").string());
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("4 images of 2 identities"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "set" / "val.bin"));
  const Ran bench =
      pfcctl("data bench --threads 1,2 " + (folder / "set").string() + " --workers 5");
  EXPECT_EQ(bench.status, 2);
  EXPECT_THAT(bench.output,
              HasSubstr("--workers: found 5 workers, but the data have only 4 images"));
}

TEST(Pfcctl, DataPackWithoutResizingReportsThatItDecodesNoImage) {
  const TemporaryFolder folder;
  const auto pack = [&](const std::string& options) {
    return pfcctl("data pack " + (folder / "people").string() + " --force --out " +
                  (folder / "packed").string() + options);
  };
  std::filesystem::create_directories(folder / "people/ada");
  auto jpeg = testing::make_jpeg(20, 20, 1);
  jpeg.resize(jpeg.size() - 12);  // after its header
  testing::write_file(folder / "people/ada/1.jpg", jpeg);
  testing::write_file(folder / "people/ada/2.jpg", testing::make_jpeg(20, 20, 2));
  expect_tells(pack(""), {"2 images of 1 identities, 0 with a damaged header skipped",
                          "images were not decoded; pfcctl data validate finds damaged ones"});
  expect_tells(pack(" --size 20 --max-damaged 0.5"), {"1 damaged ones skipped"});
}

/// Runs pfcctl plan on a job file.
class PfcctlPlan : public ::testing::Test {
 protected:
  PfcctlPlan() {
    std::ofstream(job_) << R"({"network": "mbf", "batch_size": 8, "rec": "/nowhere"})";
  }
  [[nodiscard]] std::string command(const std::string& arguments) const {
    return "plan --config " + job_.string() + " " + arguments;
  }
  [[nodiscard]] Ran plan(const std::string& arguments) const { return pfcctl(command(arguments)); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  /// Creates a symbolic link to itself.
  [[nodiscard]] std::filesystem::path loop() const {
    std::filesystem::create_symlink("loop", folder_ / "loop");
    return folder_ / "loop";
  }

 private:
  const TemporaryFolder folder_;
  const std::filesystem::path job_ = folder_ / "job.json";
};

TEST_F(PfcctlPlan, AddsUpTheParts) {
  const Ran ran = plan("--set num_classes=100000 --workers 4 --device-memory 80GB --json");
  EXPECT_EQ(ran.status, 0) << ran.output;
  const auto json = nlohmann::json::parse(ran.output);
  std::uint64_t sum = 0;
  for (const auto& part : json["parts"]) {
    sum += part["bytes"].get<std::uint64_t>();
    if (part["name"] != "class centres") continue;
    EXPECT_EQ(part["bytes"], 25'000 * 512 * 4);
  }
  EXPECT_EQ(json["total_bytes"], sum);
  EXPECT_EQ(json["available_bytes"], 80'000'000'000);
  EXPECT_GT(json["largest_num_classes"], 10'000'000);
  EXPECT_GT(json["largest_batch_size"], 1000);
}

TEST_F(PfcctlPlan, UsesLocalGpusIfTheBuildHasCuda) {
  const auto json = with_driver("two_gpus", command("--set num_classes=1000 --json"));
  EXPECT_EQ(json["device"], built_with_cuda() ? "cuda" : "cpu");
  const bool of_a_gpu =
      json["available_where"].get<std::string>().find("Fake GPU") != std::string::npos;
  EXPECT_EQ(of_a_gpu, built_with_cuda());
}

TEST_F(PfcctlPlan, FailsIfTheJobDoesNotFit) {
  const Ran ran = plan("--set num_classes=100000000 --device-memory 80GB");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.output, HasSubstr("it does not fit: a worker needs 38"));
  EXPECT_THAT(ran.output, HasSubstr("use 8 workers, each with as much memory"));
}

TEST_F(PfcctlPlan, OmitsATeacherThatIsNotOnThisMachine) {
  const std::string missing =
      "--set num_classes=10 --set num_image=100 --device-memory 80GB --set teacher=/nowhere/t.pt ";
  expect_tells(plan(missing + "--set init_from=/nowhere/i.pt"),
               {"it fits without the teacher, which is not on this machine\n"});
  const Ran ran = plan(missing + "--set rec=synthetic");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.output, HasSubstr("it fits without the teacher\nbut the job would be refused: "
                                    "teacher: /nowhere/t.pt"));
}

TEST_F(PfcctlPlan, ReportsAJobThatWouldBeRefused) {
  for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::string>>{
           {"--workers 11", "11 workers would share 10 classes: start fewer workers"},
           {"--set precision=fp16 --set device=cpu", "precision: found fp16, but a CPU"},
           {"--set batch_size=8 --set num_image=7", "7 images, fewer than one batch of 8"},
           {"--set sync_bn=true --set batch_size=1", "batch_size: expected 2 or more"}}) {
    const Ran ran = plan("--set num_classes=10 --device-memory 80GB " + arguments);
    EXPECT_EQ(ran.status, 1) << arguments;
    EXPECT_THAT(ran.output, HasSubstr("it fits\nbut the job would be refused: "));
    EXPECT_THAT(ran.output, HasSubstr(words));
  }
}

TEST_F(PfcctlPlan, ChecksOutputAndInitFromLikeAWorker) {
  const std::string in = folder().string() + "/";
  ASSERT_EQ(pfcctl("data synth --identities 2 --images-per-identity 2 --val-identities 2 "
                   "--val-pairs 10 --out " +
                   in + "set")
                .status,
            0);
  std::ofstream(in + "file") << "no folder";
  std::filesystem::create_directories(in + "taken/backbone.safetensors");
  const std::string job = "--set batch_size=4 --device-memory 80GB --set rec=" + in + "set";
  EXPECT_EQ(plan(job + " --set output=" + in + "new/deeper").status, 0);
  EXPECT_FALSE(std::filesystem::exists(in + "new"));
  for (const auto& [setting, words] : std::vector<std::pair<std::string, std::string>>{
           {"output=" + in + "file", "cannot make folder " + in + "file: Not a directory"},
           {"output=" + in + "taken", "backbone.safetensors: not a regular file but a folder"},
           {"init_from=" + in + "none", in + "none: cannot open: No such file or directory"},
           {"init_from=" + in + "set", in + "set is a folder; expected a file of weights"}}) {
    const Ran ran = plan(job + " --set output=" + in + "new --set " + setting);
    EXPECT_EQ(ran.status, 1) << setting;
    EXPECT_THAT(ran.output, HasSubstr("but the job would be refused: ")) << setting;
    EXPECT_THAT(ran.output, HasSubstr(words)) << setting;
  }
}

TEST_F(PfcctlPlan, NamesMissingOrWrongInputInOneLine) {
  for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "/nowhere is not on this machine"},
           {"--set rec=" + loop().string(), "Too many levels of symbolic links"},
           {"--set num_classes=10 --workers 0", "--workers"},
           {"--set num_classes=10 --workers-per-host 2", "--workers-per-host: found 2"},
           {"--set num_classes=10 --device-memory much", "--device-memory: found \"much\""},
           {"--set num_classes=10 --device-memory 80", "did you mean 80GB?"},
           {"--set num_classes=10 --set device=cuda", "CUDA"}}) {
    expect_refused(command(arguments), words);
  }
}

}  // namespace
}  // namespace pfc
