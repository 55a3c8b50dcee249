// Checks whether a resumed job assigns its classes to the same people as the checkpoint's job.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// Compares the keys that decide which person a class centre belongs to: `rec`, `identities` and
/// `head_classes`. (A change of `share_identities` either changes the number of classes, or has no
/// effect.) If the same data sets come in another order, even after a move to another folder,
/// throws InputError that shows both orders. Otherwise returns a warning if the names of the data
/// sets differ, whatever folders they are in; empty if not. `checkpoint` is used in messages, and
/// `otherwise`: what to do if the order cannot change. Each job is its to_json(), possibly from an
/// older version.
std::string compare_people(const std::filesystem::path& checkpoint, const nlohmann::json& before,
                           const nlohmann::json& now,
                           std::string_view otherwise = "use another output");

/// Compares the contents of the two jobs' data sets (FileBrief). Returns a warning if images,
/// names or labels have changed, for example because a person's folder was renamed. Empty if they
/// have not, or if `before` is empty, as in an older checkpoint.
std::string compare_data(const std::filesystem::path& checkpoint,
                         const std::vector<std::string>& before,
                         const std::vector<std::string>& now);

}  // namespace pfc
