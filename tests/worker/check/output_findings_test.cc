#include "worker/check/output_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Verdict = CheckFinding::Verdict;

class OutputFindings : public ::testing::Test {
 protected:
  std::vector<CheckFinding> found(std::uint64_t needed = 1) {
    return output_findings({.output = folder / "runs/1"}, needed);
  }

  Verdict worst(const std::vector<CheckFinding>& findings) {
    Verdict worst = Verdict::kOk;
    for (const CheckFinding& each : findings) worst = std::max(worst, each.verdict);
    return worst;
  }

  const TemporaryFolder folder;
};

TEST_F(OutputFindings, LeaveNothingBehind) {
  EXPECT_NE(worst(found()), Verdict::kStops);
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST_F(OutputFindings, KeepExistingFiles) {
  fs::create_directories(folder / "runs/1");
  std::ofstream(folder / "runs/1/model") << "weights";
  found();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "runs/1"), {}), 1);
}

TEST_F(OutputFindings, StopTheJobIfThereIsTooLittleSpace) {
  const auto findings = found(std::uint64_t{1} << 60);
  EXPECT_EQ(findings.front().what, "free space of output");
  EXPECT_EQ(findings.front().verdict, Verdict::kStops);
  EXPECT_THAT(findings.front().remedy, HasSubstr("keep_checkpoints"));
}

TEST_F(OutputFindings, StopTheJobIfTheFolderIsAFile) {
  std::ofstream(folder / "runs") << "a file";
  const auto findings = found();
  EXPECT_EQ(worst(findings), Verdict::kStops);
  EXPECT_THAT(findings.front().remedy, HasSubstr("another output"));
}

TEST(CheckpointsBytes, CountFilesOfCentresOnDiskInAdditionToAllCheckpoints) {
  PlannedJob planned;
  planned.world_size = 2;
  planned.job.keep_checkpoints = 3;
  planned.job.save_every_steps = 10;
  const MemoryPlan plan{.parts = {{"class centres", 0, ""}, {"backbone weights", 100, ""}},
                        .centre_file = 1000};
  EXPECT_EQ(checkpoint_bytes(planned, plan), 2 * 1000u + 100u);
  EXPECT_EQ(checkpoints_bytes(planned, plan), 4 * 2100u + 2 * 1000u);
}

}  // namespace
}  // namespace pfc
