// Whether a resumed job gives its classes to the people that the checkpoint's job gave them to.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pfc {

/// Compares what decides which person a class centre belongs to: `rec`, `identities` and
/// `head_classes`. (Another `share_identities` gives another number of classes, or changes
/// nothing.) Throws InputError that names both orders where the same data sets come in another one,
/// also where all of them have moved to another folder. Otherwise returns a warning where their
/// names are others; empty: they have the same names in any folders. `checkpoint` is for the
/// messages; each job is to_json() of it, maybe that of an older version.
std::string compare_people(const std::filesystem::path& checkpoint, const nlohmann::json& before,
                           const nlohmann::json& now);

/// Compares what the data sets of the two jobs hold (FileBrief). Returns a warning if images, names
/// or labels have changed, for example because a person's folder was renamed; empty: they have not,
/// or `before` is empty, as in an older checkpoint.
std::string compare_data(const std::filesystem::path& checkpoint,
                         const std::vector<std::string>& before,
                         const std::vector<std::string>& now);

}  // namespace pfc
