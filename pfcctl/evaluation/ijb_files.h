// The lists of IJB-B and IJB-C in the layout of InsightFace's scripts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/images/align.h"

namespace pfc {

struct IjbFace {
  std::string image;  ///< file in loose_crop/
  std::int64_t template_id = 0, medium = 0;
  Landmarks landmarks;
  float score = 0;  ///< the face detector's confidence
};

struct IjbPair {
  std::int64_t first = 0, second = 0;  ///< templates
  bool same = false;
};

/// A template and the subject that it shows.
struct IjbSubject {
  std::int64_t template_id = 0, subject = 0;
};

struct IjbLists {
  std::string set;             ///< "ijbb" or "ijbc"
  std::vector<IjbFace> faces;  ///< by template, then by medium, otherwise in the file's order
  std::vector<IjbPair> pairs;
  std::vector<std::vector<IjbSubject>> galleries;  ///< for 1:N; empty if the folder has no lists
  std::vector<IjbSubject> probes;                  ///< for 1:N; sorted, without duplicates
};

/// Reads FOLDER/meta: {ijbb,ijbc}_face_tid_mid.txt (name, template, medium), _name_5pts_score.txt
/// (name, ten coordinates, score), _template_pair_label.txt (two templates, 0 or 1), and, if
/// present, _1N_gallery_G1.csv, _G2.csv (IJB-B: S1, S2) and _1N_probe_mixed.csv (lines of
/// template, subject; the first may be a heading). The first two files must name the same images in
/// the same order, and every template must have an image. Throws InputError that names file and
/// line.
IjbLists read_ijb_lists(const std::filesystem::path& folder);

}  // namespace pfc
