// Options shared by several verbs of `pfcctl data`, with the same words, bounds and defaults in
// each. The variables are borrowed and must outlive the verb.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>

namespace pfc {

/// Adds the data set that a verb reads, in any layout.
void add_data_set(CLI::App& verb, std::filesystem::path& data);
/// --threads: 0 means all cores.
void add_threads(CLI::App& verb, int& threads);
/// --max-damaged: the fraction of the images that may be damaged.
void add_max_damaged(CLI::App& verb, double& part);
/// --force: replaces the data set in the folder that `option` names.
void add_force(CLI::App& verb, bool& replace, const std::string& option = "--out");

/// Returns a validator of numbers from 0 to 1. Unlike CLI11's range check, rejects "nan".
CLI::Validator part_of_one();

}  // namespace pfc
