#include "data/prefetch/prefetcher.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/trace/profiler_range.h"
#include "data/damaged_image.h"
#include "data/order/balanced_order.h"
#include "data/order/global_order.h"

namespace pfc {

namespace {

constexpr std::int64_t kDamageLogged = 5;  // maximum number logged per epoch and worker

// For reading in random order: the number of batches whose images are read while others are
// decoded; the maximum memory for one of these batches; and the number of concurrent reads. With
// several reads, a disk can reorder them and remote storage can answer many at once.
constexpr int kBatchesAhead = 2;
constexpr std::size_t kRandomReadBytes = std::size_t{16} << 20;
constexpr int kRandomReads = 64;
// For sequential reading, a few large reads keep a disk or a connection busy.
constexpr int kSequentialReads = 8;
constexpr std::size_t kReadPieceBytes = std::size_t{4} << 20;

std::int64_t allowed_damage(const BatchPlan& plan, double part) {
  if (part == 0) return 0;
  constexpr double kAlways = 3;
  const double of_share = part * static_cast<double>(plan.epoch_positions()) / plan.world_size;
  return static_cast<std::int64_t>(std::floor(std::max(of_share, kAlways)));
}

BatchPlan make_plan(const Dataset& dataset, const PrefetcherOptions& o) {
  check(o.batch_size > 0 && o.world_size > 0 && o.rank >= 0 && o.rank < o.world_size &&
            o.threads > 0 && o.depth >= 0 && o.first_batch >= 0,
        "Prefetcher: bad options");
  const BatchPlan plan{.images = dataset.info().images,
                       .batch_size = o.batch_size,
                       .rank = o.rank,
                       .world_size = o.world_size,
                       .start = o.start.value_or(DataPlace{}),
                       .first_batch = o.start ? o.first_batch : 0};
  if (plan.batches_per_epoch() > 0) return plan;
  throw InputError("rec: the data has " + counted(plan.images, "image") +
                   ", fewer than one batch of " + std::to_string(plan.global_batch()) + " (" +
                   counted(o.world_size, "worker") + " x batch_size " +
                   std::to_string(o.batch_size) + "): lower batch_size");
}

/// Returns each image's label. Throws InputError if a label cannot be read: if workers left out
/// different images, they would train in different orders.
std::vector<std::int64_t> labels_of(const Dataset& dataset) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(dataset.info().images));
  ImageBuffer storage;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    try {
      labels[i] = dataset.label(static_cast<std::int64_t>(i), storage);
    } catch (const DamagedImage& damage) {
      throw InputError("balance_classes: needs the label of every image: " +
                       std::string(damage.what()));
    }
  }
  return labels;
}

/// Number of ReadAhead units in memory, and maximum bytes of one.
struct Room {
  int units = 0;
  std::size_t unit_bytes = 0;
  int depth = 0;  ///< concurrent reads
};

Room room_of(const ReadOptions& read, int world_size, int threads) {
  if (read.kind == ReadKind::kSequential) {
    const auto workers = static_cast<std::uint64_t>(world_size);
    return {.units = 2,
            .unit_bytes = std::max<std::size_t>(read.buffer_bytes / workers / 2, 1),
            .depth = kSequentialReads};
  }
  const int units = std::min(threads, kMaxPrefetchDepth) + kBatchesAhead;
  return {.units = units, .unit_bytes = kRandomReadBytes, .depth = kRandomReads};
}

}  // namespace

Prefetcher::Reading Prefetcher::make_reading(const Dataset& dataset, const BatchPlan& plan,
                                             const PrefetcherOptions& o) {
  if (o.read.kind == ReadKind::kSequential) {
    auto order = make_sequential_order(dataset, o.read, plan.global_batch(), o.seed, o.shuffle);
    ReadPlan reads = plan_sequential_reads(*order, plan);
    return {.order = std::move(order), .plan = std::move(reads)};
  }
  std::unique_ptr<const ImageOrder> order;
  if (o.read.balance_classes) {
    order = std::make_unique<BalancedOrder>(labels_of(dataset), o.seed, o.shuffle);
  } else {
    order = std::make_unique<GlobalOrder>(plan.images, o.seed, o.shuffle);
  }
  ReadPlan reads;
  if (stored_bytes_of_image(dataset)) reads = plan_random_reads(*order, plan);
  return {.order = std::move(order), .plan = std::move(reads)};
}

std::unique_ptr<ReadAhead> Prefetcher::make_reads(const Dataset& dataset, const Reading& reading,
                                                  const PrefetcherOptions& o) {
  if (!reading.plan) return nullptr;
  const Room room = room_of(o.read, o.world_size, o.threads);
  return std::make_unique<ReadAhead>(
      dataset, reading.plan,
      ReadAheadOptions{
          .first_batch = o.first_batch,
          .end_batch = o.last_batch < 0 ? std::numeric_limits<std::int64_t>::max() : o.last_batch,
          .units = room.units,
          .unit_bytes = room.unit_bytes,
          .piece_bytes = kReadPieceBytes,
          .make_reader = o.make_reader ? o.make_reader : [depth = room.depth] {
            return make_async_reader(depth);
          }});
}

