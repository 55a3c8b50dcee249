#include "kernels/cuda/convolution/own_kernels.h"
#include "kernels/cuda/primitives/map.h"

namespace pfc {

void add_as_float32(CudaDevice& device, const Tensor& from, const Tensor& to, bool accumulate) {
  with_element_type(from.dtype, [&](auto* type) {
    const auto* const x = static_cast<const std::remove_pointer_t<decltype(type)>*>(from.data);
    if (accumulate) {
      map("add_as_float32", device, to.elements(), Sum{}, to.f32(), x,
          static_cast<const float*>(to.f32()));
    } else {
      map("add_as_float32", device, to.elements(), Same{}, to.f32(), x);
    }
  });
}

}  // namespace pfc
