// Tensors of more than 2^31 elements: a 32-bit offset anywhere would wrap. On the emulated GPU, in
// memory of which only what is written takes room, and of large launches only the outer blocks.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "kernels/cuda/cuda_device.h"
#include "kernels/math/bfloat16.h"
#include "kernels/ops.h"
#include "tests/support/simt/block.h"
#include "tests/support/simt/memory.h"

namespace pfc {
namespace {

// bfloat16 numbers of a device that the host may touch between the ops: zero until written.
class SparseTensor {
 public:
  explicit SparseTensor(Shape shape)
      : memory_(static_cast<std::size_t>(shape.elements()) * 2),
        view_(memory_.data(), DType::kBFloat16, shape) {}
  operator const Tensor&() const { return view_; }  // NOLINT(google-explicit-constructor)
  void set(std::int64_t i, float value) { bits(i) = nearest_bfloat16(value); }
  [[nodiscard]] float get(std::int64_t i) const { return float_of(bits(i)); }

 private:
  [[nodiscard]] std::uint16_t& bits(std::int64_t i) const {
    return static_cast<std::uint16_t*>(memory_.data())[i];
  }
  simt::SparseMemory memory_;
  Tensor view_;
};

class LargeTensors : public testing::Test {
 protected:
  // Enough blocks that each goes round a grid's loop once.
  simt::Multiprocessors many_{1 << 18};
  simt::OnlyOuterBlocks outer_{2};
  std::unique_ptr<Ops> ops_ = make_cuda_ops({.activations = DType::kBFloat16});
};

TEST_F(LargeTensors, AreAddedToTheirLastElement) {
  constexpr std::int64_t kElements = (std::int64_t{1} << 32) + 13;  // the last 5 make no pack
  SparseTensor a({kElements}), b({kElements});
  const SparseTensor y({kElements});
  for (std::int64_t i = kElements - 20; i < kElements; ++i) {
    a.set(i, static_cast<float>(i - kElements));
    b.set(i, 100.f);
  }
  ops_->add(a, b, y);
  ops_->synchronize();
  for (std::int64_t i = kElements - 20; i < kElements; ++i) {
    EXPECT_EQ(y.get(i), 100.f + static_cast<float>(i - kElements));
  }
  EXPECT_EQ(y.get(3), 0.f);
}

}  // namespace
}  // namespace pfc
