// Converts any data set to RecordIO in InsightFace's layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/records/writing/resumable_writer.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct PackOptions {
  std::filesystem::path in;   ///< any layout (data/layouts/layout.h)
  std::filesystem::path out;  ///< a folder, created if missing
  std::int64_t size = 0;      ///< rows and columns of each image; 0: unchanged
  int quality = 0;            ///< JPEG quality; 0: unchanged bytes
  int threads = 0;            ///< 0: all cores
  double max_damaged = 0.001;
  bool replace = false;  ///< replace an existing data set in `out`
};

struct Packed {
  std::int64_t images = 0, classes = 0;
  std::vector<std::string> damaged;  ///< one line for each skipped image
};

/// Writes train.rec with record 0 and identity records, train.idx, property, and identities.txt if
/// the data name their people. Images are sorted by label; those of one label keep their order.
/// Their keys are 1, 2, 3 ... If size and quality are 0, the images' bytes stay the same and only
/// their headers are read. Otherwise every image is decoded, resized (data/images/resize.h) and
/// encoded as JPEG, by all threads. The files appear when they are complete; after an interruption
/// the same call continues (records/writing/resumable_writer.h). `progress` is called on the
/// caller's thread; an exception from it ends the work.
///
/// Throws InputError for more than 2^24 classes or images, because RecordIO's float32 cannot
/// represent larger numbers exactly. Also throws InputError for a folder that has a data set, and
/// for too many damaged images.
Packed pack_dataset(const PackOptions& options, const ShowProgress& progress);
/// The same for an open data set: options.in is used only in messages.
Packed pack_dataset(const Dataset& dataset, const PackOptions& options,
                    const ShowProgress& progress);

/// A set whose files do not have their final names yet.
struct UnfinishedSet {
  Packed packed;
  std::unique_ptr<ResumableWriter> writer;
};
/// pack_dataset() in two parts. A data set that is to be replaced stays until finish_set().
UnfinishedSet write_set(const Dataset& dataset, const PackOptions& options,
                        const ShowProgress& progress);
Packed finish_set(const Dataset& dataset, const PackOptions& options, UnfinishedSet set);

}  // namespace pfc
