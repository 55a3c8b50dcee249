#include <algorithm>
#include <array>

#include "kernels/cpu/convolution/algorithms.h"

namespace pfc {
namespace {

constexpr std::int64_t kMostRows = 64;
constexpr std::int64_t kLargestKernel = 8;

std::int64_t divided_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

}  // namespace

// A block of output rows over all images, for a thread's output channels.
struct PairedWeightGradient::Block {
  Range rows, outputs;
  BFloat16Pair* x;   // [x_panels, slots, row_pairs, kPairVectors]
  BFloat16Pair* dy;  // [dy_panels, block_rows, pairs, kPairBroadcasts]
  // For each slot: the row of x, counted over all images.
  std::array<std::int64_t, kMostRows * kLargestKernel> x_rows;
  std::int64_t slots = 0;
  // For each output row: the slot of its window's first row, which may be outside the image.
  std::array<std::int64_t, kMostRows> first_slot;
};

PairedWeightGradient::PairedWeightGradient(CpuDevice& device, const Conv2dShape& s)
    : device_(device),
      shape_(s),
      pairs_(divided_up(s.out_w(), 2)),
      row_pairs_(2L * s.stride * (pairs_ - 1) + s.kernel),
      block_rows_(std::clamp(kBlockPixels / s.out_w(), std::int64_t{1}, kMostRows)),
      x_panels_(divided_up(s.in_c, kPairVectors)),
      dy_panels_(divided_up(divided_up(s.out_c, device.threads.count()), kPairBroadcasts)),
      dy_panel_size_(block_rows_ * pairs_ * kPairBroadcasts) {
  for (std::int64_t row = 0; row < s.batch * s.out_h(); row += block_rows_) {
    slots_ = std::max(slots_, block_at(row, 0).slots);
  }
  x_panel_size_ = slots_ * row_pairs_ * kPairVectors;
  device.scratch.reserve(static_cast<std::size_t>(pairs_of_part() * device.threads.count()) *
                         sizeof(BFloat16Pair));
}

bool PairedWeightGradient::supports(const Conv2dShape& s) {
  return s.groups == 1 && s.kernel > 1 && s.kernel >= s.stride && s.kernel <= kLargestKernel;
}

// Rounded up, so that each thread's panels of x are aligned for vectors.
std::int64_t PairedWeightGradient::pairs_of_part() const {
  const std::int64_t pairs = x_panels_ * x_panel_size_ + dy_panels_ * dy_panel_size_;
  return divided_up(pairs, kPairVectors) * kPairVectors;
}

Range PairedWeightGradient::outputs_of(int part) const {
  return part_of(shape_.out_c, part, device_.threads.count());
}

PairedWeightGradient::Block PairedWeightGradient::block_at(std::int64_t begin, int part) const {
  const Conv2dShape& s = shape_;
  Block b{};
  b.rows = {begin, std::min(begin + block_rows_, s.batch * s.out_h())};
  b.outputs = outputs_of(part);
  b.x = reinterpret_cast<BFloat16Pair*>(device_.scratch.data()) + part * pairs_of_part();
  b.dy = b.x + x_panels_ * x_panel_size_;
  std::int64_t next = begin / s.out_h() * s.in_h;  // next row of x to pack
  for (std::int64_t row = begin; row < b.rows.end; ++row) {
    const std::int64_t image = row / s.out_h() * s.in_h;
    const std::int64_t first = row % s.out_h() * s.stride - s.pad;
    if (row % s.out_h() == 0) next = image;
    next = std::max(next, image + first);
    // If a window starts above the image, its first row has no slot. Its slot number is
    // extrapolated.
    b.first_slot[static_cast<std::size_t>(row - begin)] = b.slots - (next - (image + first));
    const std::int64_t end = image + std::min<std::int64_t>(first + s.kernel, s.in_h);
    for (; next < end; ++next) b.x_rows[static_cast<std::size_t>(b.slots++)] = next;
  }
  return b;
}

void PairedWeightGradient::pack(const Block& b, const BFloat16* x, const BFloat16* dy) const {
  const Conv2dShape& s = shape_;
  for (std::int64_t slot = 0; slot < b.slots; ++slot) {
    device_.vector.pack_pairs(
        {.row = x + b.x_rows[static_cast<std::size_t>(slot)] * s.in_w * s.in_c,
         .pixels = s.in_w,
         .pixel_stride = s.in_c,
         .channels = s.in_c,
         .first = -s.pad,
         .step = 1,
         .gap = s.stride,
         .count = row_pairs_,
         .panel = kPairVectors,
         .panel_stride = x_panel_size_,
         .pairs = b.x + slot * row_pairs_ * kPairVectors});
  }
  for (std::int64_t row = b.rows.begin; row < b.rows.end; ++row) {
    device_.vector.pack_pairs({.row = dy + row * s.out_w() * s.out_c + b.outputs.begin,
                               .pixels = s.out_w(),
                               .pixel_stride = s.out_c,
                               .channels = b.outputs.size(),
                               .first = 0,
                               .step = 2,
                               .gap = 1,
                               .count = pairs_,
                               .panel = kPairBroadcasts,
                               .panel_stride = dy_panel_size_,
                               .pairs = b.dy + (row - b.rows.begin) * pairs_ * kPairBroadcasts});
  }
}

void PairedWeightGradient::multiply_panels(const Block& b, int kh, int kw, std::int64_t x_panel,
                                           float* dw) const {
  const Conv2dShape& s = shape_;
  std::array<const BFloat16Pair*, kMostRows> x_rows;
  std::array<const BFloat16Pair*, kMostRows> dy_rows;
  std::int64_t rows = 0;
  for (std::int64_t row = b.rows.begin; row < b.rows.end; ++row) {
    const std::int64_t ih = row % s.out_h() * s.stride + kh - s.pad;
    if (ih < 0 || ih >= s.in_h) continue;
    const std::int64_t r = row - b.rows.begin;
    const std::int64_t slot = b.first_slot[static_cast<std::size_t>(r)] + kh;
    const auto at = static_cast<std::size_t>(rows++);
    x_rows[at] = b.x + x_panel * x_panel_size_ + (slot * row_pairs_ + kw) * kPairVectors;
    dy_rows[at] = b.dy + r * pairs_ * kPairBroadcasts;
  }
  if (rows == 0) return;
  const std::int64_t row_size = s.in_c * s.kernel * s.kernel;  // size of one output channel in dw
  const std::int64_t first = x_panel * kPairVectors;
  for (std::int64_t o = b.outputs.begin; o < b.outputs.end; o += kPairBroadcasts) {
    device_.vector.pair_product({.vector_rows = x_rows.data(),
                                 .broadcast_rows = dy_rows.data(),
                                 .rows = rows,
                                 .length = pairs_,
                                 .vector_step = 2L * s.stride * kPairVectors,
                                 .broadcast_step = kPairBroadcasts,
                                 .vectors = std::min(kPairVectors, s.in_c - first),
                                 .broadcasts = std::min(kPairBroadcasts, b.outputs.end - o),
                                 .c = dw + o * row_size + (kh * s.kernel + kw) * s.in_c + first,
                                 .c_stride = row_size});
    for (std::int64_t r = 0; r < rows; ++r) dy_rows[static_cast<std::size_t>(r)] += dy_panel_size_;
  }
}

void PairedWeightGradient::multiply(const Block& b, float* dw) const {
  for (std::int64_t panel = 0; panel < x_panels_; ++panel) {
    for (int kh = 0; kh < shape_.kernel; ++kh) {
      for (int kw = 0; kw < shape_.kernel; ++kw) multiply_panels(b, kh, kw, panel, dw);
    }
  }
}

void PairedWeightGradient::execute(const BFloat16* x, const BFloat16* dy, float* dw,
                                   bool accumulate) const {
  const std::int64_t row_size = shape_.in_c * shape_.kernel * shape_.kernel;
  const std::int64_t rows = shape_.batch * shape_.out_h();
  device_.threads.each_part([&](int part) {
    const Range outputs = outputs_of(part);
    if (outputs.size() == 0) return;
    if (!accumulate) std::fill(dw + outputs.begin * row_size, dw + outputs.end * row_size, 0.f);
    for (std::int64_t row = 0; row < rows; row += block_rows_) {
      const Block block = block_at(row, part);
      pack(block, x, dy);
      multiply(block, dw);
    }
  });
}

}  // namespace pfc
