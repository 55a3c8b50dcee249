// The data of a job as one host has them: whether they can be read, and how fast.
#pragma once

#include <span>
#include <vector>

#include "worker/data/dataset.h"
#include "worker/evaluation/verification_bin.h"
#include "worker/report/check_finding.h"

namespace pfc {

/// What must be the same on all hosts: the program's version.
CheckFinding version_finding();
/// And in brief each file's content (worker/start/host_check.h).
std::vector<CheckFinding> facts_findings(const Dataset& dataset,
                                         std::span<const VerificationSet> sets);

/// Images a second that one core reads and decodes, in its own time: the best of many slices of
/// half a second. So what else runs on the host does not count. Throws DamagedImage.
double decode_speed(const Dataset& dataset);

/// Reads blocks of the largest file at random places, which the page cache does not have, and reads
/// and decodes images with one thread; each for at most half a second. An image that cannot be read
/// or decoded is a finding.
std::vector<CheckFinding> data_speed(const Dataset& dataset);

}  // namespace pfc
