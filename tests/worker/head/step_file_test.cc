#include "worker/head/step_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {
namespace {

using std::filesystem::path;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Writes step files that are zero except labels and classes, and reads them.
class HeadStepFile : public ::testing::Test {
 protected:
  void floats(const std::string& name, std::vector<std::int64_t> shape, float value = 0) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    const std::vector<float> values(static_cast<std::size_t>(elements), value);
    tensor(name, "F32", std::move(shape), std::as_bytes(std::span(values)));
  }
  void integers(const std::string& name, const std::vector<std::int64_t>& values) {
    tensor(name, "I64", {static_cast<std::int64_t>(values.size())},
           std::as_bytes(std::span(values)));
  }
  /// Writes the file with the tensors and metadata set so far.
  path write(const std::string& name = "step.safetensors") {
    write_safetensors(folder_ / name, entries_, metadata_);
    entries_.clear();
    bytes_.clear();
    metadata_.clear();
    return folder_ / name;
  }
  /// Writes a part of a step of three samples of classes 4, 9 and 4.
  path part(const std::string& name, const std::vector<std::int64_t>& classes, float centre = 0) {
    floats("embeddings", {3, 8});
    integers("labels", {4, 9, 4});
    floats("centres", {static_cast<std::int64_t>(classes.size()), 8}, centre);
    integers("classes", classes);
    return write(name);
  }

  static std::string refusal(const std::vector<path>& paths) {
    return message_of<InputError>([&] { static_cast<void>(read_head_step(paths)); });
  }

  void tensor(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
              std::span<const std::byte> bytes) {
    bytes_[name] = {bytes.begin(), bytes.end()};
    entries_.push_back({name, dtype, std::move(shape), bytes_[name], {}});
  }

  const TemporaryFolder folder_;
  std::map<std::string, std::string> metadata_;

 private:
  std::map<std::string, std::vector<std::byte>> bytes_;
  std::vector<SafetensorsEntry> entries_;
};

TEST_F(HeadStepFile, NamesAMissingTensor) {
  floats("embeddings", {3, 8});
  integers("labels", {0, 1, 2});
  EXPECT_THAT(refusal({write()}), AllOf(HasSubstr("step.safetensors"), HasSubstr("'centres'")));
  floats("embeddings", {3, 8});
  floats("centres", {3, 8});
  EXPECT_THAT(refusal({write()}), AllOf(HasSubstr("step.safetensors"), HasSubstr("'labels'")));
}

TEST_F(HeadStepFile, NamesATensorOfAWrongShapeOrType) {
  floats("embeddings", {3, 8});
  floats("centres", {10, 7});
  integers("labels", {0, 1, 2});
  EXPECT_THAT(refusal({write()}), HasSubstr("centres is F32 [10, 7], expected F32 [C, 8]"));
  floats("embeddings", {3, 8});
  floats("centres", {10, 8});
  floats("labels", {3});
  EXPECT_THAT(refusal({write()}), HasSubstr("labels is F32 [3], expected I64 [3]"));
  floats("embeddings", {3, 8});
  floats("centres", {10, 8});
  integers("labels", {0, 1});
  EXPECT_THAT(refusal({write()}), HasSubstr("labels is I64 [2], expected I64 [3]"));
  floats("embeddings", {3, 8});
  floats("centres", {10, 8});
  floats("momentum", {9, 8});
  integers("labels", {0, 1, 2});
  EXPECT_THAT(refusal({write()}),
              AllOf(HasSubstr("momentum"), HasSubstr("[9, 8]"), HasSubstr("[10, 8]")));
  floats("embeddings", {0, 8});
  EXPECT_THAT(refusal({write()}), HasSubstr("embeddings is F32 [0, 8], expected F32 [N, D]"));
}

