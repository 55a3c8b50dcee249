#include "coordinator/allocation/kubernetes_hosts.h"

#include <charconv>

#include "common/error.h"
#include "common/launch_variables.h"

namespace pfc {
namespace {

std::string required(const Variables& variables, const char* name, const std::string& expected) {
  if (auto value = variables(name)) return *std::move(value);
  throw InputError(std::string("--hosts-from kubernetes: ") + name + " is not set; expected " +
                   expected + ", as deploy/kubernetes/job.yaml sets it");
}

int number_in_variable(const char* name, const std::string& value, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number >= 1 && number <= most) {
    return number;
  }
  throw InputError(std::string(name) + " '" + value + "': expected a number from 1 to " +
                   std::to_string(most));
}

}  // namespace

std::vector<HostSpec> kubernetes_hosts(const Variables& variables) {
  const std::string count =
      required(variables, kKubernetesPodsVariable, "the number of the agents' pods");
  const std::string job = required(variables, kKubernetesJobVariable, "the name of their Job");
  const std::string service =
      required(variables, kKubernetesServiceVariable, "the name of their headless service");
  const int pods = number_in_variable(kKubernetesPodsVariable, count, static_cast<int>(kMaxHosts));
  const auto slots = variables(kKubernetesSlotsVariable);
  const int each = slots ? number_in_variable(kKubernetesSlotsVariable, *slots, kMaxSlots) : 0;
  std::vector<HostSpec> hosts(static_cast<std::size_t>(pods));
  for (std::size_t pod = 0; pod < hosts.size(); ++pod) {
    hosts[pod].name.append(job).append("-").append(std::to_string(pod)).append(".").append(service);
    hosts[pod].slots = each;
  }
  return checked_hosts(std::string(kKubernetesJobVariable) + " '" + job + "', " +
                           kKubernetesServiceVariable + " '" + service + "'",
                       "names that form the pods' names: JOB-0.SERVICE", hosts);
}

}  // namespace pfc
