// Whether a job can be trained as it is written, with these workers, data and device: what `pfcctl
// plan` and every worker ask before anything is allocated.
#pragma once

#include <string>
#include <vector>

#include "worker/memory/memory_plan.h"

namespace pfc {

/// Throws InputError that names the key where the device lacks the precision, a batch norm would
/// see one sample, there is one class only, also for one of separate heads, workers would have
/// none, the images do not fill a batch, or the whole job is shorter than one step or longer than a
/// billion. What is not known of the data (0 images) is not checked. Memory is checked by
/// expect_to_fit(), the image's size by plan_backbone(). Pure.
void check_job(const PlannedJob& planned);

/// With how many workers the job could be at most, by the rules of check_job(): its classes and
/// images are shared out. REQUIRES: check_job() accepts it as it is.
int most_workers(const PlannedJob& planned);

/// One line for each thing that lets a job train, but badly. Pure.
std::vector<std::string> job_warnings(const PlannedJob& planned);

}  // namespace pfc
