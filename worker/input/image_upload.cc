#include "worker/input/image_upload.h"

#include <cstring>

namespace pfc {

ImageUpload::ImageUpload(Ops& ops, const Shape& shape, DType type)
    : ops_(ops), shape_(shape), type_(type), copies_(ops.copy_queue()) {
  const std::size_t slot_bytes = bytes(shape, type) / kSlots;
  for (Slot& slot : slots_) {
    slot.pinned = copies_->allocate_pinned(slot_bytes);
    slot.device = ops.allocate(slot_bytes);
  }
  ops.synchronize();  // the zeroing of the slots is not ordered with the copies
}

void ImageUpload::put(std::span<const std::uint8_t> images) {
  check(images.size() == bytes(shape_, type_) / kSlots, "ImageUpload: images of another shape");
  Slot& slot = slots_[next_put_];
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return slot.free || closed_; });
    if (closed_) return;
    slot.free = false;
  }
  next_put_ = 1 - next_put_;
  // Waits for the previous copy from the pinned memory, which is normally done.
  if (slot.copied) slot.copied->wait();
  std::memcpy(slot.pinned->data(), images.data(), images.size());
  if (slot.read) copies_->wait_for(*slot.read);
  copies_->copy_to_device({slot.device->data(), type_, shape_}, slot.pinned->data());
  slot.copied = copies_->record();
}

// The caller passes the batch to this thread under its own lock, so what put() wrote is visible
// here.
Tensor ImageUpload::take() {
  Slot& slot = slots_[next_take_];
  check(slot.copied != nullptr, "ImageUpload: take() before put()");
  ops_.wait_for(*slot.copied);
  return {slot.device->data(), type_, shape_};
}

void ImageUpload::release() {
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
