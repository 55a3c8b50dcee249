// What the verbs that write data sets have in common.
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

/// One line that identifies the data set and the options. A second start goes on only where it is
/// the same.
std::string description(const char* verb, const Dataset& dataset, const nlohmann::json& options);

/// What is wrong with the images at some places of an order.
using NumberedNotes = std::map<std::int64_t, std::string>;
std::string note_text(std::int64_t place, const std::string& what);
NumberedNotes numbered_notes(const std::vector<std::string>& notes);
std::vector<std::string> values(const NumberedNotes& notes);
/// The first place of the order that nothing was done with: `kept` images before it were written,
/// and those that notes tell of were left out. Forgets notes of later places.
std::int64_t first_open_place(std::int64_t kept, NumberedNotes& notes);

/// The names of labels 0 .. greatest, a line for each; empty where one of them has no name. Ends of
/// lines in a name, which may be a folder's, become "_", and where another one is called so, it
/// gets more of them at its end.
std::string names_of_people(const Dataset& dataset, std::int64_t greatest);
/// property, and identities.txt where the data name their people, for a train.rec that comes next:
/// those of an earlier data set are replaced or removed.
void write_companions(const Dataset& dataset, const std::filesystem::path& folder);

/// Throws InputError where the data are embeddings, for a verb of pfcctl data that is for images.
void expect_images(const Dataset& dataset, const std::string& verb);

/// What is wrong with an image, with its name before it where the error does not begin with it.
std::string named_damage(const std::string& name, const DamagedImage& error);

/// Throws InputError where more images are damaged than `allowed`. first: what is wrong with the
/// first one.
void expect_few_damaged(std::int64_t damaged, std::int64_t images, std::int64_t allowed,
                        const std::string& first);
/// For --max-damaged: so many of the images.
std::int64_t allowed_of(std::int64_t images, double part);

/// The last lines of a verb: the first damaged images on stderr, and on stdout what was written
/// where, and how long it took. `decoded`: false if only the headers of the images were read.
void tell_written(const std::filesystem::path& where, std::int64_t images, std::int64_t classes,
                  const std::vector<std::string>& damaged, TimePoint start, bool decoded = false);
/// The first damaged images, on stderr.
void tell_damaged(const std::vector<std::string>& damaged);

/// [images]: each image's label; -1: the image cannot be read. Throws InputError for a label that
/// is none of the data set's. For opening a data set while Progress lives: ends at an interrupt.
std::vector<std::int64_t> labels_of(const Dataset& dataset);

/// Throws InputError where a mistaken label makes more classes than could be counted one by one.
void check_classes(const DatasetInfo& info, const std::filesystem::path& in);

/// Throws InputError where the images are larger than `property` can say.
void check_image_size(const DatasetInfo& info, const std::filesystem::path& in);

/// The path relative to the folder, after links were followed: "." where it is the folder itself,
/// nullopt where it lies outside. Neither has to be there.
std::optional<std::filesystem::path> way_within(const std::filesystem::path& folder,
                                                const std::filesystem::path& path);

/// Makes the folder `out` where it is missing. Throws InputError where it is `in` itself or the
/// folder of the file `in`, and where it lies in a folder of people `in`, of whom it would be one.
/// Also throws InputError if `out` has a train.rec or one of its side files, unless `replace` is
/// set or an earlier run left them incomplete.
void prepare_folder(const std::filesystem::path& in, const std::filesystem::path& out,
                    bool replace);

}  // namespace pfc
