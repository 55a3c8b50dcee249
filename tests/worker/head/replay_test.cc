#include "worker/head/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/error.h"
#include "common/safetensors.h"
#include "kernels/make_ops.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_comm.h"

namespace pfc::testing {
namespace {

using ::testing::HasSubstr;

class HeadReplay : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    bytes_[name].resize(static_cast<std::size_t>(elements) * (dtype == "I64" ? 8 : 4));
    entries_.push_back({name, dtype, std::move(shape), bytes_[name]});
  }
  [[nodiscard]] std::string refusal() {
    write_safetensors(path_, entries_);
    return message_of<InputError>([&] { static_cast<void>(read_head_step(path_)); });
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "step.safetensors";
  std::map<std::string, std::vector<std::byte>> bytes_;
  std::vector<SafetensorsEntry> entries_;
};

TEST_F(HeadReplay, NamesAMissingTensor) {
  write("embeddings", "F32", {3, 8});
  write("labels", "I64", {3});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("step.safetensors"), HasSubstr("centres")));
}

TEST_F(HeadReplay, NamesATensorOfAWrongShapeOrType) {
  write("embeddings", "F32", {3, 8});
  write("centres", "F32", {10, 7});
  write("labels", "I64", {3});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("centres"), HasSubstr("[10, 7]"), HasSubstr("[10, 8]")));
  entries_.clear();
  write("embeddings", "F32", {3, 8});
  write("centres", "F32", {10, 8});
  write("labels", "F32", {3});
  EXPECT_THAT(refusal(), HasSubstr("labels is F32 [3], expected I64 [3]"));
}

TEST_F(HeadReplay, WritesTheSameStepForAnyNumberOfWorkers) {
  const HeadStepInput input{.samples = 2,
                            .classes = 5,
                            .dimension = 2,
                            .embeddings = {1, 0, 0.5f, 2},
                            .labels = {4, 1},
                            .centres = {1, 2, -1, 1, 0.5f, 0.25f, 3, -1, 1, 0},
                            .momentum = std::vector<float>(10, 0.1f),
                            .second = {}};
  const JobConfig job;
  const auto centres_of = [&](int workers) {
    HeadStepOutput output = make_head_step_output(input, job);
    run_ranks(workers, [&](Comm& comm) {
      const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
      replay_head_step(*ops, comm, job, 1, input, output);
    });
    write_head_step(path_, input, output);
    const SafetensorsFile file(path_);
    EXPECT_EQ(file.at("loss").shape, std::vector<std::int64_t>{1});
    EXPECT_EQ(file.at("d_embeddings").shape, (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(file.at("momentum").shape, (std::vector<std::int64_t>{5, 2}));
    return output.centres;
  };
  const std::vector<float> one = centres_of(1);
  const std::vector<float> three = centres_of(3);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(three[i], one[i], 1e-6);
    EXPECT_NE(one[i], input.centres[i]);
  }
}

}  // namespace
}  // namespace pfc::testing
