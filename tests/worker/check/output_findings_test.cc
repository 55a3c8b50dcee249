#include "worker/check/output_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

TEST(CheckpointsBytes, CountTheFilesOfClassCentresOnDiskOnceAndTheirLogs) {
  PlannedJob planned;
  planned.world_size = 2;
  planned.job.keep_checkpoints = 3;
  planned.job.save_every_steps = 100;
  planned.job.num_classes = 2'000'000;
  planned.job.sample_rate = 0.001;
  planned.job.centre_precision = CentrePrecision::kInt8;
  planned.job.centre_momentum = 0;
  planned.job.batch_size = 10;
  planned.job.embedding_size = 512;
  constexpr std::uint64_t kFile = 512'000'000;
  const MemoryPlan plan{.parts = {{"class centres", 0, ""}, {"backbone weights", 100, ""}},
                        .centre_file = kFile};
  EXPECT_EQ(checkpoint_bytes(planned, plan), 100u);
  const auto logs = [&] {
    return static_cast<double>(checkpoints_bytes(planned, plan) - 2 * kFile - 400) / (2 * kFile);
  };
  // A page has 8 rows. One is drawn in 1 of 1000 steps, and 1 of 1000 is a label of the 100 steps.
  const double of_pages = 1 - std::pow(0.999, 101 * 8) * std::exp(-2000 / 2e6 * 8);
  EXPECT_NEAR(logs(), 1 + 3 * of_pages, 1e-6);
  planned.job.sample_unit = 8;
  planned.job.sample_hold = 10;
  EXPECT_NEAR(logs(), 1 + 3 * (1 - std::pow(0.999, 11) * std::exp(-2000 / 2e6 * 8)), 1e-6);
  planned.job.save_every_seconds = 60;
  EXPECT_NEAR(logs(), 4, 1e-6);
  planned.job.save_every_steps = 0;
  planned.job.save_every_seconds = 0;
  EXPECT_EQ(checkpoints_bytes(planned, plan), 2 * kFile + 100);
}

}  // namespace
}  // namespace pfc