Prefetcher::Prefetcher(const Dataset& dataset, const PrefetcherOptions& options)
    : plan_(make_plan(dataset, options)),
      reading_(make_reading(dataset, plan_, options)),
      reads_(make_reads(dataset, reading_, options)),
      source_{.dataset = dataset,
              .plan = plan_,
              .order = *reading_.order,
              .seed = options.seed,
              .augmentation = options.augmentation,
              .allowed_damage = allowed_damage(plan_, options.max_damaged),
              .reads = reads_.get()},
      max_damaged_(options.max_damaged),
      end_(options.last_batch < 0 ? std::numeric_limits<std::int64_t>::max() : options.last_batch),
      ring_(static_cast<std::size_t>(options.depth > 0 ? options.depth
                                                       : prefetch_depth(options.threads))),
      next_to_fill_(options.first_batch),
      next_to_give_(options.first_batch) {
  const int busy = std::min(options.threads, static_cast<int>(ring_.size()));
  try {
    for (int i = 0; i < busy; ++i) {
      threads_.emplace_back(
          [this, track = track_of(options.trace, TraceRow::kLoader,
                                  "loader " + std::to_string(i))] { fill_batches(track); });
    }
  } catch (const std::system_error&) {  // no thread can be started
    end_threads();
    throw;
  }
}

void Prefetcher::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  slot_free_.notify_all();
  if (reads_ != nullptr) reads_->stop();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::recycle(std::unique_ptr<Batch> batch) {
  if (batch == nullptr) return;
  const std::lock_guard lock(mutex_);
  // Needs no limit, because a batch is allocated only when there is no spare one.
  spare_.push_back(std::move(batch));
}

std::unique_ptr<Batch> Prefetcher::next() {
  const TimePoint begin = Clock::now();
  std::unique_lock lock(mutex_);
  if (next_to_give_ >= end_) return nullptr;
  Slot& ready = slot_of(next_to_give_);
  slot_filled_.wait(lock, [&] { return ready.filled; });
  if (ready.error) std::rethrow_exception(ready.error);
  try {
    count_damage(source_.plan.epoch_of(next_to_give_), ready.damaged);
  } catch (...) {
    ready.error = std::current_exception();
    throw;
  }
  std::unique_ptr<Batch> batch = std::move(ready.batch);
  ready = Slot{};
  ++next_to_give_;
  lock.unlock();
  slot_free_.notify_one();
  batch->skipped_images = damage_;
  batch->wait_seconds = seconds_since(begin);
  return batch;
}

/// Counts damage in batch order, so that reports do not depend on the number of threads.
void Prefetcher::count_damage(std::int64_t epoch, const std::vector<std::string>& damaged) {
  if (epoch != damage_epoch_) damage_ = 0;
  damage_epoch_ = epoch;
  for (const std::string& message : damaged) {
    ++damage_;
    if (damage_ <= kDamageLogged) {
      spdlog::warn("epoch {}: skipped a damaged image: {}{}", epoch, message,
                   damage_ == kDamageLogged ? " (further ones are only counted)" : "");
    }
    if (damage_ > source_.allowed_damage) {
      throw InputError(fmt::format(
          "more than {:g} % of epoch {}'s images are damaged (worker {} has found {} among its "
          "{}); "
          "leave them out with pfcctl data validate --fix, or raise max_damaged; the last damaged "
          "image: {}",
          100 * max_damaged_, epoch, source_.plan.rank, damage_,
          source_.plan.epoch_positions() / source_.plan.world_size, message));
    }
  }
}

void Prefetcher::fill_batches(const TraceTrack& track) {
  ::pthread_setname_np(::pthread_self(), "pfc-data");  // visible when debugging a stuck worker
  BatchFiller filler(source_, track);
  std::unique_lock lock(mutex_);
  while (true) {
    const auto may_go_on = [&] {
      return stopping_ || next_to_fill_ >= end_ ||
             next_to_fill_ < next_to_give_ + static_cast<std::int64_t>(ring_.size());
    };
    if (!may_go_on()) {
      const TraceTrack::Scope scope(track, "wait_for_room", next_to_fill_);
      slot_free_.wait(lock, may_go_on);
    }
    if (stopping_ || next_to_fill_ >= end_) return;
    const std::int64_t index = next_to_fill_++;
    std::unique_ptr<Batch> batch = take_spare();
    lock.unlock();
    Slot filled;
    {
      const ProfilerRange range("fill_batch");
      const TraceTrack::Scope scope(track, "fill_batch", index);
      filled = fill(filler, index, std::move(batch));
    }
    lock.lock();
    slot_of(index) = std::move(filled);
    slot_filled_.notify_one();
  }
}

std::unique_ptr<Batch> Prefetcher::take_spare() {
  if (spare_.empty()) return std::make_unique<Batch>();
  std::unique_ptr<Batch> batch = std::move(spare_.back());
  spare_.pop_back();
  return batch;
}

Prefetcher::Slot Prefetcher::fill(BatchFiller& filler, std::int64_t index,
                                  std::unique_ptr<Batch> batch) {
  Slot slot{.filled = true, .batch = std::move(batch), .damaged = {}, .error = nullptr};
  try {
    const TimePoint begin = Clock::now();
    slot.damaged = filler.fill(index, *slot.batch);
    slot.batch->fill_seconds = seconds_since(begin);
  } catch (...) {
    slot.error = std::current_exception();  // next() rethrows it at this batch
  }
  return slot;
}

std::size_t read_ahead_bytes(const ReadOptions& options, const StoredImages& stored,
                             std::int64_t batch_size, int world_size, int threads) {
  // ReadAhead allocates an eighth more than it needs, and the mean size of images differs between
  // the blocks.
  constexpr double kSpare = 5.0 / 4;
  const Room room = room_of(options, world_size, threads);
  const double images = options.kind == ReadKind::kRandom
                            ? static_cast<double>(batch_size)
                            : static_cast<double>(stored.images) / world_size;
  const double unit =
      std::min(static_cast<double>(room.unit_bytes), kSpare * images * stored.mean_bytes);
  return static_cast<std::size_t>(room.units * unit);
}

}  // namespace pfc
