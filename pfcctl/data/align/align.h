// Converts photographs and landmarks to aligned faces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pfcctl/data/writing.h"

namespace pfc {

struct AlignOptions {
  std::filesystem::path landmarks;  ///< lines: path of an image, then x and y of five landmarks
  std::filesystem::path images;     ///< base of the relative paths; empty: the landmarks' folder
  std::filesystem::path out;        ///< a folder, created if missing
  std::int64_t size = 112;          ///< rows and columns of a face
  int quality = 95;                 ///< JPEG quality
  int threads = 0;                  ///< 0: all cores
  double max_damaged = 0.001;
};

struct Aligned {
  std::int64_t images = 0, existing = 0;  ///< total, and those of them that existed already
  std::vector<std::string> damaged;
  bool in_columns = false;     ///< see LandmarkList
  std::int64_t exchanged = 0;  ///< see LandmarkList
};

/// Writes OUT/PATH, with the extension .jpg, for each line: the face turned, scaled and moved so
/// that its landmarks are nearest to InsightFace's (data/images/align.h). Reads the lines as
/// read_landmarks() does. The second face of an image becomes PATH-2.jpg, and so does the face of
/// a second image whose path differs only in its extension. Existing faces are not written again.
/// Writes the labels of a face2rec2 list to OUT/train.lst. Counts as damaged: an image that cannot
/// be decoded, a line without landmarks, and a face with three or more landmarks outside the
/// image. Throws InputError that names file and line for a path that leads out of `images`, and for
/// too many damaged images. Also throws InputError if `out` contains `images` or any image of the
/// list, if a face's file exists but is not an image of `size`, or if `out` has another train.lst.
/// Throws StorageError.
Aligned align_faces(const AlignOptions& options, const ShowProgress& progress);

}  // namespace pfc
