// Groups of people in a verification set, whose accuracies are compared.
#pragma once

#include <filesystem>
#include <vector>

#include "model/evaluation/verification_bin.h"

namespace pfc {

/// Splits a set into one set for each group, named "SET/GROUP", in the order in which the groups
/// appear. Line k of `list` is the group of pair k. Throws InputError that names file and line, or
/// a group whose pairs are all of one kind.
std::vector<VerificationSet> split_by_group(VerificationSet set, const std::filesystem::path& list);

}  // namespace pfc
