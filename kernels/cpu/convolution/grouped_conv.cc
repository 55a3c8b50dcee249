#include <algorithm>
#include <utility>

#include "kernels/cpu/convolution/algorithms.h"

namespace pfc {
namespace {

// Returns the index of weight (o, tap, j) of the OHWI layout in the vector kernels' layout [taps,
// kinds, channels]. There, channels are input channels, or output channels if `exchanged`. Kind 0
// connects a channel with the output of the same number, kind 1 with the other output of its pair.
std::int64_t position(std::int64_t o, std::int64_t tap, std::int64_t j, std::int64_t per_group,
                      std::int64_t channels, bool exchanged) {
  const std::int64_t kind = o % per_group == j ? 0 : 1;
  const std::int64_t input = o - o % per_group + j;
  return (tap * per_group + kind) * channels + (exchanged ? o : input);
}

float float_of_weight(float w) { return w; }
float float_of_weight(BFloat16 w) { return float_of(w); }

// Calls f(index in OHWI, o, tap, j) for every weight.
template <typename F>
void for_each_weight(const Conv2dShape& s, const F& f) {
  const std::int64_t taps = std::int64_t{s.kernel} * s.kernel;
  const std::int64_t per_group = s.in_c / s.groups;
  for (std::int64_t o = 0; o < s.out_c; ++o) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t j = 0; j < per_group; ++j) f((o * taps + tap) * per_group + j, o, tap, j);
    }
  }
}

// Returns the shape for the vector kernels; the caller sets the pointers.
template <typename T>
GroupedConv<T> described(const Conv2dShape& s) {
  return {.in_h = s.in_h,
          .in_w = s.in_w,
          .out_h = s.out_h(),
          .out_w = s.out_w(),
          .channels = s.in_c,
          .kernel = s.kernel,
          .stride = s.stride,
          .pad = s.pad,
          .pairs = s.in_c / s.groups == 2,
          .x = nullptr,
          .weights = nullptr,
          .y = nullptr,
          .sums = nullptr,
          .gradients = nullptr};
}

}  // namespace

bool few_channels_in_group(const Conv2dShape& s) {
  const std::int64_t per_group = s.in_c / s.groups;
  return s.in_c == s.out_c && (per_group == 1 || per_group == 2);
}

template <typename T>
GroupedConvolution<T>::GroupedConvolution(CpuDevice& device, const Conv2dShape& shape)
    : device_(device), shape_(shape), per_group_(static_cast<int>(shape.in_c / shape.groups)) {
  device.scratch.reserve(gradient_bytes() +
                         static_cast<std::size_t>(shape.w_shape().elements()) * sizeof(float));
}

template <typename T>
std::size_t GroupedConvolution<T>::gradient_bytes() const {
  return align_up(static_cast<std::size_t>(shape_.w_shape().elements()) * sizeof(double));
}

template <typename T>
double* GroupedConvolution<T>::gradient_scratch() const {
  return reinterpret_cast<double*>(device_.scratch.data());
}

template <typename T>
float* GroupedConvolution<T>::weight_scratch() const {
  return reinterpret_cast<float*>(device_.scratch.data() + gradient_bytes());
}

template <typename T>
void GroupedConvolution<T>::run(const GroupedConv<T>& g) const {
  const auto& kernels = device_.vector.template of<T>();
  device_.threads.each_range(
      shape_.batch * g.out_h, 1, shape_.x_shape().elements(),
      [&](const Range& rows) { kernels.grouped_forward(g, rows.begin, rows.end); });
}

template <typename T>
void GroupedConvolution<T>::forward(const T* x, const T* w, T* y) const {
  const Conv2dShape& s = shape_;
  float* const weights = weight_scratch();
  for_each_weight(s, [&](std::int64_t i, std::int64_t o, std::int64_t tap, std::int64_t j) {
    weights[position(o, tap, j, per_group_, s.in_c, false)] = float_of_weight(w[i]);
  });
  GroupedConv<T> g = described<T>(s);
  g.x = x;
  g.weights = weights;
  g.y = y;
  run(g);
}

template <typename T>
void GroupedConvolution<T>::backward_data(const T* dy, const T* w, T* dx) const {
  const Conv2dShape& s = shape_;
  check(s.stride == 1, "GroupedConvolution: backward_data needs stride 1");
  // With stride 1 the gradient is the convolution of dy with the kernel rotated by 180 degrees and
  // its input and output channels exchanged.
  float* const weights = weight_scratch();
  const std::int64_t last_tap = std::int64_t{s.kernel} * s.kernel - 1;
  for_each_weight(s, [&](std::int64_t i, std::int64_t o, std::int64_t tap, std::int64_t j) {
    weights[position(o, last_tap - tap, j, per_group_, s.in_c, true)] = float_of_weight(w[i]);
  });
  GroupedConv<T> g = described<T>(s);
  std::swap(g.in_h, g.out_h);
  std::swap(g.in_w, g.out_w);
  g.pad = s.kernel - 1 - s.pad;
  g.x = dy;
  g.weights = weights;
  g.y = dx;
  run(g);
}

template <typename T>
void GroupedConvolution<T>::backward_weights(const T* x, const T* dy, float* dw,
                                             bool accumulate) const {
  const Conv2dShape& s = shape_;
  check(s.kernel == 3 || s.kernel == 7, "GroupedConvolution: kernel size must be 3 or 7");
  double* const gradients = gradient_scratch();
  std::fill(gradients, gradients + s.w_shape().elements(), 0.0);
  std::fill(weight_scratch(), weight_scratch() + s.w_shape().elements(), 0.f);
  GroupedConv<T> g = described<T>(s);
  g.x = x;
  g.y = const_cast<T*>(dy);  // only read
  g.sums = weight_scratch();
  g.gradients = gradients;
  // One thread computes each sum, so the result does not depend on the number of threads.
  device_.threads.each_range(s.in_c, 16, s.x_shape().elements(), [&](const Range& channels) {
    device_.vector.template of<T>().grouped_weight_gradient(g, s.batch * s.out_h(), channels.begin,
                                                            channels.size());
  });
  for_each_weight(s, [&](std::int64_t i, std::int64_t o, std::int64_t tap, std::int64_t j) {
    const double sum = gradients[position(o, tap, j, per_group_, s.in_c, false)];
    dw[i] = static_cast<float>(accumulate ? static_cast<double>(dw[i]) + sum : sum);
  });
}

template class GroupedConvolution<float>;
template class GroupedConvolution<BFloat16>;

}  // namespace pfc