TEST_F(HeadStepFile, NamesALabelThatNoRowOwns) {
  for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{10}}) {
    floats("embeddings", {3, 8});
    floats("centres", {10, 8});
    integers("labels", {0, label, 2});
    EXPECT_THAT(refusal({write()}),
                AllOf(HasSubstr("label " + std::to_string(label) + " of sample 1"),
                      HasSubstr("10 classes, counted from 0")));
  }
  EXPECT_THAT(
      refusal({part("x.safetensors", {3, 4, 5, 7})}),
      AllOf(HasSubstr("label 9 of sample 1"), HasSubstr("4 classes in the tensor \"classes\"")));
  EXPECT_THAT(refusal({part("x.safetensors", {})}), HasSubstr("label 4 of sample 0"));
}

TEST_F(HeadStepFile, AcceptsEachLabelOfASampleOnce) {
  for (const std::vector<std::int64_t>& last : {std::vector<std::int64_t>{2, 1, 2}, {2, -1, 1}}) {
    std::vector<std::int64_t> labels{0, 1, 2, 3, -1, -1};
    labels.insert(labels.end(), last.begin(), last.end());
    floats("embeddings", {3, 8});
    floats("centres", {10, 8});
    tensor("labels", "I64", {3, 3}, std::as_bytes(std::span(labels)));
    EXPECT_THAT(refusal({write()}), HasSubstr("label " + std::to_string(last.back()) +
                                              " of sample 2 follows the same label or -1"));
  }
}

TEST_F(HeadStepFile, MergesThePartsOfAllWorkersInTheOrderOfTheirClasses) {
  const path second = part("b.safetensors", {7, 9}, 2);
  const path none = part("c.safetensors", {});
  const path first = part("a.safetensors", {1, 4, 5}, 1);
  const HeadStepInput by_name = read_head_step(std::vector{second, none, first});
  const HeadStepInput by_folder = read_head_step(std::vector{folder_.path()});
  for (const HeadStepInput* in : {&by_name, &by_folder}) {
    EXPECT_EQ(in->samples, 3);
    EXPECT_EQ(in->rows, 5);
    EXPECT_EQ(in->dimension, 8);
    EXPECT_THAT(in->classes, ElementsAre(1, 4, 5, 7, 9));
    EXPECT_THAT(in->labels, ElementsAre(1, 4, 1));
    std::vector<std::pair<std::int64_t, float>> stretches;
    in->centres.each_stretch({2, 5}, [&](std::span<const float> values, std::int64_t row) {
      stretches.emplace_back(row, values[0]);
    });
    EXPECT_THAT(stretches, ElementsAre(std::pair(2, 1.f), std::pair(3, 2.f)));
    EXPECT_TRUE(in->momentum.pieces.empty());
  }
}

