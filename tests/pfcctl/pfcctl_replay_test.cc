// Tests the command line of pfcctl replay head. tests/worker/head and tests/reference test the
// results of a step.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/files/safetensors.h"
#include "tests/pfcctl/run_pfcctl.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

class PfcctlReplay : public ::testing::Test {
 protected:
  PfcctlReplay() {
    for (std::size_t i = 0; i < embeddings_.size(); ++i) {
      embeddings_[i] = std::sin(static_cast<float>(i));
    }
    for (std::size_t i = 0; i < centres_.size(); ++i) {
      centres_[i] = std::cos(static_cast<float>(i));
    }
  }

  /// Writes three samples and five classes; only rows of classes_ if it is not empty.
  void write(const std::map<std::string, std::string>& metadata = {}) const {
    std::vector<SafetensorsEntry> entries{
        {"embeddings", "F32", {3, 4}, std::as_bytes(std::span(embeddings_)), {}},
        {"labels", "I64", {3}, std::as_bytes(std::span(labels_)), {}},
        {"centres", "F32", {5, 4}, std::as_bytes(std::span(centres_)), {}}};
    if (!classes_.empty()) {
      entries.push_back({"classes", "I64", {5}, std::as_bytes(std::span(classes_)), {}});
    }
    write_safetensors(in_, entries, metadata);
  }

  [[nodiscard]] Ran replay(const std::string& more = "") const {
    return pfcctl("replay head --in " + in_.string() + " --out " + out_.string() + " " + more);
  }

  /// Expects exit code 2, the message, and no output file.
  void expect_head_refused(const std::string& arguments, const std::string& words) const {
    expect_refused("replay head " + arguments, words);
    EXPECT_FALSE(std::filesystem::exists(out_));
  }
  void expect_setting_refused(const std::string& setting, const std::string& words) const {
    expect_head_refused("--in " + in_.string() + " --out " + out_.string() + " " + setting, words);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path in_ = folder_ / "in.safetensors", out_ = folder_ / "out.safetensors";
  std::vector<float> embeddings_ = std::vector<float>(12), centres_ = std::vector<float>(20);
  std::vector<std::int64_t> labels_{4, 0, 4}, classes_;
};

TEST_F(PfcctlReplay, PrintsItsInputAndResult) {
  write();
  expect_tells(replay("--workers 2 --step 7 --set lr=0.25"),
               {"step 7, lr 0.25, 2 workers", "3 x 4", "loss ", "|d_embeddings| "});
  const SafetensorsFile out(out_);
  for (const char* name : {"loss", "d_embeddings", "centres", "momentum"}) {
    EXPECT_TRUE(out.tensors().contains(name)) << name;
  }
}

TEST_F(PfcctlReplay, NamesTheRowThatIsNotFinite) {
  centres_[9] = std::numeric_limits<float>::quiet_NaN();
  embeddings_[4] = std::numeric_limits<float>::infinity();
  labels_ = {400, 100, 400};
  classes_ = {100, 200, 300, 400, 500};
  write({{"not_finite", "the loss"}, {"loss", "nan"}, {"rows", "before the update"}});
  expect_tells(replay(), {"in the job the loss was not finite (loss nan)", "1, first in sample 1",
                          "1, first in row 2 (class 300)", "loss nan"});
}

TEST_F(PfcctlReplay, RejectsInvalidSettings) {
  write();
  expect_setting_refused("--set sample_rate=1.5", "sample_rate: expected a number from 0 to 1");
  expect_setting_refused("--set sample_rate=-0.1", "sample_rate: expected a number from 0 to 1");
  expect_setting_refused("--set margin_scale=0", "margin_scale: expected a number above 0");
  expect_setting_refused("--set margin_scale=-64", "margin_scale: expected a number above 0");
  expect_setting_refused("--set margin_list=[1,0.5]", "three numbers");
  expect_setting_refused("--set margin_scal=8", "did you mean \"margin_scale\"?");
  expect_setting_refused("--set lr", "expected key=value");
  expect_setting_refused("--workers 6", "5 rows, fewer than the 6 workers");
  expect_setting_refused("--workers 0", "--workers");
  expect_setting_refused("--step 0", "--step");
}

TEST_F(PfcctlReplay, RejectsAnotherSampleRateForAFileOfSampledRows) {
  classes_ = {0, 2, 3, 4, 8};
  write({{"job", R"({"sample_rate": 0.1})"}});
  expect_setting_refused("--set sample_rate=0.5", "rows that were sampled");
  EXPECT_EQ(replay("--set sample_rate=0.1").status, 0);
}

TEST_F(PfcctlReplay, NamesAnInvalidJobInTheFile) {
  write({{"job", R"({"sample_rate": 7})"}});
  expect_setting_refused("", "in.safetensors: metadata job: sample_rate");
}

TEST_F(PfcctlReplay, RejectsMissingPaths) {
  write();
  const std::string in = "--in " + in_.string(), nowhere = (folder_ / "nowhere").string();
  expect_head_refused("--in " + nowhere + " --out " + out_.string(), nowhere);
  expect_head_refused(in + " --out " + nowhere + "/y.safetensors",
                      "this folder does not exist: " + nowhere);
  expect_head_refused(in + " --out " + in_.string(), "this is an input file of --in");
}

TEST_F(PfcctlReplay, RejectsALabelWithoutARow) {
  labels_[1] = 5;
  write();
  expect_setting_refused("", "label 5 of sample 1");
}

}  // namespace
}  // namespace pfc
