// Copies the images, or embeddings, of the next batches to a GPU while the training step before
// them runs.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "kernels/ops.h"

namespace pfc {

/// A queue of two slots of device memory, each with a pinned host buffer behind it. The copies run
/// on a stream beside the compute stream, and events alone order the two. One slot is filled while
/// the training step uses the other.
///
/// put() belongs to the thread that makes the inputs, take() and release() to the training thread.
/// close() may be called from any thread.
class ImageUpload {
 public:
  static constexpr std::size_t kSlots = 2;
  /// shape: [B, H, W, 3], or of embeddings [B, D]. ops is borrowed. REQUIRES: ops computes on a
  /// GPU.
  ImageUpload(Ops& ops, const Shape& shape, DType type = DType::kUInt8);
  /// Bytes of GPU memory; the slots take as much pinned host memory.
  [[nodiscard]] static std::size_t bytes(const Shape& shape, DType type = DType::kUInt8) {
    return kSlots * static_cast<std::size_t>(shape.elements()) * size_of(type);
  }

  /// Starts the copy of a batch's images, which may change as soon as put() has returned. Blocks
  /// while both slots are in use. After close() it returns without copying.
  void put(std::span<const std::uint8_t> images);

  /// The oldest batch that was put and not taken, of `shape`, on the device. The compute
  /// stream waits for the copy; the host does not. Valid until release().
  /// REQUIRES: put() has returned for this batch, and the batch before it was released.
  [[nodiscard]] Tensor take();
  /// Gives the slot of the last take() back. What uses it is enqueued by now.
  void release();

  /// From now on put() returns at once, without copying.
  void close();

 private:
  struct Slot {
    std::unique_ptr<Buffer> pinned, device;
    std::unique_ptr<Event> copied;  // when the copy is done
    std::unique_ptr<Event> read;    // when the compute stream no longer uses it; null: never used
    bool free = true;               // guarded by mutex_
  };

  Ops& ops_;
  const Shape shape_;
  const DType type_;
  std::unique_ptr<CopyQueue> copies_;
  std::array<Slot, kSlots> slots_;
  std::size_t next_put_ = 0;   // belongs to the thread that puts
  std::size_t next_take_ = 0;  // belongs to the thread that takes
  std::mutex mutex_;
  std::condition_variable freed_;
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace pfc
