// Reads, decodes and augments batches ahead of the training step, in a deterministic global order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/config/config.h"
#include "common/ids.h"
#include "common/trace/recorder.h"
#include "data/batch.h"
#include "data/batch_plan.h"
#include "data/dataset.h"
#include "data/reading/make_async_reader.h"
#include "data/reading/read_options.h"

namespace pfc {

/// Maximum number of batches ahead of the training step.
inline constexpr int kMaxPrefetchDepth = 64;

/// Returns how many batches `threads` decoding threads prepare ahead: one that each thread fills
/// and two that are ready, at least 4 and at most kMaxPrefetchDepth. More threads would be idle.
constexpr int prefetch_depth(int threads) {
  return std::min(std::max(threads, 2), kMaxPrefetchDepth - 2) + 2;
}

struct PrefetcherOptions {
  std::int64_t batch_size = 128;  ///< of this worker
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
  /// Fraction of an epoch's images that may be damaged. A worker sees only its own share, so it
  /// fails when more than this fraction of its share is damaged. If too many are damaged in total,
  /// some worker's share exceeds it. Three are always accepted, unless this is 0.
  double max_damaged = 0.001;
  /// Creates the reader; empty: make_async_reader(). For tests that count reads.
  std::function<std::unique_ptr<AsyncReader>()> make_reader = {};
  TraceRecorder* trace = nullptr;  ///< not owned; records the threads. nullptr disables tracing
};

/// Micro-batch i of worker r has the global positions (i * W + r) * B + 0 .. B-1. Position p is in
/// epoch p / E, where E = images - images mod (W * B), and has image order(epoch, p mod E). (The
/// end of an epoch that does not fill a global batch is dropped, as in arcface_torch's sampler.)
/// order() is a pure function of (seed, epoch): see global_order.h, and order/sequential_order.h
/// for sequential reading. If the data set has stretches (Dataset::stretch()), a separate thread
/// reads the data of the next batches. A damaged image is replaced by the next undamaged one in
/// the epoch's order; the first few are logged with file and record. Batches do not depend on the
/// number of threads.
///
/// Only one thread calls next(); any thread may call recycle().
class Prefetcher {
 public:
  virtual ~Prefetcher() = default;
  /// Returns the next batch; blocks, and measures how long. nullptr after last_batch. This and
  /// every later call rethrow a thread's InputError (invalid label, too many damaged images).
  virtual std::unique_ptr<Batch> next() = 0;
  /// Returns a batch's memory for reuse.
  virtual void recycle(std::unique_ptr<Batch> batch) = 0;
};

/// Returns the bytes of all batches that exist at the same time: those ahead, and `held` batches
/// that were taken with next() and not yet recycled.
constexpr std::size_t prefetcher_bytes(int depth, int held, std::size_t batch_bytes) {
  return static_cast<std::size_t>(depth + held) * batch_bytes;
}

struct StoredImages {
  std::int64_t images = 0;
  double mean_bytes = 0;  ///< stored_bytes_of_image(); 0: no read-ahead
};
/// Returns the maximum bytes of stored images that a worker keeps in memory. This holds unless
/// images that are read together are on average a tenth larger than all.
std::size_t read_ahead_bytes(const ReadOptions& options, const StoredImages& stored,
                             std::int64_t batch_size, int world_size, int threads);

/// `dataset` is borrowed. Throws InputError when the images do not fill one global batch, or the
/// data or the buffer do not allow sequential reading.
std::unique_ptr<Prefetcher> make_prefetcher(const Dataset& dataset,
                                            const PrefetcherOptions& options);

}  // namespace pfc
