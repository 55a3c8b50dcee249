// Tests the file that keeps convolution algorithms, and how convolutions on the emulated GPU choose
// theirs.

#include "kernels/cuda/libraries/algorithm_cache.h"

#include <cudnn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/owned_tensor.h"
#include "tests/support/simt/memory.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

class ConvolutionAlgorithms : public ::testing::Test {
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
  // Runs all passes of a convolution, as a new process would. Returns how many passes were timed.
  static int timed_by_a_run(const std::filesystem::path& cache, DType type = DType::kBFloat16) {
    const int before = simt::timed_convolutions();
    const std::unique_ptr<Ops> ops = make_cuda_ops({.activations = type, .cache = cache});
    const Conv2dShape shape{.in_h = 5, .in_w = 5, .in_c = 8, .out_c = 8};
    const std::unique_ptr<Conv2d> plan = ops->conv2d(shape);
    const OwnedTensor x(*ops, shape.x_shape(), type), w(*ops, shape.w_shape(), type);
    const OwnedTensor y(*ops, shape.y_shape(), type), dw(*ops, shape.w_shape());
    plan->forward(x, w, y);
    plan->backward_data(y, w, x);
    plan->backward_weights(x, y, dw, false);
    ops->synchronize();
    return simt::timed_convolutions() - before;
  }
  [[nodiscard]] std::string text_of_the_file() const {
    std::ifstream file(the_file());
    return {std::istreambuf_iterator<char>(file), {}};
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

TEST_F(ConvolutionAlgorithms, OfTheFirstWorkerAreUsedByAll) {
  AlgorithmCache first = opened(), second = opened();
  first.keep("a 3x3", {.algorithm = 1, .math = 1});
  EXPECT_EQ(second.keep("a 3x3", {.algorithm = 5, .math = 1}), (AlgorithmChoice{1, 1}));
  EXPECT_EQ(second.find("a 3x3"), (AlgorithmChoice{1, 1}));
}

TEST_F(ConvolutionAlgorithms, AreKeptSeparatelyForEachGpuAndVersion) {
  opened().keep("a 3x3", {.algorithm = 1, .math = 1});
  EXPECT_EQ(AlgorithmCache(folder_.path() / "pfc", "NVIDIA L4", "9.19.0").find("a 3x3"),
            std::nullopt);
  EXPECT_EQ(AlgorithmCache(folder_.path() / "pfc", "NVIDIA H100 80GB", "9.20.0").find("a 3x3"),
            std::nullopt);
}

TEST_F(ConvolutionAlgorithms, AreChosenAgainAfterTheFileWasDamaged) {
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

TEST_F(ConvolutionAlgorithms, AreUsedEvenIfTheyCannotBeKept) {
  std::ofstream(folder_.path() / "a file") << "not a folder";
  AlgorithmCache cache(folder_.path() / "a file" / "pfc", "GPU", "9");
  EXPECT_EQ(cache.keep("a 3x3", {.algorithm = 1, .math = 3}), (AlgorithmChoice{1, 3}));
  EXPECT_EQ(cache.find("a 3x3"), (AlgorithmChoice{1, 3}));
}

TEST_F(ConvolutionAlgorithms, AreTimedOnceForEachKindOfGpu) {
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 3);
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 0);
}

TEST_F(ConvolutionAlgorithms, AreNotTimedWithoutACacheFolder) { EXPECT_EQ(timed_by_a_run({}), 0); }

TEST_F(ConvolutionAlgorithms, AreGuessedAndNotKeptWithTooLittleMemoryToTimeThem) {
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

TEST_F(ConvolutionAlgorithms, AreDeterministicEvenIfOthersAreFaster) {
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 3);
  const std::string text = text_of_the_file();
  // The emulated cuDNN's fastest algorithm is number 0; its fastest deterministic one is number 5.
  for (const std::string pass : {"forward", "backward data", "backward weights"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(pass + "\t5 1\n"));
  }
}

// Number 5 transforms the numbers first, which loses digits.
TEST_F(ConvolutionAlgorithms, OfFloat32NeitherTransformNorRoundToTf32) {
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc", DType::kFloat32), 3);
  const std::string text = text_of_the_file();
  const std::string fma = std::to_string(CUDNN_FMA_MATH);
  for (const std::string pass : {"forward", "backward data", "backward weights"}) {
    EXPECT_THAT(text, ::testing::HasSubstr("fp32, " + pass + "\t1 " + fma + "\n"));
  }
}

TEST_F(ConvolutionAlgorithms, AreNotChosenForPassesThatAreNotUsed) {
  const std::unique_ptr<Ops> ops = make_cuda_ops({.cache = folder_.path() / "pfc"});
  const int before = simt::timed_convolutions();
  EXPECT_NE(ops->conv2d({.in_h = 5, .in_w = 5, .in_c = 3, .out_c = 8}), nullptr);
  EXPECT_EQ(simt::timed_convolutions() - before, 1);
}

TEST_F(ConvolutionAlgorithms, AreReplacedIfThisGpuDoesNotHaveThem) {
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 3);
  std::string text = text_of_the_file();
  const std::size_t choice = text.find("forward\t5") + std::string("forward\t").size();
  text[choice] = '7';  // an algorithm that cuDNN has, but not for this shape
  std::ofstream(the_file()) << text;
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 1);
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 0);
}

}  // namespace
}  // namespace pfc