// With sample_unit above 1, rows are in the order of positions, and classes are labels.
TEST_F(HeadStepFile, AcceptsClassesInAnyOrderButRejectsDuplicates) {
  const HeadStepInput in =
      read_head_step(std::vector{part("x.safetensors", {9, 4}), part("y.safetensors", {12, 1})});
  EXPECT_THAT(in.classes, ElementsAre(9, 4, 12, 1));
  EXPECT_THAT(in.labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(refusal({part("x.safetensors", {4, 9, 9})}), HasSubstr("classes has 9, which is"));
  EXPECT_THAT(refusal({part("x.safetensors", {4, 9}), part("y.safetensors", {9, 12})}),
              HasSubstr("classes has 9, which is"));
  EXPECT_THAT(refusal({part("x.safetensors", {4, -9})}), HasSubstr("classes has -9"));
}

TEST_F(HeadStepFile, RejectsPartsOfDifferentSteps) {
  const path one = part("one.safetensors", {4, 9});
  floats("embeddings", {3, 8}, 0.5f);
  integers("labels", {4, 9, 4});
  floats("centres", {1, 8});
  integers("classes", {20});
  EXPECT_THAT(refusal({one, write("two.safetensors")}),
              AllOf(HasSubstr("two.safetensors: embeddings"), HasSubstr("one.safetensors")));
}

TEST_F(HeadStepFile, NamesTheRankWhosePartIsMissing) {
  metadata_ = {{step_file::kRank, "0"}, {step_file::kWorldSize, "2"}};
  const path zero = part("zero.safetensors", {4, 9});
  EXPECT_THAT(refusal({zero}), AllOf(HasSubstr("zero.safetensors"), HasSubstr("rank 1"),
                                     HasSubstr("missing"), HasSubstr("folder")));
  EXPECT_THAT(refusal({zero, zero}), AllOf(HasSubstr("rank 0"), HasSubstr("given twice")));
  metadata_ = {{step_file::kRank, "1"}, {step_file::kWorldSize, "3"}};
  EXPECT_THAT(refusal({zero, part("one.safetensors", {12})}),
              HasSubstr("these are not parts of one step"));
}

TEST_F(HeadStepFile, AcceptsTheJobsGradientsOnlyForTheWholeBatch) {
  floats("embeddings", {3, 8});
  integers("labels", {0, 1, 2});
  floats("centres", {10, 8});
  floats("d_embeddings", {3, 8}, 0.5f);
  EXPECT_EQ(read_head_step(std::vector{write()}).job_d_embeddings.pieces.at(0)[23], 0.5f);
  floats("embeddings", {3, 8});
  integers("labels", {0, 1, 2});
  floats("centres", {10, 8});
  floats("d_embeddings", {2, 8});
  EXPECT_THAT(refusal({write()}), AllOf(HasSubstr("d_embeddings"), HasSubstr("2 rows")));
}

TEST_F(HeadStepFile, RejectsAWholeTableBesideOtherFiles) {
  floats("embeddings", {3, 8});
  integers("labels", {4, 9, 4});
  floats("centres", {10, 8});
  const path whole = write("whole.safetensors");
  EXPECT_THAT(refusal({whole, part("part.safetensors", {4, 9})}),
              AllOf(HasSubstr("whole.safetensors"), HasSubstr("classes")));
}

TEST_F(HeadStepFile, ReadsWhatWasNotFiniteInTheJob) {
  metadata_ = {{step_file::kJob, R"({"lr": 0.1, "margin_scale": 16})"},
               {step_file::kLr, "0.025"},
               {step_file::kStep, "12"},
               {step_file::kNotFinite, "the loss"},
               {step_file::kLoss, "nan"},
               {step_file::kRows, step_file::kBefore}};
  const HeadStepInput in = read_head_step(std::vector{part("x.safetensors", {4, 9})});
  EXPECT_EQ(in.job, nlohmann::json({{"lr", 0.025}, {"margin_scale", 16}}));
  EXPECT_EQ(in.step, 12);
  EXPECT_THAT(in.story, AllOf(HasSubstr("the loss"), HasSubstr("nan"), HasSubstr("before")));
}

TEST_F(HeadStepFile, ShowsNoControlCharactersOfItsMetadata) {
  metadata_ = {{step_file::kStep, "12"}, {step_file::kNotFinite, "\x1b[31mred\nline"}};
  const HeadStepInput in = read_head_step(std::vector{part("x.safetensors", {4, 9})});
  EXPECT_THAT(in.story, AllOf(HasSubstr("red"), Not(HasSubstr("\x1b")), Not(HasSubstr("\n"))));
}

TEST_F(HeadStepFile, RejectsUnreadableMetadata) {
  const std::pair<const char*, const char*> wrong[] = {
      {step_file::kJob, "[1]"},  {step_file::kJob, "{"},   {step_file::kStep, "twelve"},
      {step_file::kStep, "1.5"}, {step_file::kLr, "fast"}, {step_file::kRank, "[]"}};
  for (const auto& [key, value] : wrong) {
    metadata_ = {{key, value}};
    EXPECT_THAT(refusal({part("x.safetensors", {4, 9})}),
                HasSubstr(std::string("x.safetensors: metadata ") + key));
  }
}

/// Parts of a step of two micro-batches of two samples: classes 4 and 9, then 4 and 12.
class StepFileOfMicroBatches : public HeadStepFile {
 protected:
  path part(const std::string& name, const std::vector<std::int64_t>& classes,
            const std::vector<std::uint8_t>& active, const std::string& micro_batches = "2") {
    metadata_ = {{step_file::kMicroBatches, micro_batches}};
    floats("embeddings", {4, 8});
    integers("labels", {4, 9, 4, 12});
    floats("centres", {static_cast<std::int64_t>(classes.size()), 8});
    floats("d_embeddings", {2, 8}, static_cast<float>(classes.front()));
    integers("classes", classes);
    if (!active.empty()) {
      tensor("active", "U8", {2, static_cast<std::int64_t>(classes.size())},
             std::as_bytes(std::span(active)));
    }
    return write(name);
  }
};

TEST_F(StepFileOfMicroBatches, NamesTheRowsOfEachMicroBatch) {
  const path first = part("a.safetensors", {4, 9}, {1, 1, 1, 0});
  const path second = part("b.safetensors", {12, 13, 14}, {0, 1, 1, 1, 1, 1});
  const HeadStepInput in = read_head_step(std::vector{second, first});
  EXPECT_EQ(in.micro_batches, 2);
  EXPECT_THAT(in.active, ElementsAre(ElementsAre(0, 1, 3, 4), ElementsAre(0, 2, 3, 4)));
}

TEST_F(StepFileOfMicroBatches, HasTheJobsGradientsMicroBatchByMicroBatch) {
  const path first = part("a.safetensors", {4, 9}, {1, 1, 1, 0});
  const path second = part("b.safetensors", {12}, {0, 1});
  std::vector<float> firsts;
  for (const auto& piece : read_head_step(std::vector{first, second}).job_d_embeddings.pieces) {
    ASSERT_EQ(piece.size(), 8u);
    firsts.push_back(piece[0]);
  }
  EXPECT_THAT(firsts, ElementsAre(4, 12, 4, 12));
}

TEST_F(StepFileOfMicroBatches, RejectsALabelWhoseRowIsNotActive) {
  EXPECT_THAT(refusal({part("x.safetensors", {4, 9, 12}, {1, 1, 0, 1, 1, 0})}),
              AllOf(HasSubstr("label 12 of sample 3"), HasSubstr("micro-batch 1")));
}

TEST_F(StepFileOfMicroBatches, RejectsPartsThatDoNotFitTogether) {
  EXPECT_THAT(refusal({part("x.safetensors", {4, 9, 12}, {1, 1, 0, 1, 1, 1}, "3")}),
              AllOf(HasSubstr("micro_batches is 3"), HasSubstr("4 embeddings")));
  EXPECT_THAT(refusal({part("x.safetensors", {4, 9, 12}, {1, 1, 0, 1, 1, 1}, "0")}),
              HasSubstr("micro_batches is 0"));
  EXPECT_THAT(refusal({part("x.safetensors", {4, 9, 12}, {1, 1, 0, 1, 1, 1}, "1")}),
              HasSubstr("active is U8 [2, 3], expected U8 [1, 3]"));
  EXPECT_THAT(
      refusal({part("x.safetensors", {4, 9}, {1, 1, 1, 0}), part("y.safetensors", {12}, {})}),
      AllOf(HasSubstr("y.safetensors"), HasSubstr("no tensor active")));
  EXPECT_THAT(refusal({part("x.safetensors", {4, 9}, {}), part("y.safetensors", {12}, {}, "1")}),
              HasSubstr("these are not parts of one step"));
}

TEST_F(HeadStepFile, NamesAFolderWithoutFiles) {
  EXPECT_THAT(refusal({folder_.path()}),
              AllOf(HasSubstr(folder_.path().string()), HasSubstr("no *.safetensors")));
  EXPECT_THAT(refusal({folder_ / "nothing"}), HasSubstr("nothing"));
}

}  // namespace
}  // namespace pfc::testing
