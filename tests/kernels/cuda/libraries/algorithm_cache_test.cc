// Tests the file that stores convolution algorithms, and how convolutions on the emulated GPU
// select theirs.

#include "kernels/cuda/libraries/algorithm_cache.h"

#include <cudnn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/scratch.h"
#include "kernels/owned_tensor.h"
#include "tests/support/device_values.h"
#include "tests/support/relative_error.h"
#include "tests/support/simt/convolution.h"
#include "tests/support/simt/memory.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_devices.h"

namespace pfc {
namespace {

class ConvolutionAlgorithms : public ::testing::Test {
 protected:
  [[nodiscard]] AlgorithmCache opened() const {
    return {folder_.path() / "pfc", "NVIDIA H100 80GB", "9.19.0", "580.65.06"};
  }
  [[nodiscard]] std::filesystem::path the_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "pfc")) {
      if (entry.path().extension() == ".txt") return entry.path();
    }
    return {};
  }
  // Runs all passes of a convolution as a new process would. Returns how many passes were timed.
  static int timed_by_a_run(const std::filesystem::path& cache, DType type = DType::kBFloat16) {
    return timed_by_a_run([&] { return make_cuda_ops({.activations = type, .cache = cache}); },
                          type);
  }
  static int timed_by_a_run(const std::function<std::unique_ptr<Ops>()>& make, DType type) {
    const int before = simt::timed_convolutions();
    const std::unique_ptr<Ops> ops = make();
    const Conv2dShape shape = shape_;
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

  static constexpr Conv2dShape shape_{
      .in_h = 5, .in_w = 5, .in_c = 8, .out_c = 8, .kernel = 3, .pad = 1};
  TemporaryFolder folder_;
};

/// A cuDNN that lacks some of its algorithms.
class CudnnWithoutSomeAlgorithms : public ::testing::TestWithParam<DType> {
 protected:
  struct Passes {
    std::vector<float> y, dx, dw;
  };
  ~CudnnWithoutSomeAlgorithms() override { simt::set_algorithms({}); }

  // Runs all passes. Runs the last one twice, so that dw is the sum of both.
  static Passes run(DType type) {
    const Conv2dShape shape{
        .batch = 2, .in_h = 5, .in_w = 6, .in_c = 3, .out_c = 13, .kernel = 3, .pad = 1};
    const std::unique_ptr<Ops> ops = make_cuda_ops({.activations = type});
    std::mt19937 generator(1);
    const auto random = [&](const Shape& s) {
      std::normal_distribution<float> normal;
      std::vector<float> values(static_cast<std::size_t>(s.elements()));
      for (float& value : values) value = normal(generator);
      return to_device(*ops, s, values, type);
    };
    const OwnedTensor x = random(shape.x_shape()), w = random(shape.w_shape());
    const OwnedTensor dy = random(shape.y_shape()), y(*ops, shape.y_shape(), type);
    const OwnedTensor dx(*ops, shape.x_shape(), type), dw(*ops, shape.w_shape());
    const std::unique_ptr<Conv2d> plan = ops->conv2d(shape);
    plan->forward(x, w, y);
    plan->backward_data(dy, w, dx);
    plan->backward_weights(x, dy, dw, false);
    plan->backward_weights(x, dy, dw, true);
    Passes passes{.y = to_host(*ops, y), .dx = to_host(*ops, dx), .dw = to_host(*ops, dw)};
    scratch_ = ops->scratch_bytes();
    return passes;
  }
  static void expect_close(const Passes& found, const Passes& expected, double tolerance) {
    EXPECT_LT(relative_error(found.y, expected.y), tolerance);
    EXPECT_LT(relative_error(found.dx, expected.dx), tolerance);
    EXPECT_LT(relative_error(found.dw, expected.dw), tolerance);
  }

  static inline std::size_t scratch_ = 0;
};

