// Any data set to RecordIO in InsightFace's layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/records/resumable_writer.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct PackOptions {
  std::filesystem::path in;   ///< any layout (data/layouts/layout.h)
  std::filesystem::path out;  ///< a folder, made where it is missing
  std::int64_t size = 0;      ///< rows and columns of each image; 0: as they are
  int quality = 0;            ///< of the JPEG; 0: the same bytes
  int threads = 0;            ///< 0: all cores
  double max_damaged = 0.001;
  bool replace = false;  ///< a data set that is in `out` already
};

struct Packed {
  std::int64_t images = 0, classes = 0;
  std::vector<std::string> damaged;  ///< one line for each image that was left out
};

/// Writes train.rec with record 0 and identity records, train.idx, property, and identities.txt
/// where the data name their people. Images are sorted by label, those of one label keep their
/// order; their keys are 1, 2, 3 ... Without size and quality their bytes stay the same and only
/// their headers are looked at. With one of them every image is decoded, resized
/// (data/images/resize.h) and encoded as JPEG, by all threads. The files appear when they
/// are whole; where it ends before, the same call goes on (records/resumable_writer.h). `progress`
/// is called on the caller's thread with images done and all of them; what it throws ends the work.
///
/// Throws InputError: for more than 2^24 classes or images of that many, which RecordIO's float32
/// cannot tell apart, for a folder that has a data set, and for too many damaged images.
Packed pack_dataset(const PackOptions& options, const ShowProgress& progress);
/// The same of an open data set: options.in is only for messages.
Packed pack_dataset(const Dataset& dataset, const PackOptions& options,
                    const ShowProgress& progress);

/// A set whose files have not their names yet.
struct UnfinishedSet {
  Packed packed;
  std::unique_ptr<ResumableWriter> writer;
};
/// pack_dataset() in two parts. A data set that is replaced is there until the second one.
UnfinishedSet write_set(const Dataset& dataset, const PackOptions& options,
                        const ShowProgress& progress);
Packed finish_set(const Dataset& dataset, const PackOptions& options, UnfinishedSet set);

}  // namespace pfc
