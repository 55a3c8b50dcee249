// Where activations and their gradients lie: one buffer, shared by tensors that are never alive at
// the same time.
//
// A network rehearses one step (forward, then backward) and says at each layer which tensors it
// makes and which it touches. Greedy by size: the largest first, each at the lowest place that no
// tensor alive at the same time holds (Pisarchyk and Lee, "Efficient memory management for deep
// neural net inference", arXiv 2001.03288, section 5.2).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

/// One stretch of memory, alive from its first to its last layer, both included.
struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<std::int64_t> offsets;  ///< one a lifetime, 64-byte aligned
  std::int64_t bytes = 0;             ///< of all
};

/// Pure. Lifetimes that overlap in time never overlap in space.
Placement place(const std::vector<Lifetime>& lifetimes);

/// Tensors are borrowed, with their shape and without data; allocate() gives them their data.
class ActivationPlan {
 public:
  /// The rehearsal moves on to the next layer.
  void advance() { ++now_; }
  /// The tensor is written for the first time now. Each tensor is made once.
  void make(Tensor& tensor);
  /// The tensor is made in the memory of another, which holds nothing else from now on.
  void make_in_place_of(Tensor& tensor, const Tensor& other);
  /// The tensor is read or written now.
  void use(const Tensor& tensor);
  [[nodiscard]] bool made(const Tensor& tensor) const { return storage_.contains(&tensor); }

  /// Of the buffer that allocate() would make now.
  [[nodiscard]] std::int64_t bytes() const { return place(lifetimes_).bytes; }

  /// Ends the rehearsal. The tensors' data lies in the returned buffer.
  std::unique_ptr<Buffer> allocate(Ops& ops);

 private:
  int now_ = 0;
  std::vector<Lifetime> lifetimes_;
  std::map<const Tensor*, std::size_t> storage_;  // index of lifetimes_
  std::vector<std::pair<Tensor*, std::size_t>> tensors_;
};

}  // namespace pfc
