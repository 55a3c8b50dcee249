// Turns corrections, which may overlap, into the final label of each image.
#pragma once

#include <cstdint>
#include <span>

#include "data/mapping/overlay.h"
#include "pfcctl/data/apply/corrections.h"

namespace pfc {

struct Resolution {
  Overlay overlay;
  std::int64_t moved = 0;            ///< images moved singly to an existing identity
  std::int64_t left_out = 0;         ///< images
  std::int64_t merged = 0;           ///< identities that become a part of another one
  std::int64_t split = 0;            ///< new identities
  std::int64_t conflicts = 0;        ///< corrections of an image that an earlier one decided
  std::int64_t kept_duplicates = 0;  ///< duplicates that are not left out
};

/// Resolves the corrections; earlier ones win. `labels`: [images], -1 if unknown.
///
/// - A correction of an image overrides corrections of its identity. If two
///   are about the same image, the first one decides.
/// - Merged identities get the label of the one that has the most images (with a tie, the smallest
///   label), over any number of merges. If one of them is dropped, all are.
/// - An image that moves to an identity shares its fate: it may be merged or dropped.
/// - A duplicate is left out only if the image to keep stays.
/// - Split images get the labels `identities`, `identities` + 1 ... in the order of the splits.
///
/// A pure function. Takes about 24 bytes for each identity, and about 100 for each corrected image.
Resolution resolve(std::span<const Correction> corrections, std::span<const std::int64_t> labels,
                   std::int64_t identities);

}  // namespace pfc
