// Options that several verbs of `pfcctl data` have: the same words, bounds and defaults in each.
// The variables are borrowed, and outlive the verb.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>

namespace pfc {

/// The data set that a verb reads, of any layout.
void add_data_set(CLI::App& verb, std::filesystem::path& data);
/// --threads: 0 stands for all cores.
void add_threads(CLI::App& verb, int& threads);
/// --max-damaged: the part of the images that may be damaged.
void add_max_damaged(CLI::App& verb, double& part);
/// --force: replaces the data set that is in the folder `option` names.
void add_force(CLI::App& verb, bool& replace, const std::string& option = "--out");

/// A number from 0 to 1; not "nan", which is in every range that only asks what it is beyond.
CLI::Validator part_of_one();

}  // namespace pfc
