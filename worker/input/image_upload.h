// Takes the images of the next batches to the device while the training step before them runs.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "kernels/ops.h"
#include "worker/data/batch.h"

namespace pfc {

/// On a GPU: two slots of device memory, each behind one of pinned host memory, and a stream of
/// copies beside the compute stream, ordered with it by events alone. One slot is filled while the
/// step reads the other. On a CPU nothing is copied: the step reads the batch itself.
///
/// put() and close() belong to the thread that makes the inputs of steps, take() and release() to
/// the one that trains.
class ImageUpload {
 public:
  /// shape: [B, H, W, 3]. ops is borrowed.
  ImageUpload(Ops& ops, const Shape& shape);
  /// Bytes of GPU memory; the slots take as much pinned host memory.
  [[nodiscard]] static std::size_t bytes(const Shape& shape) {
    return kSlots * static_cast<std::size_t>(shape.elements());
  }

  /// Starts the copy of a batch's images, which may be changed as soon as it returns. Blocks while
  /// both slots wait for the training thread; after close() it does nothing.
  void put(const Batch& batch);
  /// Images uint8 of the batch, in the order of put(); the compute stream waits for the copy.
  Tensor take(const Batch& batch);
  /// All that reads the images of the last take() has been enqueued.
  void release();
  /// Nobody will take any more: put() does not block.
  void close();

 private:
  static constexpr std::size_t kSlots = 2;
  struct Slot {
    std::unique_ptr<Buffer> pinned, device;
    std::unique_ptr<Event> copied;  // the copy is done
    std::unique_ptr<Event> read;    // the compute stream is past its last use; null: never used
    bool free = true;               // guarded by mutex_
  };

  Ops& ops_;
  const Shape shape_;
  std::unique_ptr<CopyQueue> copies_;  // null on a CPU
  std::array<Slot, kSlots> slots_;
  std::size_t next_put_ = 0;   // of the putting thread
  std::size_t next_take_ = 0;  // of the taking thread
  std::mutex mutex_;
  std::condition_variable freed_;
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace pfc
