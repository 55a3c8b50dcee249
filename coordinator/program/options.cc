#include "coordinator/program/options.h"

#include "common/command_line.h"

namespace pfc {
namespace {

// Default for jobs that may lose workers, where failures are normal.
constexpr int kElasticRestarts = 10;

void declare_hosts(CLI::App& app, Options& options) {
  app.add_option(
         "--hosts", options.hosts,
         "NAME[:SLOTS][,NAME[:SLOTS]...]: the hosts, and the number of workers on each. Without a "
         "number: one per GPU, or one if the host has no GPU")
      ->capture_default_str();
  app.add_option("--hosts-file", options.hosts_file,
                 "A file with one host per line, instead of --hosts: NAME, NAME:SLOTS or NAME "
                 "slots=SLOTS")
      ->excludes("--hosts");
  app.add_option(
         "--hosts-from", options.hosts_from,
         "slurm, mpi or kubernetes: the hosts of this allocation, read from the environment, "
         "or the hosts of --hosts-file. srun, mpirun or Kubernetes must start the agents of all "
         "hosts, including this one")
      ->transform(choice_of({"slurm", "mpi", "kubernetes"}))  // in the order of Launcher
      ->type_name("TEXT")
      ->excludes("--hosts");
  app.add_option("--join-file", options.join_file,
                 "Writes the join string to this file, which only this user can read, and keeps it "
                 "valid. For scripts that start agents with pfc-agent --join-file");
  app.add_flag("--beacon", options.beacon,
               "Announces the coordinator's address on this machine's networks, every second by "
               "UDP multicast. pfc-agent --discover then needs only a token");
}

void declare_job(CLI::App& app, Options& options) {
  auto* const config =
      app.add_option("--config", options.config,
                     "The job file (JSON): runs this job and ends with it. Without --config, runs "
                     "a service for the jobs that pfcctl submit sends, one after another")
          ->check(CLI::Validator(
              [](const std::string& path) { return path.empty() ? "expected a file" : ""; }, ""));
  app.add_option("--set", options.overrides,
                 "key=value: changes a key of the job file, for example lr=0.02 or "
                 "lr_schedule.power=2. May be repeated")
      ->allow_extra_args(false)
      ->needs(config);
}

void declare_check(CLI::App& app, Options& options) {
  auto* const check =
      app.add_flag("--check", options.check,
                   "Trains nothing. Tests all hosts as the job of --config would use them, or only "
                   "the hosts if there is no --config. Prints what would stop or slow the job "
                   "(exit code 1), and what to do");
  app.add_flag("--json", options.json, "Prints the findings of --check as JSON, for programs")
      ->needs(check);
}

void declare_ports(CLI::App& app, Options& options) {
  const auto any_port = whole_number(0, 65'535);
  app.add_option("--port", options.port, "Port for agents and workers; 0: any free one")
      ->check(any_port)
      ->capture_default_str();
  app.add_option("--http-port", options.http_port,
                 "Port of the status page and of /metrics; 0: any free one")
      ->check(any_port)
      ->capture_default_str();
}

void declare_limits(CLI::App& app, Options& options) {
  app.add_option("--start-timeout", options.start_timeout,
                 "Time for hosts to register, and for workers to join and connect: seconds, or "
                 "90s, 2min. The jobs of a service wait for their hosts without a limit")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--collective-timeout", options.collective_timeout,
                 "Timeout of a worker that waits for the others in a collective")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--progress-floor", options.progress_floor,
                 "A worker for which others wait in a collective counts as stuck if no worker has "
                 "made progress for at least this time. Before the third step, and during a "
                 "checkpoint, --collective-timeout applies instead (docs/cluster.md)")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--progress-factor", options.progress_factor,
                 "A worker counts as stuck in a step, checkpoint or evaluation only after this "
                 "many times the duration of the longest recent one")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--metrics-linger", options.metrics_linger,
                 "After the job, waits at most this long until Prometheus has read /metrics once "
                 "more. Does not wait if this is 0, or if Prometheus does not read /metrics")
      ->transform(duration(true))
      ->capture_default_str();
  app.add_option("--stop-timeout", options.stop_timeout,
                 "Time for workers to write a checkpoint and end after a signal or pfcctl stop")
      ->transform(duration())
      ->capture_default_str();
}

