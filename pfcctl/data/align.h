// Photographs and landmarks to aligned faces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pfcctl/data/writing.h"

namespace pfc {

struct AlignOptions {
  std::filesystem::path landmarks;  ///< lines: path of an image, then x and y of five landmarks
  std::filesystem::path images;  ///< what the paths are relative to; empty: the landmarks' folder
  std::filesystem::path out;     ///< a folder, made where it is missing
  std::int64_t size = 112;       ///< rows and columns of a face
  int quality = 95;              ///< of the JPEG
  int threads = 0;               ///< 0: all cores
  double max_damaged = 0.001;
};

struct Aligned {
  std::int64_t images = 0, existing = 0;  ///< written, and of them those that were there already
  std::vector<std::string> damaged;
  bool in_columns = false;     ///< as in LandmarkList
  std::int64_t exchanged = 0;  ///< likewise
};

/// Writes OUT/PATH, with the ending .jpg, for each line: the face turned, scaled and moved so that
/// its landmarks come nearest to InsightFace's (data/images/align.h). The lines are read as
/// read_landmarks() says. An image with several lines has several faces: the second one is
/// PATH-2.jpg, and so is that of a second image whose name differs by its ending alone. Faces that
/// are there are not written again. The labels of a face2rec2 list are written to OUT/train.lst. An
/// image that does not decode, a line without landmarks, and
/// three or more landmarks outside the image are damaged. Throws InputError that names file and
/// line for a path that leads out of `images`, and for too many damaged images; where `out` holds
/// `images` or any image of the list; for a file in the place of a face that is no image of `size`;
/// and for another train.lst in `out`. Throws StorageError.
Aligned align_faces(const AlignOptions& options, const ShowProgress& progress);

}  // namespace pfc
