#include <algorithm>

#include "kernels/cuda/convolution/depthwise_kernels.h"
#include "kernels/cuda/convolution/own_kernels.h"

namespace pfc {
namespace depthwise {

__global__ void merge_weights_kernel(std::int64_t channels, int taps, unsigned blocks,
                                     const float* partial, float* dw, bool accumulate) {
  __shared__ double parts[kWarps][kWarp];
  const std::int64_t channel = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const std::int64_t tap = blockIdx.y;
  double sum = 0;
  if (channel < channels) {
    for (std::int64_t block = threadIdx.y; block < blocks; block += blockDim.y) {
      sum += static_cast<double>(partial[(block * taps + tap) * channels + channel]);
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  float& to = dw[channel * taps + tap];
  double total = accumulate ? static_cast<double>(to) : 0.0;
  for (unsigned y = 0; y < blockDim.y; ++y) total += parts[y][threadIdx.x];
  to = static_cast<float>(total);
}

}  // namespace depthwise

namespace {

using depthwise::Sizes;

constexpr int kPixelsOfThread = 4;   // pixels per thread and item, for kernels of 3 x 3
constexpr int kBlocksOfWeights = 4;  // blocks of weights_kernel per multiprocessor

Sizes sizes_of(const Conv2dShape& s) {
  return {.batch = s.batch,
          .in_h = s.in_h,
          .in_w = s.in_w,
          .out_h = s.out_h(),
          .out_w = s.out_w(),
          .channels = s.in_c,
          .kernel = s.kernel,
          .stride = s.stride,
          .pad = s.pad};
}

/// Returns the convolution from dy to dx that computes backward data for stride 1.
Sizes turned(Sizes s) {
  std::swap(s.in_h, s.out_h);
  std::swap(s.in_w, s.out_w);
  s.pad = s.kernel - 1 - s.pad;
  return s;
}

class CudaDepthwise : public Conv2d {
 public:
  CudaDepthwise(CudaDevice& device, const Conv2dShape& shape)
      : Conv2d(shape, device.activations), device_(device), sizes_(sizes_of(shape)) {
    const std::size_t blocks = std::max(weights_shape(1).blocks.x, weights_shape(kPack).blocks.x);
    device.scratch.reserve(weight_elements() * sizeof(float) * std::max<std::size_t>(blocks, 1));
  }

 private:
  void run_forward(const Tensor& x, const Tensor& w, const Tensor& y) override {
    convolve("depthwise.forward", x, w, y, sizes_, shape_.kernel == 3 && shape_.stride <= 2);
  }

  void run_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    if (shape_.stride == 1 && shape_.kernel == 3 && shape_.pad <= 2) {
      convolve<true>("depthwise.backward_data", dy, w, dx, turned(sizes_), true);
      return;
    }
    with_width({&dy, &dx}, [&](auto* type, auto width) {
      using T = std::remove_pointer_t<decltype(type)>;
      const std::int64_t items = dx.elements() / width();
      launch("depthwise.backward_data", device_.grid_for(items), stream(),
             depthwise::backward_data_kernel<T, width()>, sizes_, items,
             static_cast<const T*>(dy.data), transposed<T>(w), static_cast<T*>(dx.data));
    });
  }

  void run_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                            bool accumulate) override {
    with_width({&x, &dy}, [&](auto* type, auto width) {
      using T = std::remove_pointer_t<decltype(type)>;
      const LaunchShape shape = weights_shape(width());
      with_kernel([&](auto kernel) {
        launch("depthwise.backward_weights", shape, stream(),
               depthwise::weights_kernel<T, width(), kernel()>, sizes_,
               static_cast<const T*>(x.data), static_cast<const T*>(dy.data), scratch());
      });
      const auto across = static_cast<unsigned>((shape_.in_c + kWarp - 1) / kWarp);
      launch(
          "depthwise.backward_weights",
          {.blocks = dim3(across, static_cast<unsigned>(taps())), .threads = dim3(kWarp, kWarps)},
          stream(), depthwise::merge_weights_kernel, shape_.in_c, taps(), shape.blocks.x, scratch(),
          dw.f32(), accumulate);
    });
  }

  template <bool kFlip = false>
  void convolve(const char* name, const Tensor& x, const Tensor& w, const Tensor& y, const Sizes& s,
                bool three) {
    with_width({&x, &y}, [&](auto* type, auto width) {
      using T = std::remove_pointer_t<decltype(type)>;
      const std::int64_t columns =
          three ? (s.out_w + kPixelsOfThread - 1) / kPixelsOfThread : s.out_w;
      const std::int64_t items = s.batch * s.out_h * columns * s.channels / width();
      const auto kernel = !three ? depthwise::any_forward_kernel<T, width()>
                          : s.stride == 1
                              ? depthwise::forward_kernel<T, width(), 3, 1, kPixelsOfThread, kFlip>
                              : depthwise::forward_kernel<T, width(), 3, 2, kPixelsOfThread, false>;
      launch(name, device_.grid_for(items), stream(), kernel, s, items,
             static_cast<const T*>(x.data), transposed<T>(w), static_cast<T*>(y.data));
    });
  }

  /// Enqueues transposing the weights into scratch, where they stay until the next use of scratch.
  template <typename T>
  const float* transposed(const Tensor& w) {
    const auto n = static_cast<std::int64_t>(weight_elements());
    launch("depthwise.transpose",
           {.blocks = dim3(static_cast<unsigned>((n + kThreads - 1) / kThreads)),
            .threads = dim3(kThreads)},
           stream(), depthwise::transpose_kernel<T>, shape_.in_c, taps(),
           static_cast<const T*>(w.data), scratch());
    return scratch();
  }

  /// Calls f(null pointer to the element type, number of channels that a thread computes at once).
  template <typename F>
  void with_width(std::initializer_list<const Tensor*> tensors, const F& f) const {
    bool packs = shape_.in_c % kPack == 0;
    for (const Tensor* t : tensors) packs = packs && aligned(t->data);
    with_element_type(device_.activations, [&](auto* element) {
      if (packs) {
        f(element, std::integral_constant<int, kPack>{});
      } else {
        f(element, std::integral_constant<int, 1>{});
      }
    });
  }

  template <typename F>
  void with_kernel(const F& f) const {
    switch (shape_.kernel) {
      case 3:
        return f(std::integral_constant<int, 3>{});
      case 5:
        return f(std::integral_constant<int, 5>{});
      default:
        return f(std::integral_constant<int, 7>{});
    }
  }

  /// Returns the launch of weights_kernel: a block processes as many rows of dy as it has threads
  /// for.
  [[nodiscard]] LaunchShape weights_shape(int at_once) const {
    const std::int64_t lanes = (shape_.in_c + at_once - 1) / at_once;
    unsigned width = 1;
    while (width < kWarp && width < lanes) width *= 2;
    const auto kernel = static_cast<unsigned>(shape_.kernel);
    const unsigned depth = std::min(kThreads / (width * kernel), 64u);  // z: 64 at most
    const std::int64_t across = (lanes + width - 1) / width;
    const std::int64_t room =
        std::int64_t{device_.properties.multiProcessorCount} * kBlocksOfWeights / across;
    const std::int64_t needed = (shape_.batch * shape_.out_h() + depth - 1) / depth;
    return {.blocks = dim3(static_cast<unsigned>(std::clamp<std::int64_t>(room, 1, needed)),
                           static_cast<unsigned>(across)),
            .threads = dim3(width, kernel, depth)};
  }

  [[nodiscard]] int taps() const { return shape_.kernel * shape_.kernel; }
  [[nodiscard]] std::size_t weight_elements() const {
    return static_cast<std::size_t>(shape_.w_shape().elements());
  }
  [[nodiscard]] float* scratch() const { return reinterpret_cast<float*>(device_.scratch.data()); }
  [[nodiscard]] cudaStream_t stream() const { return device_.compute.get(); }

  CudaDevice& device_;
  const Sizes sizes_;
};

}  // namespace

bool depthwise_supports(const Conv2dShape& s) {
  return s.groups == s.in_c && s.out_c == s.in_c &&
         (s.kernel == 3 || s.kernel == 5 || s.kernel == 7);
}

std::unique_ptr<Conv2d> make_depthwise_conv2d(CudaDevice& device, const Conv2dShape& shape) {
  return std::make_unique<CudaDepthwise>(device, shape);
}

}  // namespace pfc
