// Reads, decodes and augments batches ahead of the training step, in a deterministic global order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/config/config.h"
#include "common/ids.h"
#include "common/trace/recorder.h"
#include "data/batch_plan.h"
#include "data/dataset.h"
#include "data/prefetch/batch.h"
#include "data/prefetch/batch_filler.h"
#include "data/reading/async_reader.h"
#include "data/reading/read_ahead.h"
#include "data/reading/read_options.h"
#include "data/reading/read_plan.h"

namespace pfc {

/// Maximum number of batches ahead of the training step.
inline constexpr int kMaxPrefetchDepth = 64;

/// Returns how many batches `threads` decoding threads prepare ahead: each thread fills one, and
/// two more are ready. At least 4 and at most kMaxPrefetchDepth; more threads than this would be
/// idle.
constexpr int prefetch_depth(int threads) {
  return std::min(std::max(threads, 2), kMaxPrefetchDepth - 2) + 2;
}

struct PrefetcherOptions {
  std::int64_t batch_size = 128;  ///< images per micro-batch of this worker
  Rank rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;
  ReadOptions read = {};
  Augmentation augmentation = {};
  std::int64_t first_batch = 0;  ///< number of the micro-batch to start with
  /// Position of first_batch; empty: derived from first_batch.
  std::optional<DataPlace> start = {};
  std::int64_t last_batch = -1;  ///< one past the last; -1: unlimited
  int threads = 2;
  int depth = 0;  ///< number of batches to prefetch; 0: prefetch_depth(threads)
  /// Fraction of an epoch's images that may be damaged. A worker sees only its own share of the
  /// images, so it fails when more than this fraction of its share is damaged. If the whole epoch
  /// exceeds the fraction, so does the share of at least one worker. Three damaged images are
  /// always accepted, unless this is 0.
  double max_damaged = 0.001;
  /// Creates the reader; empty: make_async_reader() does. Set by tests that count reads.
  std::function<std::unique_ptr<AsyncReader>()> make_reader = {};
  TraceRecorder* trace = nullptr;  ///< not owned; records the threads. nullptr disables tracing
};

/// With W workers and batch size B, micro-batch i of worker r has the global positions (i * W + r)
/// * B + 0 .. B-1. Position p is in epoch p / E, where E = images - images mod (W * B), and has
/// image order(epoch, p mod E). (The end of an epoch that does not fill a global batch is dropped,
/// as in arcface_torch's sampler.) order() is a pure function of (seed, epoch): see global_order.h,
/// order/balanced_order.h, and order/sequential_order.h for sequential reading. If all images are
/// in order (DatasetInfo::images_in_order), a separate thread reads the data of the next batches. A
/// damaged image is replaced by the next undamaged one in the epoch's order; the first few are
/// logged with file and record. Batches do not depend on the number of threads.
///
/// Only one thread calls next(); any thread may call recycle().
class Prefetcher {
 public:
  /// `dataset` is borrowed. Throws InputError when the images do not fill one global batch, or the
  /// data or the buffer do not allow sequential reading.
  Prefetcher(const Dataset& dataset, const PrefetcherOptions& options);
  ~Prefetcher() { end_threads(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Blocks until the next batch is ready; returns nullptr after last_batch. This and every later
  /// call rethrow a thread's InputError (invalid label, too many damaged images).
  std::unique_ptr<Batch> next();
  /// Returns a batch's memory for reuse.
  void recycle(std::unique_ptr<Batch> batch);

 private:
  /// Order of images, and what is read together; empty if the data are not read ahead.
  struct Reading {
    std::unique_ptr<const ImageOrder> order;
    ReadPlan plan;
  };
  /// A filled batch, or the error that prevented it.
  struct Slot {
    bool filled = false;
    std::unique_ptr<Batch> batch;
    std::vector<std::string> damaged;
    std::exception_ptr error;
  };

  static Reading make_reading(const Dataset& dataset, const BatchPlan& plan,
                              const PrefetcherOptions& o);
  static std::unique_ptr<ReadAhead> make_reads(const Dataset& dataset, const Reading& reading,
                                               const PrefetcherOptions& o);
  Slot& slot_of(std::int64_t index) {
    return ring_[static_cast<std::size_t>(index) % ring_.size()];
  }
  void end_threads();
  void fill_batches(const TraceTrack& track);
  std::unique_ptr<Batch> take_spare();
  Slot fill(BatchFiller& filler, std::int64_t index, std::unique_ptr<Batch> batch);
  void count_damage(std::int64_t epoch, const std::vector<std::string>& damaged);

  // Constant after construction.
  const BatchPlan plan_;
  const Reading reading_;
  const std::unique_ptr<ReadAhead> reads_;
  const BatchSource source_;
  const double max_damaged_;
  const std::int64_t end_;

  // Used only by the thread that calls next().
  std::int64_t damage_epoch_ = -1;
  std::int64_t damage_ = 0;  ///< damaged images in damage_epoch_

  std::mutex mutex_;
  std::condition_variable slot_filled_;
  std::condition_variable slot_free_;
  // Guarded by mutex_. Threads take batch numbers in order and store filled batches in a ring. A
  // number is taken only when its slot is free, which limits memory.
  std::vector<Slot> ring_;
  std::vector<std::unique_ptr<Batch>> spare_;
  std::int64_t next_to_fill_;
  std::int64_t next_to_give_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;  // last, because they use all of the above
};

/// Returns the bytes of all batches that exist at the same time: the batches prepared ahead, and
/// `held` batches that were taken with next() and not yet recycled.
constexpr std::size_t prefetcher_bytes(int depth, int held, std::size_t batch_bytes) {
  return static_cast<std::size_t>(depth + held) * batch_bytes;
}

struct StoredImages {
  std::int64_t images = 0;
  double mean_bytes = 0;  ///< stored_bytes_of_image(); 0: no read-ahead
};
/// Returns the maximum bytes of stored images that a worker keeps in memory. Assumes that images
/// that are read together are on average at most a tenth larger than the mean of the data set.
std::size_t read_ahead_bytes(const ReadOptions& options, const StoredImages& stored,
                             std::int64_t batch_size, int world_size, int threads);

}  // namespace pfc
