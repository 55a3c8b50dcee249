// Lists of five landmarks for each face, as detectors write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "worker/data/images/align.h"

namespace pfc {

struct FaceLine {
  std::filesystem::path image;  ///< relative
  Landmarks landmarks;
  std::string problem;  ///< why there are none: "line 7: found ..."; empty: there are
};

struct LandmarkList {
  std::vector<FaceLine> faces;
  bool in_columns = false;     ///< the list has x1 .. x5 y1 .. y5, and not x1 y1 .. x5 y5
  std::int64_t exchanged = 0;  ///< faces whose left and right were exchanged, which is mended
};

/// Reads lines of the path of an image and ten numbers, separated by tabs, or by spaces or commas
/// where there is no tab. The first two lines may be headings: the number of lines, or names that
/// end with no image's ending. A line that makes no sense is a face with a `problem`. Which of the
/// two orders the list has is what most of its faces fit. Left and right eye, or corners of the
/// mouth, are exchanged where a face fits then and not before, and in a list where most faces do so
/// (it is by the person's left) wherever they fit better then. Throws InputError for a path that
/// leads out of the folder, and where there is no line.
LandmarkList read_landmarks(const std::filesystem::path& file);

}  // namespace pfc
