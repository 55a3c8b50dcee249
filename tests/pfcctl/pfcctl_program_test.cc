// The program as a person meets it: what it prints, and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/pfcctl/run_pfcctl.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using testing::HasSubstr;

TEST(Pfcctl, CheckSaysWhatIsThereAndThatThisMachineCanTrain) {
  const Ran ran = pfcctl("check");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("[X] CPU"));
  EXPECT_THAT(ran.output, HasSubstr("[X] Gloo"));
  EXPECT_THAT(ran.output, HasSubstr("oneDNN "));
  EXPECT_THAT(ran.output, HasSubstr("[ok] two workers over loopback"));
}

TEST(Pfcctl, CheckSpeaksJsonToPrograms) {
  const Ran ran = pfcctl("check --json");
  const auto report = nlohmann::json::parse(ran.output);
  EXPECT_EQ(report["can_train"], true);
  EXPECT_EQ(report["devices"][0]["name"], "CPU");
  for (const auto& [library, version] : report["libraries"].items()) {
    EXPECT_THAT(version.get<std::string>(), testing::MatchesRegex("[0-9]+[.][0-9]+.*")) << library;
  }
  for (const auto& trial : report["trials"]) EXPECT_EQ(trial["ok"], true) << trial;
}

TEST(Pfcctl, CheckFailsWithTheReasonWhereNothingTemporaryCanBeWritten) {
  setenv("TMPDIR", "/proc", 1);
  const Ran failed = pfcctl("check");
  unsetenv("TMPDIR");
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.output, HasSubstr("[FAILED] temporary files: cannot write in /proc"));
}

TEST(Pfcctl, MistakesGetOneLineAndExitCode2) {
  for (const char* arguments :
       {"", "chek", "data", "data synth", "data synth --out",
        "data synth --out /tmp/x --identities 0", "data synth --out /tmp/x --identities many",
        "--log-level loud check", "replay", "replay head"}) {
    const Ran ran = pfcctl(arguments);
    EXPECT_EQ(ran.status, 2) << arguments << ": " << ran.output;
    EXPECT_THAT(ran.output, testing::StartsWith("pfcctl: ")) << arguments;
    EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << ran.output;
  }
}

TEST(Pfcctl, HelpShowsExamples) {
  const Ran ran = pfcctl("data synth --help");
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.output, HasSubstr("pfcctl data synth --identities 200"));
  EXPECT_EQ(pfcctl("--version").output, "0.1.0\n");
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
}

}  // namespace
}  // namespace pfc
