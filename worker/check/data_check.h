// The data of a job as one host has them: whether they can be read, and how fast.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/evaluation/verification_bin.h"
#include "worker/report/check_finding.h"

namespace pfc {

/// What must be the same on all hosts: the program's version.
CheckFinding version_finding();
/// And in brief each file's content (worker/start/host_check.h).
std::vector<CheckFinding> facts_findings(const Dataset& dataset, const EvaluationSets& sets);

/// How fast one core reads and decodes images that are drawn at random, and what is wrong with
/// them.
struct DecodeSpeed {
  double images_a_second = 0;  ///< of those that can be decoded; 0: none can
  std::int64_t drawn = 0, damaged = 0;
  std::string damage, wrong_label;  ///< of the first such image; empty: there is none
};

/// In the core's own time, and the best of many slices of half a second. So what else runs on the
/// host does not count.
DecodeSpeed decode_speed(const Dataset& dataset);

/// Reads blocks of the largest file at random places, which the page cache does not have, and reads
/// and decodes images with one thread; each for at most half a second. An image that cannot be read
/// or decoded is a finding. Throws InputError for a wrong label.
std::vector<CheckFinding> data_speed(const Dataset& dataset);

}  // namespace pfc
