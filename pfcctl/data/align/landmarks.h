// Lists of five landmarks for each face, as detectors write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/images/align.h"

namespace pfc {

struct FaceLine {
  std::filesystem::path image;  ///< relative path
  std::string label;            ///< set for a face2rec2 list
  Landmarks landmarks;
  std::string problem;  ///< why `landmarks` is not set; empty if it is
};

struct LandmarkList {
  std::vector<FaceLine> faces;
  bool in_columns = false;     ///< the list has x1 .. x5 y1 .. y5, and not x1 y1 .. x5 y5
  std::int64_t exchanged = 0;  ///< faces whose left and right were exchanged, and corrected
};

/// Reads lines of an image path and ten numbers, or of face2rec2: 0, path, label, optionally
/// a box of four numbers, and ten numbers. Fields are separated by tabs, or by spaces or
/// commas if the line has no tab. Up to two heading lines are skipped: a line count, or a line
/// without numbers whose first field is not an image name. A malformed line becomes a face with a
/// `problem`. Detects two deviations:
/// - Column order (x1 .. x5 y1 .. y5): used if more faces fit it than fit x1 y1 .. x5 y5.
/// - Left and right exchanged (eyes, mouth or both): swapped for a face that fits only when
///   swapped. If most faces of the list need this, every face that fits better is swapped.
/// Throws InputError for a path that leads out of the folder and for a list without faces.
LandmarkList read_landmarks(const std::filesystem::path& file);

/// Returns the transform that moves the landmarks of a face to the template's in an image of
/// `size` x `size` pixels. Throws DamagedImage for landmarks that cannot be a face's: all in one
/// pixel, or far from any image.
Similarity place_face(const Landmarks& landmarks, std::int64_t size);

/// Throws DamagedImage if three or more landmarks lie outside the image by more than a tenth of its
/// size. Fewer may: the image can end within a face.
void expect_inside(const Landmarks& landmarks, ImageSize size);

}  // namespace pfc
