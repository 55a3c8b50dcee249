// Plans the offsets of activations and their gradients in one buffer. Tensors that are never
// needed at the same time share memory.
//
// Before training, one step (forward, then backward) is simulated without computing: each layer
// names the tensors that it makes and uses. Then tensors are placed greedily by size, the largest
// first, each at the lowest offset that no tensor alive at the same time holds (Pisarchyk and
// Lee, "Efficient memory management for deep neural net inference", arXiv 2001.03288, section
// 5.2).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

/// A piece of memory and the layers that need it: first to last, both included.
struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<std::int64_t> offsets;  ///< offset of each lifetime, 64-byte aligned
  std::int64_t bytes = 0;             ///< size of the whole buffer
};

/// Assigns the offsets. Pure. Lifetimes that overlap in time never overlap in memory.
Placement place(const std::vector<Lifetime>& lifetimes);

/// Records tensors' lifetimes and allocates their buffer. Borrows the tensors, which have no data
/// until allocate() sets it.
class ActivationPlan {
 public:
  /// Moves to the next layer: the calls that follow belong to it.
  void advance() { ++now_; }
  /// Records that the current layer is the first to write the tensor. REQUIRES: it is not made yet.
  void make(Tensor& tensor);
  /// Records that the current layer writes the tensor into the memory of `other`, whose values
  /// are lost. REQUIRES: both have the same size.
  void make_in_place_of(Tensor& tensor, const Tensor& other);
  /// Records that the current layer reads or writes the tensor. REQUIRES: it has been made.
  void use(const Tensor& tensor);
  [[nodiscard]] bool made(const Tensor& tensor) const { return storage_.contains(&tensor); }

  /// Returns the size of the buffer that allocate() would allocate now.
  [[nodiscard]] std::int64_t bytes() const { return place(lifetimes_).bytes; }

  /// Allocates the buffer and points all tensors into it.
  std::unique_ptr<Buffer> allocate(Ops& ops);

 private:
  int now_ = 0;
  std::vector<Lifetime> lifetimes_;
  std::map<const Tensor*, std::size_t> storage_;  // index of lifetimes_
  std::vector<std::pair<Tensor*, std::size_t>> tensors_;
};

}  // namespace pfc