TEST_F(ConvolutionAlgorithms, AreFoundAgainInTheNextRun) {
  EXPECT_EQ(opened().keep("a 3x3", {.algorithm = 1, .math = 3}), (AlgorithmChoice{1, 3}));
  EXPECT_EQ(opened().keep("a 1x1", {.algorithm = 2, .math = 0}), (AlgorithmChoice{2, 0}));
  EXPECT_EQ(opened().find("a 3x3"), (AlgorithmChoice{1, 3}));
  EXPECT_EQ(opened().find("a 1x1"), (AlgorithmChoice{2, 0}));
  EXPECT_EQ(opened().find("a 7x7"), std::nullopt);
}

TEST_F(ConvolutionAlgorithms, AreTimedOnceForAllTestsOfOneProcess) {
  const std::vector<DType> types = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  const std::vector<TestDevice> gpus = emulated_gpus();
  ASSERT_EQ(gpus.size(), types.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const auto make = [&] { return gpus[i].make(1); };
    EXPECT_GT(timed_by_a_run(make, types[i]), 0) << gpus[i].name;
    EXPECT_EQ(timed_by_a_run(make, types[i]), 0) << gpus[i].name;
  }
}

TEST_F(ConvolutionAlgorithms, AreTheFirstWorkersChoiceOnAllWorkers) {
  AlgorithmCache first = opened(), second = opened();
  first.keep("a 3x3", {.algorithm = 1, .math = 1});
  EXPECT_EQ(second.keep("a 3x3", {.algorithm = 5, .math = 1}), (AlgorithmChoice{1, 1}));
  EXPECT_EQ(second.find("a 3x3"), (AlgorithmChoice{1, 1}));
}

TEST_F(ConvolutionAlgorithms, AreStoredSeparatelyForEachGpuCudnnAndDriver) {
  opened().keep("a 3x3", {.algorithm = 1, .math = 1});
  struct Other {
    const char *gpu, *cudnn, *driver;
  };
  for (const Other& o :
       {Other{"NVIDIA L4", "9.19.0", "580.65.06"}, Other{"NVIDIA H100 80GB", "9.20.0", "580.65.06"},
        Other{"NVIDIA H100 80GB", "9.19.0", "590.10"}}) {
    EXPECT_EQ(AlgorithmCache(folder_.path() / "pfc", o.gpu, o.cudnn, o.driver).find("a 3x3"),
              std::nullopt);
  }
}

TEST_F(ConvolutionAlgorithms, AreChosenAgainAfterTheFileWasDamaged) {
  for (const char* const damage : {"", "something else\n", "pfc convolution algorithms 2\na 3x3\t1",
                                   "pfc convolution algorithms 2\na 3x3\t1 2 3\n",
                                   "pfc convolution algorithms 2\na 3x3\t99999 0\n",
                                   "pfc convolution algorithms 2\n\t1 2\n"}) {
    opened().keep("a 3x3", {.algorithm = 1, .math = 1});
    std::ofstream(the_file()) << damage;
    EXPECT_EQ(opened().find("a 3x3"), std::nullopt) << damage;
    opened().keep("a 3x3", {.algorithm = 2, .math = 2});
    EXPECT_EQ(opened().find("a 3x3"), (AlgorithmChoice{2, 2})) << damage;
    std::filesystem::remove(the_file());
  }
}

TEST_F(ConvolutionAlgorithms, AreUsedEvenIfTheyCannotBeStored) {
  std::ofstream(folder_.path() / "a file") << "not a folder";
  AlgorithmCache cache(folder_.path() / "a file" / "pfc", "GPU", "9", "580");
  EXPECT_EQ(cache.keep("a 3x3", {.algorithm = 1, .math = 3}), (AlgorithmChoice{1, 3}));
  EXPECT_EQ(cache.find("a 3x3"), (AlgorithmChoice{1, 3}));
}

