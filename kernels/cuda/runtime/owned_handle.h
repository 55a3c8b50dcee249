// Owns handles and descriptors of CUDA's libraries.
#pragma once

#include <memory>
#include <type_traits>

namespace pfc {

template <auto Destroy>
struct HandleDestroyer {
  template <typename T>
  void operator()(T* handle) const {
    static_cast<void>(Destroy(handle));
  }
};

/// A unique_ptr for a handle: OwnedHandle<cudnnHandle_t, cudnnDestroy>.
template <typename Handle, auto Destroy>
using OwnedHandle = std::unique_ptr<std::remove_pointer_t<Handle>, HandleDestroyer<Destroy>>;

}  // namespace pfc
