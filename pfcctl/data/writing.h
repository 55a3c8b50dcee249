// Functions shared by the verbs that write data sets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "data/damaged_image.h"
#include "data/dataset.h"
#include "pfcctl/data/progress.h"

namespace pfc {

/// Returns one line that identifies the data set and the options. A later run continues an
/// earlier one only if it is the same.
std::string description(const char* verb, const Dataset& dataset, const nlohmann::json& options);

/// Descriptions of damaged images, by their place in the order in which images are written.
using NumberedNotes = std::map<std::int64_t, std::string>;
std::string note_text(std::int64_t place, const std::string& what);
NumberedNotes numbered_notes(const std::vector<std::string>& notes);
std::vector<std::string> values(const NumberedNotes& notes);
/// Returns the first place in the order that has not been processed: before it, `kept` images were
/// written, and the images at places with notes were skipped. Removes the notes of later places.
std::int64_t first_open_place(std::int64_t kept, NumberedNotes& notes);

/// Returns the names of labels 0 .. greatest, one per line; empty if one of them has no name.
/// Line breaks in a name become "_" (a folder's name can have them). More "_" are appended if
/// another label has that name.
std::string names_of_people(const Dataset& dataset, std::int64_t greatest);
/// Writes property, and identities.txt if the data name their people, before a train.rec is
/// written. Replaces or removes those of an earlier data set.
void write_companions(const Dataset& dataset, const std::filesystem::path& folder);

/// Throws InputError if the data are embeddings, because `verb` of pfcctl data needs images.
void expect_images(const Dataset& dataset, const std::string& verb);
/// Like expect_images(), and also throws InputError if an image has several labels, because `verb`
/// writes or compares one label per image.
void expect_labelled_images(const Dataset& dataset, const std::string& verb);

/// Returns an image's damage, preceded by its name unless the error begins with it.
std::string named_damage(const std::string& name, const DamagedImage& error);

/// Throws InputError if more than `allowed` images are damaged. `first`: damage of the first
/// damaged image.
void expect_few_damaged(std::int64_t damaged, std::int64_t images, std::int64_t allowed,
                        const std::string& first);
/// Returns the number of images that --max-damaged allows.
std::int64_t allowed_of(std::int64_t images, double part);

/// Prints the last lines of a verb: the first damaged images on stderr; on stdout the counts, the
/// destination and the duration. `decoded`: false if only the headers of the images were read.
void tell_written(const std::filesystem::path& where, std::int64_t images, std::int64_t classes,
                  const std::vector<std::string>& damaged, TimePoint start, bool decoded = false);
/// Prints the first damaged images on stderr.
void tell_damaged(const std::vector<std::string>& damaged);

/// Returns each image's label [images]; -1: the image cannot be read. Throws InputError for a
/// label outside the data set's classes, and ExitStatus after an interrupt.
std::vector<std::int64_t> labels_of(const Dataset& dataset);

/// Throws InputError if a wrong label implies more classes than could be counted one by one.
void check_classes(const DatasetInfo& info, const std::filesystem::path& in);

/// Throws InputError if the images are larger than `property` can express.
void check_image_size(const DatasetInfo& info, const std::filesystem::path& in);

/// Returns the path relative to the folder, after resolving links: "." if it is the folder
/// itself, nullopt if it is outside. Neither needs to exist.
std::optional<std::filesystem::path> way_within(const std::filesystem::path& folder,
                                                const std::filesystem::path& path);

/// Creates the folder `out` if missing. Throws InputError if it is `in` itself, the folder of the
/// file `in`, or inside a folder of people `in`, where it would count as a person. Also throws
/// InputError if `out` has a train.rec or one of its side files, unless `replace` is set or an
/// earlier run left them incomplete.
void prepare_folder(const std::filesystem::path& in, const std::filesystem::path& out,
                    bool replace);

}  // namespace pfc
