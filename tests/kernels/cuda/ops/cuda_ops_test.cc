// Tests that need the emulated GPU: number of kernels, and errors of debug builds.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "kernels/owned_tensor.h"

namespace pfc {
namespace {

TEST(UpdateOnGpu, RoundsNewWeightsInTheSameKernel) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto ops = make_cuda_ops({.activations = type});
    const OwnedTensor g(*ops, {33}), w(*ops, {33}), m(*ops, {33}), v(*ops, {33});
    const OwnedTensor operand(*ops, {33}, type);
    const int before = simt::launched_kernels();
    ops->sgd({}, 1.f, g, w, v, operand);
    ops->adamw({}, 1.f, g, w, m, v, operand);
    EXPECT_EQ(simt::launched_kernels() - before, 2);
  }
}

// The emulated GPU is a debug build.
TEST(ReservedMemoryOfDebugBuilds, IsNotExceeded) {
  const auto ops = make_cuda_ops({});
  ops->reserve(1 << 20);
  EXPECT_THROW(ops->allocate(2 << 20), std::logic_error);
}

}  // namespace
}  // namespace pfc
