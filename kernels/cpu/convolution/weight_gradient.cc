#include <algorithm>
#include <array>

#include "kernels/cpu/convolution/algorithms.h"

namespace pfc {
namespace {

constexpr std::int64_t kMaxRows = 64;

// Maximum number of parts of a stem's output rows, and minimum rows per part.
constexpr std::int64_t kMostParts = 128;
constexpr std::int64_t kPartRows = 8;

// The rows of x and dy to multiply for one tap (kh, kw) of the kernel, for a block of output rows.
struct TapRows {
  std::array<const float*, kMaxRows> x, dy;
  std::int64_t rows = 0;
  std::int64_t length = 0;  // output pixels in a row whose input pixel is inside the image
};

TapRows rows_at_tap(const Conv2dShape& s, const Range& output_rows, int kh, int kw, const float* x,
                    const float* dy) {
  TapRows t;
  const std::int64_t before = std::max(0, s.pad - kw);
  const std::int64_t first_ow = (before + s.stride - 1) / s.stride;
  const std::int64_t last_ow = std::min(s.out_w() - 1, (s.in_w - 1 + s.pad - kw) / s.stride);
  t.length = std::max<std::int64_t>(0, last_ow - first_ow + 1);
  const std::int64_t iw = first_ow * s.stride + kw - s.pad;
  for (std::int64_t row = output_rows.begin; row < output_rows.end; ++row) {
    const std::int64_t n = row / s.out_h();
    const std::int64_t ih = row % s.out_h() * s.stride + kh - s.pad;
    if (ih < 0 || ih >= s.in_h) continue;
    const auto at = static_cast<std::size_t>(t.rows++);
    t.x[at] = x + ((n * s.in_h + ih) * s.in_w + iw) * s.in_c;
    t.dy[at] = dy + (row * s.out_w() + first_ow) * s.out_c;
  }
  return t;
}

// Calls f(kh, kw, rows) for every tap of every block of the output rows in `all`.
template <typename F>
void for_each_tap(const Conv2dShape& s, const Range& all, const float* x, const float* dy,
                  const F& f) {
  const std::int64_t block = std::clamp(kBlockPixels / s.out_w(), std::int64_t{1}, kMaxRows);
  for (std::int64_t begin = all.begin; begin < all.end; begin += block) {
    const Range rows{begin, std::min(begin + block, all.end)};
    for (int kh = 0; kh < s.kernel; ++kh) {
      for (int kw = 0; kw < s.kernel; ++kw) {
        const TapRows t = rows_at_tap(s, rows, kh, kw, x, dy);
        if (t.rows > 0 && t.length > 0) f(kh, kw, t);
      }
    }
  }
}

}  // namespace

void DenseWeightGradient::execute(const float* x, const float* dy, float* dw,
                                  bool accumulate) const {
  const Conv2dShape& s = shape_;
  const std::int64_t row_size = s.in_c * s.kernel * s.kernel;  // size of one output channel in dw
  device_.threads.each_part([&](int part) {
    const Range outputs = part_of(s.out_c, part, device_.threads.count());
    if (outputs.size() == 0) return;
    float* const own = dw + outputs.begin * row_size;
    if (!accumulate) std::fill(own, own + outputs.size() * row_size, 0.f);
    for_each_tap(s, {0, s.batch * s.out_h()}, x, dy + outputs.begin,
                 [&](int kh, int kw, const TapRows& t) {
                   device_.vector.outer_product({.vector_rows = t.x.data(),
                                                 .broadcast_rows = t.dy.data(),
                                                 .rows = t.rows,
                                                 .length = t.length,
                                                 .vector_step = s.stride * s.in_c,
                                                 .broadcast_step = s.out_c,
                                                 .vectors = s.in_c,
                                                 .broadcasts = outputs.size(),
                                                 .c = own + (kh * s.kernel + kw) * s.in_c,
                                                 .c_stride = row_size});
                 });
  });
}

StemWeightGradient::StemWeightGradient(CpuDevice& device, const Conv2dShape& shape)
    : device_(device),
      shape_(shape),
      parts_(static_cast<int>(
          std::clamp<std::int64_t>(shape.batch * shape.out_h() / kPartRows, 1, kMostParts))) {
  device.scratch.reserve(
      align_up(static_cast<std::size_t>(shape.w_shape().elements()) * sizeof(float)) *
      static_cast<std::size_t>(parts_));
}

float* StemWeightGradient::sums_of(int part) const {
  const std::size_t bytes =
      align_up(static_cast<std::size_t>(shape_.w_shape().elements()) * sizeof(float));
  return reinterpret_cast<float*>(device_.scratch.data() + bytes * static_cast<std::size_t>(part));
}

void StemWeightGradient::execute(const float* x, const float* dy, float* dw,
                                 bool accumulate) const {
  const Conv2dShape& s = shape_;
  const std::int64_t size = s.w_shape().elements();
  device_.threads.each_range(parts_, 1, s.x_shape().elements(), [&](const Range& parts) {
    for (std::int64_t part = parts.begin; part < parts.end; ++part) {
      sum_part(static_cast<int>(part), x, dy);
    }
  });
  device_.threads.each_range(s.out_c, 1, size * parts_,
                             [&](const Range& outputs) { merge_parts(outputs, dw, accumulate); });
}

// Reads 64 adjacent sums of a part at a time: reading one at a time would miss the cache each time.
void StemWeightGradient::merge_parts(const Range& outputs, float* dw, bool accumulate) const {
  constexpr std::int64_t kAtOnce = 64;
  const std::int64_t per_output = shape_.w_shape().elements() / shape_.out_c;
  for (std::int64_t begin = outputs.begin; begin < outputs.end; begin += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, outputs.end - begin);
    for (std::int64_t i = 0; i < per_output; ++i) {
      float* const to = dw + begin * per_output + i;
      double sums[kAtOnce] = {};
      for (std::int64_t o = 0; accumulate && o < count; ++o) sums[o] = to[o * per_output];
      for (int part = 0; part < parts_; ++part) {
        const float* const from = sums_of(part) + i * shape_.out_c + begin;
        for (std::int64_t o = 0; o < count; ++o) sums[o] += static_cast<double>(from[o]);
      }
      for (std::int64_t o = 0; o < count; ++o) to[o * per_output] = static_cast<float>(sums[o]);
    }
  }
}

void StemWeightGradient::sum_part(int part, const float* x, const float* dy) const {
  const Conv2dShape& s = shape_;
  float* const sums = sums_of(part);
  std::fill(sums, sums + s.w_shape().elements(), 0.f);
  const Range rows = part_of(s.batch * s.out_h(), part, parts_);
  for_each_tap(s, rows, x, dy, [&](int kh, int kw, const TapRows& t) {
    device_.vector.outer_product({.vector_rows = t.dy.data(),
                                  .broadcast_rows = t.x.data(),
                                  .rows = t.rows,
                                  .length = t.length,
                                  .vector_step = s.out_c,
                                  .broadcast_step = s.stride * s.in_c,
                                  .vectors = s.out_c,
                                  .broadcasts = s.in_c,
                                  .c = sums + (kh * s.kernel + kw) * s.in_c * s.out_c,
                                  .c_stride = s.out_c});
  });
}

}  // namespace pfc
