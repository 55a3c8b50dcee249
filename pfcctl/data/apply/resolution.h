// Turns corrections, which may overlap, into the final label of each image.
#pragma once

#include <cstdint>
#include <span>

#include "data/mapping/overlay.h"
#include "pfcctl/data/apply/findings_reader.h"

namespace pfc {

struct Resolution {
  Overlay overlay;
  std::int64_t moved = 0;            ///< images that another identity gets one by one
  std::int64_t left_out = 0;         ///< images
  std::int64_t merged = 0;           ///< identities that become a part of another one
  std::int64_t split = 0;            ///< new identities
  std::int64_t conflicts = 0;        ///< corrections of an image that an earlier one decided
  std::int64_t kept_duplicates = 0;  ///< not left out, because of the image to keep
};

/// Resolves the corrections, the most certain first. `labels`: [images], -1 if unknown.
///
/// - What a correction says about an image goes before what another says about its identity. If two
///   are about the same image, the first one decides.
/// - Merged identities get the label of the one that has the most images (with a tie, the smallest
///   label), over any number of merges. If one of them is dropped, all are.
/// - An image that moves to an identity shares its fate: it may be merged or dropped.
/// - A duplicate is left out only if the image to keep stays.
/// - Split images get the labels `identities`, `identities` + 1 ... in the order of the splits.
///
/// A pure function. Takes about 24 bytes for each identity, and 50 for each corrected image.
Resolution resolve(std::span<const Correction> corrections, std::span<const std::int64_t> labels,
                   std::int64_t identities);

}  // namespace pfc
