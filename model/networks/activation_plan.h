// Plans the offsets of activations and their gradients in one buffer. Two tensors that are never
// needed at the same time share memory.
//
// Before training, one step (forward, then backward) is simulated without computing: each layer
// names the tensors that it makes and uses. Then tensors are placed greedily by size, the largest
// first, each at the lowest offset that no tensor alive at the same time holds (Pisarchyk and
// Lee, "Efficient memory management for deep neural net inference", arXiv 2001.03288, section
// 5.2).
//
// Activations that are recomputed (Chen et al., "Training deep nets with sublinear memory cost",
// arXiv 1604.06174) have the same offset in both passes, and between the passes other tensors can
// use their memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

/// Layers from first to last, both included.
struct LayerSpan {
  int first = 0, last = 0;
};

/// A piece of memory and the layers that need it. Between two spans its contents are lost.
struct Lifetime {
  std::int64_t bytes = 0;
  std::vector<LayerSpan> spans;
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
  /// Moves to the next layer: the calls that follow belong to it. Returns the layer's number.
  int advance() { return ++now_; }
  /// Records that the current layer is the first to write the tensor. REQUIRES: it is not made yet.
  void make(Tensor& tensor);
  /// Records that the current layer writes the tensor into the memory of `other`, whose values
  /// are lost. REQUIRES: both have the same size.
  void make_in_place_of(Tensor& tensor, const Tensor& other);
  /// Records that the current layer reads or writes the tensor. REQUIRES: it has been made.
  void use(const Tensor& tensor);
  /// Records that the current layer changes the tensor in place. REQUIRES: it has been made.
  void change(const Tensor& tensor);
  /// Excludes the tensor from recompute(). For tensors that a layer does not write when it runs
  /// again.
  void keep(const Tensor& tensor);
  [[nodiscard]] bool made(const Tensor& tensor) const { return storage_.contains(&tensor); }

  /// Makes the backward pass recompute activations of `block`. These are the tensors that the
  /// layers of `block` have made and that no layer between `block` and `again` uses. Their memory
  /// is free until the beginning of layer `again`, where layers of `block` run again. Returns these
  /// layers: those that layer `again` or a later layer needs. REQUIRES: the whole step has been
  /// recorded; blocks do not overlap.
  std::vector<int> recompute(const LayerSpan& block, int again);

  /// Returns the size of the buffer that allocate() would allocate now.
  [[nodiscard]] std::int64_t bytes() const { return place(lifetimes()).bytes; }

  /// Allocates the buffer and points all tensors into it.
  std::unique_ptr<Buffer> allocate(Ops& ops);

 private:
  struct Touch {
    int layer;
    bool writes;
  };
  /// Memory of one tensor, or of several tensors that are made in place of each other.
  struct Storage {
    Lifetime lifetime;
    std::vector<Touch> touches;
    bool kept = false;
  };

  void touch(const Tensor& tensor, bool writes);
  [[nodiscard]] std::vector<Lifetime> lifetimes() const;

  int now_ = 0;
  std::vector<Storage> storages_;
  std::map<const Tensor*, std::size_t> storage_;  // index of storages_
  std::vector<std::pair<Tensor*, std::size_t>> tensors_;
};

}  // namespace pfc
