// How many images a second a host can give to training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/prefetcher.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct BenchOptions {
  std::vector<int> threads;  ///< of each row of the table
  double seconds = 1;        ///< for each of a row's two measurements
  /// Batch size, workers, order, augmentation and seed of the loader. One worker is measured.
  PrefetcherOptions loader;
};

/// Images a second with so many threads.
struct BenchRow {
  int threads = 0;
  /// What the threads would give if they did nothing else. Read: from where the data lie, one image
  /// at a time in random order; what was read before may come from memory. Reading ahead, and
  /// sequential reading, count in `loader` only. Copy: from a decoded image into a batch.
  double read = 0, decode = 0, augment = 0, copy = 0;
  double loader = 0;  ///< all of it together: what training would get
};

/// Damaged images are left out. `progress` is called on the caller's thread with measurements done
/// and all of them, several times a second; what it throws ends the work. Throws InputError.
std::vector<BenchRow> bench_loader(const Dataset& dataset, const BenchOptions& options,
                                   const ShowProgress& progress);

/// What a worker of a job takes.
struct Appetite {
  double images_per_second = 0;
  std::string machine;  ///< "h100 (data sheet, efficiencies assumed)"
  int workers_of_host = 1;
};

/// The fewest threads whose rate is enough: of the table, or beyond it as many as the rate of its
/// last row says. REQUIRES: rows are in rising order.
int threads_for(const std::vector<BenchRow>& rows, double images_per_second);

struct BenchReport {
  std::vector<BenchRow> rows;
  std::optional<Appetite> appetite;
};
std::string bench_text(const BenchReport& report, int cores);
std::string bench_json(const BenchReport& report, int cores);

}  // namespace pfc
