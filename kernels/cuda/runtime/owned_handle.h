// Owners of what CUDA's libraries hand out.
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

/// OwnedHandle<cudnnHandle_t, cudnnDestroy>: a unique_ptr that destroys it.
template <typename Handle, auto Destroy>
using OwnedHandle = std::unique_ptr<std::remove_pointer_t<Handle>, HandleDestroyer<Destroy>>;

}  // namespace pfc
