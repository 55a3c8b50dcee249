// Checks whether a job can be trained as written, with these workers, data and device. `pfcctl
// plan` and every worker call this before allocating anything.
#pragma once

#include <string>
#include <vector>

#include "worker/memory/memory_plan.h"

namespace pfc {

/// Throws InputError that names the key if the device lacks the precision, a batch norm would see
/// one sample, there is only one class (also for one of several separate heads), a worker would
/// have no class, the images do not fill a batch, or the job is shorter than one step or longer
/// than a billion steps. Unknown properties of the data (0 images) are not checked. expect_to_fit()
/// checks memory, and plan_backbone() the image size. Pure.
void check_job(const PlannedJob& planned);

/// Returns the maximum number of workers of the job by the rules of check_job(): its classes and
/// images are divided between workers. REQUIRES: check_job() accepts the job.
int most_workers(const PlannedJob& planned);

/// Returns one line for each setting that works but makes training worse. Pure.
std::vector<std::string> job_warnings(const PlannedJob& planned);

}  // namespace pfc
