#include "kernels/owned_tensor.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

class OwnedTensors : public OnEachDevice {};

TEST_P(OwnedTensors, AreZeroedWhenMade) {
  const OwnedTensor tensor(*ops_, {3, 5});
  std::vector<float> host(15, 1.f);
  ops_->copy_to_host(host.data(), tensor);
  EXPECT_EQ(host, std::vector<float>(15));
}

TEST_P(OwnedTensors, AllocateTheBytesOfTheirType) {
  EXPECT_EQ(OwnedTensor(*ops_, {3, 5}, DType::kBFloat16)->bytes(), 30U);
}

TEST_P(OwnedTensors, TransferTheirMemoryWhenMoved) {
  OwnedTensor first(*ops_, {4});
  void* const memory = first->data;
  const OwnedTensor second = std::move(first);
  EXPECT_EQ(second->data, memory);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first->data, nullptr);
}

TEST_P(OwnedTensors, HoldNoMemoryByDefault) { EXPECT_FALSE(OwnedTensor()); }

INSTANTIATE_TEST_SUITE_P(Devices, OwnedTensors, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
