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

/// The most batches that are kept ahead of the training step.
inline constexpr int kMaxPrefetchDepth = 64;

/// How many batches `threads` decoding threads keep ahead: one that each thread fills and two that
/// are ready, at least 4 and at most kMaxPrefetchDepth. More threads than that have nothing to
/// fill.
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
  /// Position of first_batch; none: derived from first_batch.
  std::optional<DataPlace> start = {};
  std::int64_t last_batch = -1;  ///< one past the last; -1: without end
  int threads = 2;
  int depth = 0;  ///< batches ahead; 0: prefetch_depth(threads)
  /// Part of an epoch's images that may be damaged. A worker sees only its own share of them, so it
  /// gives up when more than this part of its share is damaged. Were too many damaged in all, some
  /// worker's share would hold too many. Three images are always accepted, unless this is 0.
  double max_damaged = 0.001;
  /// Makes the reads; empty: make_async_reader(). For tests that count them.
  std::function<std::unique_ptr<AsyncReader>()> make_reader = {};
  TraceRecorder* trace = nullptr;  ///< borrowed; records what the threads do. Null: nobody does
};

/// Micro-batch i of worker r holds the global positions (i * W + r) * B + 0 .. B-1; position p is
/// in epoch p / E, where E = images - images mod (W * B) (the last part of an epoch that does not
/// fill a global batch is dropped, as arcface_torch's sampler does), and shows image order(epoch, p
/// mod E). order() is a pure function of (seed, epoch): see global_order.h, and
/// order/sequential_order.h for sequential reading. Where the data set has stretches
/// (Dataset::stretch()), a thread of its own reads what the next batches need. A damaged image's
/// place is taken by the next whole one of the epoch's order; the first few are logged with file
/// and record. Batches are the same for any number of threads.
///
/// next() belongs to one thread, recycle() to any.
class Prefetcher {
 public:
  virtual ~Prefetcher() = default;
  /// The next batch; blocks, and measures how long. Rethrows a thread's InputError (a label outside
  /// its range, or too many damaged images), again at every further call. nullptr after last_batch.
  virtual std::unique_ptr<Batch> next() = 0;
  /// Gives a batch's memory back.
  virtual void recycle(std::unique_ptr<Batch> batch) = 0;
};

/// Bytes of all batches that exist at the same time: those ahead, and `held` that were taken with
/// next() and not yet given back.
constexpr std::size_t prefetcher_bytes(int depth, int held, std::size_t batch_bytes) {
  return static_cast<std::size_t>(depth + held) * batch_bytes;
}

struct StoredImages {
  std::int64_t images = 0;
  double mean_bytes = 0;  ///< stored_bytes_of_image(); 0: they are not read ahead
};
/// Bytes of images as stored that a worker keeps in memory: at most, unless those that it reads
/// together are on average a tenth larger than all.
std::size_t read_ahead_bytes(const ReadOptions& options, const StoredImages& stored,
                             std::int64_t batch_size, int world_size, int threads);

/// `dataset` is borrowed. Throws InputError when the images do not fill one global batch,
/// and when data or buffer do not suit sequential reading.
std::unique_ptr<Prefetcher> make_prefetcher(const Dataset& dataset,
                                            const PrefetcherOptions& options);

}  // namespace pfc