TEST_F(ConvolutionAlgorithms, AreTimedOnceForEachKindOfGpu) {
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 3);
  EXPECT_EQ(timed_by_a_run(folder_.path() / "pfc"), 0);
}

// Otherwise a step would time algorithms while collectives use the GPU.
TEST_F(ConvolutionAlgorithms, AreChosenForBackwardPassesByPlanBackward) {
  const std::unique_ptr<Ops> ops = make_cuda_ops({.cache = folder_.path() / "pfc"});
  const int before = simt::timed_convolutions();
  const std::unique_ptr<Conv2d> plan = ops->conv2d({.in_h = 5, .in_w = 5, .in_c = 8, .out_c = 8});
  plan->plan_backward(true);
  ops->synchronize();
  EXPECT_EQ(simt::timed_convolutions() - before, 3);
}

TEST_F(ConvolutionAlgorithms, AreNotTimedWithoutACacheFolder) { EXPECT_EQ(timed_by_a_run({}), 0); }

TEST_F(ConvolutionAlgorithms, AreNeitherTimedNorStoredIfMemoryIsShort) {
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
  // In the emulated cuDNN, number 0 is the fastest algorithm, and number 5 the fastest
  // deterministic one.
  for (const std::string pass : {"forward", "backward data"}) {
    EXPECT_THAT(text, ::testing::HasSubstr("bf16, " + pass + "\t5 1\n"));
  }
  // Algorithm 5 transforms the numbers first, so the gradient of weights would lose digits.
  EXPECT_THAT(text, ::testing::HasSubstr("bf16, backward weights\t1 1\n"));
}

// Algorithm 5 transforms the numbers first, so float32 numbers would lose digits.
TEST_F(ConvolutionAlgorithms, NeitherTransformNorRoundFloat32ToTf32) {
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

constexpr int kNotDeterministic = 0, kOfLargeWorkspace = 3;

class LargeWorkspace : public CudnnWithoutSomeAlgorithms {};

TEST_P(LargeWorkspace, IsUsedIfNoOtherAlgorithmIsDeterministic) {
  simt::set_algorithms([](int number, const Conv2dShape&) {
    return number == kNotDeterministic || number == kOfLargeWorkspace;
  });
  const Passes first = run(GetParam());
  EXPECT_GT(scratch_, kMostConvolutionWorkspace);
  const Passes second = run(GetParam());
  EXPECT_EQ(first.y, second.y);
  EXPECT_EQ(first.dx, second.dx);
  EXPECT_EQ(first.dw, second.dw);
}

TEST_P(CudnnWithoutSomeAlgorithms, PadsChannels) {
  const Passes expected = run(GetParam());
  simt::set_algorithms([](int number, const Conv2dShape& s) {
    return number == kNotDeterministic || (s.in_c % 8 == 0 && s.out_c % 8 == 0);
  });
  const Passes found = run(GetParam()), again = run(GetParam());
  expect_close(found, expected, GetParam() == DType::kFloat32 ? 1e-6 : 1e-2);
  EXPECT_EQ(again.y, found.y);
  EXPECT_EQ(again.dx, found.dx);
  EXPECT_EQ(again.dw, found.dw);
}

TEST_P(CudnnWithoutSomeAlgorithms, FallsBackToANondeterministicAlgorithm) {
  const Passes expected = run(GetParam());
  simt::set_algorithms([](int number, const Conv2dShape&) { return number == kNotDeterministic; });
  expect_close(run(GetParam()), expected, 0.3);
}

TEST_P(CudnnWithoutSomeAlgorithms, ThrowsIfThereIsNoAlgorithm) {
  simt::set_algorithms([](int, const Conv2dShape&) { return false; });
  EXPECT_THROW(run(GetParam()), DeviceError);
}

INSTANTIATE_TEST_SUITE_P(Types, LargeWorkspace,
                         ::testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(name_of(type.param)); });
INSTANTIATE_TEST_SUITE_P(Types, CudnnWithoutSomeAlgorithms,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace pfc
