#include "coordinator/program/setup.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "common/config/job_file.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/machine/limits.h"
#include "common/random_id.h"
#include "coordinator/allocation/hosts.h"
#include "coordinator/sockets/listener.h"
#include "coordinator/takeover/find_journals.h"

namespace pfc {
namespace {

// Open files that the coordinator needs, besides one connection per agent and worker: its own, and
// some for pfcctl's calls. With fewer, it would close connections of workers.
constexpr std::size_t kOwnFiles = 26;

/// Returns the hosts of --hosts-file, else of the scheduler, else of --hosts.
std::vector<HostSpec> hosts_of(const Options& options) {
  if (options.hosts_from && options.join_file.empty()) {
    throw InputError(
        "--hosts-from needs --join-file FILE, in a folder that all hosts share: agents read the "
        "join string from it (pfc-agent --join-file FILE --once)");
  }
  std::vector<HostSpec> hosts = !options.hosts_file.empty() ? read_hosts_file(options.hosts_file)
                                : options.hosts_from
                                    ? allocated_hosts(*options.hosts_from, own_variable)
                                    : parse_hosts(options.hosts);
  look_up_hosts(hosts);
  return hosts;
}

/// Returns the needed limits. A host without a slot count has at least one worker.
ProcessNeeds needs_of(const std::vector<HostSpec>& hosts) {
  std::size_t files = kOwnFiles + hosts.size();
  for (const HostSpec& host : hosts) files += static_cast<std::size_t>(std::max(host.slots, 1));
  return {.files = files};
}

/// Returns the job of --config; nothing for a service.
std::optional<Job> job_of(const Options& options, const std::vector<HostSpec>& hosts) {
  if (options.is_service()) return {};
  if (options.check && options.config.empty()) {
    Job job = make_job(nlohmann::json::object(), {"the default job", {}}, 0);
    become_check(job, /*without_job=*/true);
    return job;
  }
  Job job = make_job(read_job_file(options.config, options.overrides),
                     {options.config.string(), options.overrides}, workers_of(hosts));
  if (options.check) become_check(job, /*without_job=*/false);
  return job;
}

/// Returns this machine's name in --hosts if the coordinator starts its agent; otherwise empty.
std::string own_host(const Options& options, const std::vector<HostSpec>& hosts) {
  const auto here = std::ranges::find(hosts, true, &HostSpec::local);
  return here == hosts.end() || options.hosts_from ? "" : here->name;
}

/// Throws InputError for numbers that no job can satisfy.
void check_elastic(const ElasticOptions& options, const std::vector<HostSpec>& hosts) {
  const auto expect = [](bool ok, const std::string& what) {
    if (!ok) throw InputError(what);
  };
  const int least = options.min_workers, most = options.max_workers;
  expect(most == 0 || least <= most, "--min-workers " + std::to_string(least) +
                                         " is more than --max-workers " + std::to_string(most));
  const int slots = workers_of(hosts);
  if (slots == 0) return;  // unknown until all hosts have registered
  const std::string there = " of the " + counted(slots, "slot") + " of all hosts";
  expect(options.spares < slots, "--spares " + std::to_string(options.spares) + " takes all" +
                                     there + ": no worker is left");
  expect(least + options.spares <= slots, "--min-workers " + std::to_string(least) +
                                              " and --spares " + std::to_string(options.spares) +
                                              " are together more than" + there.substr(3));
}

/// On a single machine, users expect all processes to end soon after the coordinator is killed.
std::chrono::milliseconds grace_of(const Options& options, bool all_local) {
  constexpr std::chrono::seconds kOfOneMachine{30};
  constexpr std::chrono::minutes kOfACluster{10};
  if (options.coordinator_grace) return milliseconds_of(*options.coordinator_grace);
  if (all_local && !options.is_service()) return kOfOneMachine;
  return kOfACluster;
}

CoordinatorOptions settings_of(const Options& options, const std::vector<HostSpec>& hosts) {
  CoordinatorOptions settings{.hosts = hosts,
                              .is_service = options.is_service(),
                              .local_agent_id = options.hosts_from ? "" : random_id(),
                              .rendezvous = {},
                              .network = NetworkWish(options.network)};
  settings.rendezvous.limits.start = milliseconds_of(options.start_timeout);
  settings.rendezvous.limits.pace = {.floor = milliseconds_of(options.progress_floor),
                                     .factor = options.progress_factor,
                                     .unknown = milliseconds_of(options.collective_timeout)};
  const ElasticOptions& elastic = options.elastic;
  check_elastic(elastic, hosts);
  settings.rendezvous.elastic = {.min_workers = elastic.min_workers,
                                 .max_workers = elastic.max_workers,
                                 .spares = elastic.spares};
  settings.rendezvous.max_restarts = elastic.restarts();
  settings.rendezvous.stop = milliseconds_of(options.stop_timeout);
  settings.collective_timeout = milliseconds_of(options.collective_timeout);
  return settings;
}

}  // namespace

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(seconds * 1000)};
}

Setup set_up(const Options& options) {
  Setup setup;
  setup.hosts = hosts_of(options);
  const std::vector<HostSpec>& hosts = setup.hosts;
  expect_limits(needs_of(hosts));
  setup.job = job_of(options, hosts);
  // An agent started by a scheduler does not know that it is on the coordinator's machine.
  setup.all_local = !options.hosts_from && std::ranges::all_of(hosts, &HostSpec::local);
  setup.bind = setup.all_local ? "127.0.0.1" : any_address();
  setup.reachable = setup.all_local           ? setup.bind
                    : options.address.empty() ? address_towards(hosts)
                                              : options.address;
  setup.own_host = own_host(options, hosts);
  setup.coordinator = settings_of(options, hosts);
  setup.coordinator.coordinator_grace = grace_of(options, setup.all_local);
  setup.identity =
      identity_of(hosts, options.port, setup.job ? &*setup.job : nullptr,
                  options.check ? "check" : options.config, setup.coordinator.coordinator_grace);
  // A check takes nothing over, and nothing takes over from it.
  if (options.check) setup.identity.set_job_file("check/" + setup.job->id);
  if (!setup.job) setup.identity.set_id(random_id());
  return setup;
}

}  // namespace pfc
