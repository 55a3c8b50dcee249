// Copies the images, or embeddings, of the next batches to a GPU during the current training step.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "kernels/ops.h"

namespace pfc {

/// A queue of two slots of device memory, each with a pinned host buffer. Copies run on a separate
/// stream, ordered with the compute stream only by events. While the training step uses one slot,
/// the other slot is filled.
///
/// put() is called by the thread that makes the inputs, take() and release() by the training
/// thread, close() by any thread.
class ImageUpload {
 public:
  static constexpr std::size_t kSlots = 2;
  /// shape: [B, H, W, 3], or [B, D] for embeddings. ops is borrowed. REQUIRES: ops is for a GPU.
  ImageUpload(Ops& ops, const Shape& shape, DType type = DType::kUInt8);
  /// Returns the bytes of GPU memory; the slots use the same amount of pinned host memory.
  [[nodiscard]] static std::size_t bytes(const Shape& shape, DType type = DType::kUInt8) {
    return kSlots * static_cast<std::size_t>(shape.elements()) * size_of(type);
  }

  /// Starts copying a batch. When put() returns, the caller may change `images`. Blocks while both
  /// slots are in use. After close() it returns without copying.
  void put(std::span<const std::uint8_t> images);

  /// Returns the oldest batch that was put and not yet taken: a tensor of `shape` on the device.
  /// The compute stream waits for the copy; the host does not. Valid until release(). REQUIRES:
  /// put() has returned for this batch, and the previous batch was released.
  [[nodiscard]] Tensor take();
  /// Releases the slot of the last take(). REQUIRES: all work that reads it is enqueued.
  void release();

  /// Makes put() return immediately, without copying.
  void close();

 private:
  struct Slot {
    std::unique_ptr<Buffer> pinned, device;
    std::unique_ptr<Event> copied;  // recorded after the copy
    // Recorded when the compute stream has read the slot; nullptr: not yet used.
    std::unique_ptr<Event> read;
    bool free = true;  // guarded by mutex_
  };

  Ops& ops_;
  const Shape shape_;
  const DType type_;
  std::unique_ptr<CopyQueue> copies_;
  std::array<Slot, kSlots> slots_;
  std::size_t next_put_ = 0;   // used only by the thread that calls put()
  std::size_t next_take_ = 0;  // used only by the training thread
  std::mutex mutex_;
  std::condition_variable freed_;
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace pfc
