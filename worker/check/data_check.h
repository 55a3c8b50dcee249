// Checks whether a host can read the data of a job, and how fast.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "data/dataset.h"
#include "model/evaluation/evaluation_sets.h"
#include "worker/coordinator_link/check_finding.h"

namespace pfc {

/// Returns the program's version, which must be equal on all hosts.
CheckFinding version_finding();
/// Returns a summary of each file, which must be equal on all hosts (worker/start/host_check.h).
std::vector<CheckFinding> facts_findings(const Dataset& dataset, const EvaluationSets& sets);

/// Speed at which one core reads and decodes randomly chosen images, and problems found.
struct DecodeSpeed {
  double images_a_second = 0;  ///< counts images that can be decoded; 0 if none can
  std::int64_t drawn = 0, damaged = 0;
  std::string damage, wrong_label;  ///< describes the first such image; empty if there is none
};

/// Measures the CPU time of the thread, and takes the best of many slices within half a second, so
/// other load on the host does not matter. With random_resized_crop, decodes images as that change
/// needs them.
DecodeSpeed decode_speed(const Dataset& dataset, const Augmentation& augmentation = {});

/// Drops random blocks of the largest file from the page cache and reads them, then reads and
/// decodes images with one thread; each for at most half a second. An image that cannot be read or
/// decoded becomes a finding. Throws InputError for a wrong label.
std::vector<CheckFinding> data_speed(const Dataset& dataset, const Augmentation& augmentation);

}  // namespace pfc
