// What is kept of convolution algorithms, and how convolutions on the emulated GPU choose theirs.

#include "kernels/cuda/algorithm_cache.h"

#include <cudnn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kernels/cuda/cuda_device.h"
#include "tests/support/simt/memory.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

class ConvolutionAlgorithms : public testing::Test {
 protected:
  [[nodiscard]] AlgorithmCache opened() const {
    return {folder_.path() / "pfc", "NVIDIA H100 80GB", "9.19.0"};
  }
  [[nodiscard]] std::filesystem::path the_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "pfc")) {
      if (entry.path().extension() == ".txt") return entry.path();
    }
    return {};
  }
  // Makes one plan in a new run; how many passes were timed for it.
  [[nodiscard]] int timed_by_a_run(const std::filesystem::path& cache) const {
    const int before = simt::timed_convolutions();
    const std::unique_ptr<Ops> ops =
        make_cuda_ops({.activations = DType::kBFloat16, .cache = cache});
    const std::unique_ptr<Conv2d> plan = ops->conv2d({.in_h = 5, .in_w = 5, .in_c = 8, .out_c = 8});
    return simt::timed_convolutions() - before;
  }

  TemporaryFolder folder_;
};

TEST_F(ConvolutionAlgorithms, AreFoundAgainInTheNextRun) {
  EXPECT_EQ(opened().keep("a 3x3", {.algorithm = 1, .math = 3}), (AlgorithmChoice{1, 3}));
  EXPECT_EQ(opened().keep("a 1x1", {.algorithm = 2, .math = 0}), (AlgorithmChoice{2, 0}));
  EXPECT_EQ(opened().find("a 3x3"), (AlgorithmChoice{1, 3}));
  EXPECT_EQ(opened().find("a 1x1"), (AlgorithmChoice{2, 0}));
  EXPECT_EQ(opened().find("a 7x7"), std::nullopt);
}

TEST_F(ConvolutionAlgorithms, OfTheFirstWorkerHoldForAll) {
  AlgorithmCache first = opened(), second = opened();
  first.keep("a 3x3", {.algorithm = 1, .math = 1});
  EXPECT_EQ(second.keep("a 3x3", {.algorithm = 5, .math = 1}), (AlgorithmChoice{1, 1}));
  EXPECT_EQ(second.find("a 3x3"), (AlgorithmChoice{1, 1}));
}

TEST_F(ConvolutionAlgorithms, OfOtherGpusAndVersionsAreNotMixed) {
  opened().keep("a 3x3", {.algorithm = 1, .math = 1});
  EXPECT_EQ(AlgorithmCache(folder_.path() / "pfc", "NVIDIA L4", "9.19.0").find("a 3x3"),
            std::nullopt);
  EXPECT_EQ(AlgorithmCache(folder_.path() / "pfc", "NVIDIA H100 80GB", "9.20.0").find("a 3x3"),
            std::nullopt);
}

TEST_F(ConvolutionAlgorithms, InADamagedFileAreChosenAnew) {
  for (const char* const damage : {"", "something else\n", "pfc convolution algorithms 1\na 3x3\t1",
                                   "pfc convolution algorithms 1\na 3x3\t1 2 3\n",
                                   "pfc convolution algorithms 1\na 3x3\t99999 0\n",
                                   "pfc convolution algorithms 1\n\t1 2\n"}) {
    opened().keep("a 3x3", {.algorithm = 1, .math = 1});
    std::ofstream(the_file()) << damage;
    EXPECT_EQ(opened().find("a 3x3"), std::nullopt) << damage;
    opened().keep("a 3x3", {.algorithm = 2, .math = 2});
    EXPECT_EQ(opened().find("a 3x3"), (AlgorithmChoice{2, 2})) << damage;
    std::filesystem::remove(the_file());
  }
}

TEST_F(ConvolutionAlgorithms, AreUsedAlsoWhereTheyCannotBeKept) {
  std::ofstream(folder_.path() / "a file") << "not a folder";
  AlgorithmCache cache(folder_.path() / "a file" / "pfc", "GPU", "9");
  EXPECT_EQ(cache.keep("a 3x3", {.algorithm = 1, .math = 3}), (AlgorithmChoice{1, 3}));
  EXPECT_EQ(cache.find("a 3x3"), (AlgorithmChoice{1, 3}));
}

TEST_F(ConvolutionAlgorithms, AreTimedOnceAKindOfGpu) {
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 3);
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 0);
}

TEST_F(ConvolutionAlgorithms, AreNotTimedWhereTheNextRunWouldChooseOthers) {
  EXPECT_EQ(timed_by_a_run({}), 0);
}

TEST_F(ConvolutionAlgorithms, AreGuessedAndNotKeptWhereThereIsNoRoomToTimeThem) {
  const std::size_t before = simt::device_memory().total;
  simt::set_device_memory(std::size_t{40} << 20);
  {
    const std::unique_ptr<Ops> ops =
        make_cuda_ops({.activations = DType::kBFloat16, .cache = folder_.path() / "pfc"});
    const int timed = simt::timed_convolutions();
    EXPECT_NE(ops->conv2d({.batch = 8, .in_h = 112, .in_w = 112, .in_c = 64, .out_c = 64}),
              nullptr);
    EXPECT_EQ(simt::timed_convolutions(), timed);
  }
  simt::set_device_memory(before);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "pfc"));
}

TEST_F(ConvolutionAlgorithms, ThatAreFastButNotDeterministicAreNotTaken) {
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 3);
  std::ifstream file(the_file());
  const std::string text(std::istreambuf_iterator<char>(file), {});
  // The emulated cuDNN's third is its first deterministic one that fits.
  EXPECT_THAT(text, testing::HasSubstr("forward\t2 1\n"));
  EXPECT_THAT(text, testing::HasSubstr("backward data\t2 1\n"));
  EXPECT_THAT(text, testing::HasSubstr("backward weights\t2 1\n"));
}

TEST_F(ConvolutionAlgorithms, OfFloat32AreAskedNotToRoundToTf32) {
  for (const bool tf32 : {false, true}) {
    const std::unique_ptr<Ops> ops =
        make_cuda_ops({.tf32 = tf32, .cache = folder_.path() / (tf32 ? "tf32" : "pfc")});
    EXPECT_NE(ops->conv2d({.in_h = 5, .in_w = 5, .in_c = 8, .out_c = 8}), nullptr);
  }
  std::ifstream file(the_file());
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string fma = std::to_string(CUDNN_FMA_MATH);
  EXPECT_THAT(text, testing::HasSubstr("fp32, forward\t2 " + fma + "\n"));
  EXPECT_THAT(text, testing::HasSubstr("fp32, backward weights\t2 " + fma + "\n"));
}

TEST_F(ConvolutionAlgorithms, ThatThisGpuDoesNotHaveAreReplaced) {
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 3);
  std::ifstream file(the_file());
  std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t choice = text.find("forward\t2") + std::string("forward\t").size();
  text[choice] = '7';  // cuDNN has it, but not for this shape
  std::ofstream(the_file()) << text;
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 1);
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 0);
}

}  // namespace
}  // namespace pfc
