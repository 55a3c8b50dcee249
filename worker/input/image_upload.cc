#include "worker/input/image_upload.h"

#include <cstring>

namespace pfc {

ImageUpload::ImageUpload(Ops& ops, const Shape& shape) : ops_(ops), shape_(shape) {
  if (ops.on_host()) return;
  copies_ = ops.copy_queue();
  const std::size_t slot_bytes = bytes(shape) / kSlots;
  for (Slot& slot : slots_) {
    slot.pinned = copies_->allocate_pinned(slot_bytes);
    slot.device = ops.allocate(slot_bytes);
  }
  ops.synchronize();  // what zeroes the slots is not ordered with the copies
}

void ImageUpload::put(const Batch& batch) {
  if (copies_ == nullptr) return;
  Slot& slot = slots_[next_put_];
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return slot.free || closed_; });
    if (closed_) return;
    slot.free = false;
  }
  next_put_ = 1 - next_put_;
  if (slot.copied) slot.copied->wait();  // from the pinned memory; long done
  std::memcpy(slot.pinned->data(), batch.images.data(), batch.images.size());
  if (slot.read) copies_->wait_for(*slot.read);
  copies_->copy_to_device({slot.device->data(), DType::kUInt8, shape_}, slot.pinned->data());
  slot.copied = copies_->record();
}

// The batch reached the training thread through a lock after put() returned: so has the slot.
Tensor ImageUpload::take(const Batch& batch) {
  check(batch.images.size() == static_cast<std::size_t>(shape_.elements()),
        "ImageUpload: a batch of another shape");
  if (copies_ == nullptr) {
    return {const_cast<std::uint8_t*>(batch.images.data()), DType::kUInt8, shape_};
  }
  Slot& slot = slots_[next_take_];
  ops_.wait_for(*slot.copied);
  return {slot.device->data(), DType::kUInt8, shape_};
}

void ImageUpload::release() {
  if (copies_ == nullptr) return;
  Slot& slot = slots_[next_take_];
  next_take_ = 1 - next_take_;
  slot.read = ops_.record();
  const std::lock_guard lock(mutex_);
  slot.free = true;
  freed_.notify_all();
}

void ImageUpload::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  freed_.notify_all();
}

}  // namespace pfc