void declare_elastic(CLI::App& app, ElasticOptions& options) {
  app.add_option("--max-restarts", options.max_restarts,
                 "How often the job continues from its newest checkpoint after a worker, host or "
                 "connection has failed. Workers that have not failed keep their processes. A new "
                 "checkpoint gives one restart back if none was used or given back in the 10 min "
                 "before. Default: 0; with --min-workers or --spares " +
                     std::to_string(kElasticRestarts))
      ->check(whole_number(0, 1'000'000));
  app.add_option("--min-workers", options.min_workers,
                 "Minimum number of workers to continue with if hosts are lost, drained, or not "
                 "registered within --start-timeout. Lost hosts join again at the next checkpoint, "
                 "or after 10 min without one. Default: all workers")
      ->check(whole_number(1, 1'000'000));
  app.add_option("--max-workers", options.max_workers,
                 "Maximum number of workers; further slots are spares. Default: all slots except "
                 "the spares")
      ->check(whole_number(1, 1'000'000));
  app.add_option("--spares", options.spares,
                 "Number of slots, from the end of the host list, that stay idle until they "
                 "replace a lost slot")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
}

void declare_network(CLI::App& app, Options& options) {
  app.add_option("--network", options.network,
                 "The network between workers of different hosts: 10.0.0.0/8, an address, or an "
                 "interface such as eth0. Default: the fastest network that reaches all hosts");
  app.add_option("--token-lifetime", options.token_lifetime,
                 "Lifetime of the token in the printed join command: seconds, or 90min, 2h")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--address", options.address,
                 "The name or address at which agents on other machines reach this coordinator. "
                 "With a name, such as that of a Kubernetes service, agents find the coordinator "
                 "again on another machine. Default: this machine's address");
}

void declare_takeover(CLI::App& app, Options& options) {
  app.add_option("--coordinator-grace", options.coordinator_grace,
                 "How long workers keep training after this coordinator has disappeared. Within "
                 "this time, the same command with the same --state-dir takes over the job. "
                 "Default: 10min, or 30 s for a job on this machine alone")
      ->transform(duration(true))
      ->envname("PFC_COORDINATOR_GRACE");
  app.add_option("--take-over", options.take_over,
                 "auto: resumes the job or service of a killed coordinator that ran the same "
                 "command. never: starts a new job or service. Otherwise the beginning of the id "
                 "of the job or service to resume")
      ->capture_default_str();
  app.add_option(
         "--state-dir", options.state_dir,
         "Folder for the addresses of this user's coordinators, which pfcctl reads, and for keys, "
         "tokens and the journal")
      ->capture_default_str();
}

}  // namespace

int ElasticOptions::restarts() const {
  return max_restarts.value_or(may_go_on() ? kElasticRestarts : 0);
}

void declare(CLI::App& app, Options& options) {  // in the order of --help
  declare_hosts(app, options);
  declare_job(app, options);
  declare_check(app, options);
  declare_ports(app, options);
  declare_limits(app, options);
  declare_elastic(app, options.elastic);
  declare_network(app, options);
  declare_takeover(app, options);
  app.add_flag("--allow-chaos", options.allow_chaos,
               "Starts this machine's agent with --allow-chaos, which allows pfcctl chaos");
  app.footer(
      "After a first SIGINT (Ctrl-C), SIGTERM or SIGHUP the workers write a checkpoint and end.\n"
      "After a second one they have 5 s and are then killed. A service ends in the same way with\n"
      "the running job; the same command resumes the waiting jobs (docs/service.md).\n"
      "Exit codes: 0 completed; 1 the job failed, or workers had to be killed; 2 bad input;\n"
      "3 a host, worker or GPU was missing at the start; 130, 143, 129: ended after a\n"
      "checkpoint by SIGINT, by SIGTERM or pfcctl stop, by SIGHUP; 5: ended after a\n"
      "checkpoint because a host was drained (docs/exit-codes.md).");
}

}  // namespace pfc
