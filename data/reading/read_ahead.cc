#include "data/reading/read_ahead.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/error.h"

namespace pfc {

std::span<const std::byte> ReadAhead::Unit::find(std::int64_t image) const {
  const auto behind = std::ranges::upper_bound(
      ranges_, image, {}, [](const Range& range) { return range.images.first; });
  if (behind == ranges_.begin()) return {};
  const Range& range = *std::prev(behind);
  if (image >= range.images.end) return {};
  const Extent own = dataset_->extent(image);
  const std::uint64_t begin = own.offset - range.extent.offset;
  if (begin + own.bytes > range.readable) return {};
  return std::span<const std::byte>(range.memory).subspan(begin, own.bytes);
}

ReadAhead::ReadAhead(const Dataset& dataset, ReadPlan plan, const ReadAheadOptions& options)
    : dataset_(dataset),
      plan_(std::move(plan)),
      options_(options),
      next_batch_(options.first_batch) {
  check(options.units > 1 && options.unit_bytes > 0 && options.piece_bytes > 0 &&
            options.make_reader != nullptr,
        "ReadAhead: bad options");
  reader_ = options.make_reader();
  thread_ = std::thread([this] { run(); });
}

ReadAhead::~ReadAhead() {
  stop();
  thread_.join();
}

void ReadAhead::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  read_.notify_all();
}

std::map<std::int64_t, std::unique_ptr<ReadAhead::Unit>>::iterator ReadAhead::unit_of(
    std::int64_t batch) {
  const auto behind = units_.upper_bound(batch);
  if (behind == units_.begin()) return units_.end();
  const auto found = std::prev(behind);
  return batch < found->second->end_batch_ ? found : units_.end();
}

const ReadAhead::Unit* ReadAhead::take(std::int64_t batch) {
  std::unique_lock lock(mutex_);
  const Unit* unit = nullptr;
  read_.wait(lock, [&] {
    const auto found = unit_of(batch);
    if (found != units_.end() && found->second->pieces_left_ == 0) unit = found->second.get();
    return unit != nullptr || stopping_ || error_ != nullptr;
  });
  if (unit == nullptr && error_) std::rethrow_exception(error_);
  return unit;
}

void ReadAhead::give_back(std::int64_t batch) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = unit_of(batch);
    if (found == units_.end()) return;
    Unit& unit = *found->second;
    if (--unit.batches_left_ > 0 || unit.pieces_left_ > 0) return;
    spare_.push_back({std::move(unit.memory_), unit.capacity_});
    units_.erase(found);
  }
  room_.notify_one();
}

bool ReadAhead::is_stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void ReadAhead::run() {
  try {
    while (true) {
      // The reader still finishes the reads in progress; the others are dropped.
      if (is_stopping()) return;
      while (begin_unit()) {
      }
      while (!to_start_.empty() && reader_->under_way() < reader_->depth()) {
        reader_->start(*to_start_.front());
        to_start_.pop_front();
      }
      if (reader_->under_way() > 0) {
        finish_piece();
        continue;
      }
      std::unique_lock lock(mutex_);
      const auto more = [&] {
        return next_batch_ < options_.end_batch && std::ssize(units_) < options_.units;
      };
      room_.wait(lock, [&] { return stopping_ || more(); });
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
  read_.notify_all();
}

/// If there is room for another unit, plans the reads of the next one. Returns whether there was
/// room.
bool ReadAhead::begin_unit() {
  // Do not allocate another unit before all reads of the previous one have started.
  if (next_batch_ >= options_.end_batch || !to_start_.empty()) return false;
  auto unit = std::make_unique<Unit>();
  {
    const std::lock_guard lock(mutex_);
    if (std::ssize(units_) >= options_.units) return false;
  }
  const ReadUnit planned = plan_(next_batch_);
  lay_out(planned, *unit);
  for (Unit::Piece& piece : unit->pieces_) to_start_.push_back(&piece);
  unit->end_batch_ = planned.end_batch;
  unit->batches_left_ = std::min(planned.end_batch, options_.end_batch) - next_batch_;
  const bool empty = unit->pieces_.empty();
  {
    const std::lock_guard lock(mutex_);
    units_.emplace(next_batch_, std::move(unit));
  }
  next_batch_ = planned.end_batch;
  if (empty) read_.notify_all();
  return true;
}

/// Allocates memory for the ranges, up to unit_bytes, and plans the reads that fill it.
void ReadAhead::lay_out(const ReadUnit& planned, Unit& unit) {
  unit.dataset_ = &dataset_;
  for (const ImageRange& images : planned.images) {
    for (std::int64_t image = images.first; image < images.end; ++image) add_image(image, unit);
  }
  std::size_t bytes = 0;
  for (const Unit::Range& range : unit.ranges_) bytes += range.extent.bytes;
  bytes = std::min(bytes, options_.unit_bytes);
  take_memory(bytes, unit);
  std::span<std::byte> room(unit.memory_.get(), bytes);
  for (std::size_t r = 0; r < unit.ranges_.size(); ++r) {
    Unit::Range& range = unit.ranges_[r];
    const std::size_t size = std::min<std::size_t>(range.extent.bytes, room.size());
    range.memory = room.first(size);
    range.readable = size;
    for (std::size_t at = 0; at < size; at += options_.piece_bytes) {
      Unit::Piece piece;
      piece.fd = range.extent.file->fd();
      piece.offset = range.extent.offset + at;
      piece.to = room.subspan(at, std::min(options_.piece_bytes, size - at));
      piece.unit = &unit;
      piece.range = r;
      piece.at = at;
      unit.pieces_.push_back(piece);
    }
    room = room.subspan(size);
  }
  unit.pieces_left_ = unit.pieces_.size();
}

/// Extends the last range if the image is the next one in the same file.
void ReadAhead::add_image(std::int64_t image, Unit& unit) const {
  const Extent extent = dataset_.extent(image);
  if (!unit.ranges_.empty()) {
    auto& [images, last, memory, readable] = unit.ranges_.back();
    const std::uint64_t end = last.offset + last.bytes;
    if (image == images.end && extent.file == last.file && extent.offset >= last.offset &&
        extent.offset <= end) {
      images.end = image + 1;
      last.bytes = std::max(end, extent.offset + extent.bytes) - last.offset;
      return;
    }
  }
  unit.ranges_.push_back({.images = {image, image + 1}, .extent = extent});
}

/// Reuses memory of an earlier unit if it is large enough.
void ReadAhead::take_memory(std::size_t bytes, Unit& unit) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::ranges::find_if(
        spare_, [&](const Memory& memory) { return memory.capacity >= bytes; });
    if (fits != spare_.end()) {
      unit.memory_ = std::move(fits->bytes);
      unit.capacity_ = fits->capacity;
      spare_.erase(fits);
      return;
    }
    if (!spare_.empty()) spare_.pop_back();
  }
  // Allocate a little more, so that the next units, of similar size, fit too.
  unit.capacity_ = std::min(bytes + bytes / 8, options_.unit_bytes);
  unit.memory_ = std::make_unique_for_overwrite<std::byte[]>(unit.capacity_);
}

void ReadAhead::finish_piece() {
  auto& piece = static_cast<Unit::Piece&>(reader_->finish());
  Unit::Range& range = piece.unit->ranges_[piece.range];
  if (piece.got < piece.to.size()) range.readable = std::min(range.readable, piece.at + piece.got);
  const std::lock_guard lock(mutex_);
  if (--piece.unit->pieces_left_ == 0) read_.notify_all();
}

}  // namespace pfc
