// Overlays: small files that change labels of a data set while it is read (docs/cleaning.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/doing.h"

namespace pfc {

/// New label of an image, or of those images of an identity that have no change of their own.
struct LabelChange {
  std::int64_t of = 0;  ///< number of the image, or label of the identity, in the data set
  /// A label of the data set, or a larger number for a new identity. -1: the image is left out, or
  /// no image of the identity remains.
  std::int64_t label = -1;
};

/// The changes of one data set. 16 bytes each.
struct Overlay {
  std::filesystem::path file = {};              ///< for messages
  std::int64_t images = 0, identities = 0;      ///< of the data set
  std::vector<LabelChange> of_identities = {};  ///< ascending
  /// Ascending. New labels are never identities in of_identities: no chains.
  std::vector<LabelChange> of_images = {};
};

/// Returns the change of this image or identity; nullptr if there is none.
const LabelChange* find_change(const std::vector<LabelChange>& changes, std::int64_t of);

/// Returns a checksum of all changes, 16 hex characters.
std::string overlay_checksum(const Overlay& overlay);

/// Reads an overlay, a file of JSON lines:
///
///   {"overlay": 1, "images": 240, "identities": 60, "changes": 3}
///   {"identity": 31, "label": 12}    then identities in ascending order
///   {"identity": 40, "label": null}
///   {"image": 7, "label": null}      then images in ascending order
///
/// Throws InputError that names file and line, what was found and what was expected.
Overlay read_overlay(const std::filesystem::path& file, const Doing& doing);

/// Writes what read_overlay() reads. The file appears when it is complete. Throws StorageError.
void write_overlay(const std::filesystem::path& file, const Overlay& overlay);

/// Returns the data set with the overlay's labels and without the images that it leaves out.
/// Images keep their order, and are read as before. Identities with a change in the overlay have no
/// class; the others keep their order; new identities follow. So an identity that loses all its
/// images one by one needs a change too. If the data have names, a new identity gets one.
///
/// Reads nothing on construction. Keeps 16 bytes for each change, and 8 for each image left out and
/// each new identity. Throws InputError if the overlay belongs to other data or leaves nothing, and
/// if images have several labels. Dataset::parse() and Dataset::label() also throw InputError for
/// an unchanged image whose identity has label -1.
std::unique_ptr<Dataset> overlaid(std::unique_ptr<Dataset> dataset, Overlay overlay);

}  // namespace pfc
