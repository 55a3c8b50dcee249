// Measures how many images per second a host can deliver to training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/prefetch/prefetcher.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct BenchOptions {
  std::vector<int> threads;  ///< number of threads of each row of the table
  double seconds = 1;        ///< duration of each of a row's two measurements
  /// Batch size, workers, order, augmentation and seed of the loader. Measures one worker.
  PrefetcherOptions loader;
};

/// Images per second with this number of threads.
struct BenchRow {
  int threads = 0;
  /// Rate of the threads if each did only this stage. `read` reads from storage, one image at a
  /// time in random order; images that were read before may come from memory. Only `loader`
  /// includes the effects of reading ahead and of sequential reading. `copy` copies a decoded image
  /// into a batch.
  double read = 0, decode = 0, augment = 0, copy = 0;
  double loader = 0;  ///< all stages together: the rate for training
};

/// Measures the loader. Skips damaged images. Calls `progress` on the caller's thread several
/// times a second with the number of finished measurements and the total. An exception from it
/// ends the work. Throws InputError.
std::vector<BenchRow> bench_loader(const Dataset& dataset, const BenchOptions& options,
                                   const ShowProgress& progress);

/// The images that one worker of a job consumes per second.
struct Appetite {
  double images_per_second = 0;
  std::string machine;  ///< "h100 (data sheet, efficiencies assumed)"
  int workers_of_host = 1;
};

/// Returns the smallest number of threads with this rate: from the table, or extrapolated from
/// its last row. REQUIRES: rows are in rising order.
int threads_for(const std::vector<BenchRow>& rows, double images_per_second);

struct BenchReport {
  std::vector<BenchRow> rows;
  std::optional<Appetite> appetite;
};
std::string bench_text(const BenchReport& report, int cores);
std::string bench_json(const BenchReport& report, int cores);

}  // namespace pfc
