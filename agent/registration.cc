#include "agent/registration.h"

#include <utility>
#include <vector>

#include "agent/network/addresses.h"
#include "common/machine/cores.h"
#include "common/version.h"

namespace pfc {
namespace {

/// Returns the devices to display: "cpu (16 cores)", "cuda:0 NVIDIA H100 80GB HBM3 (79.6 GiB)".
std::vector<std::string> list_devices(const std::vector<Gpu>& gpus, BindMode bind) {
  std::vector<std::string> devices{"cpu (" + std::to_string(usable_cores()) + " cores" +
                                   (bind == BindMode::kCores ? ", bound to workers)" : ")")};
  for (const Gpu& gpu : gpus) devices.push_back(describe(gpu));
  return devices;
}

}  // namespace

proto::AgentMessage make_registration(const AgentOptions& options, const std::string& agent_id,
                                      const std::string& certificate_request) {
  proto::AgentMessage first;
  proto::AgentRegistration* registration = first.mutable_registration();
  registration->set_host(options.host);
  registration->set_agent_id(agent_id);
  registration->set_version(version());
  registration->set_once(!options.stays);
  registration->set_cores(usable_cores());
  registration->set_threads_asked_for(threads_asked_for());
  for (std::string& device : list_devices(options.gpus.gpus, options.bind)) {
    registration->add_devices(std::move(device));
  }
  registration->set_gpus(static_cast<int>(options.gpus.gpus.size()));
  registration->set_no_gpu(options.gpus.problem);
  registration->set_worker_certificate_request(certificate_request);
  for (proto::NetworkAddress& address : network_addresses()) {
    *registration->add_addresses() = std::move(address);
  }
  return first;
}

}  // namespace pfc
