#include "agent/host_name.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "common/launch_variables.h"

namespace pfc {
namespace {

std::string scheduler_variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
  return value == nullptr ? "" : value;
}

}  // namespace

std::string scheduled_host_name() {
  if (std::string node = scheduler_variable("SLURMD_NODENAME"); !node.empty()) return node;
  const std::string job = scheduler_variable(kKubernetesJobVariable);
  const std::string index = scheduler_variable("JOB_COMPLETION_INDEX");
  if (!job.empty() && !index.empty()) return job + "-" + index;
  if (std::string node = scheduler_variable("PMIX_HOSTNAME"); !node.empty()) return node;
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace pfc
