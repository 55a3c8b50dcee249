#include "coordinator/program/options.h"

#include "common/command_line.h"

namespace pfc {
namespace {

// Default for jobs that may lose workers, where failures are normal.
constexpr int kElasticRestarts = 10;

void declare_hosts(CLI::App& app, Options& options) {
  app.add_option(
         "--hosts", options.hosts,
         "NAME[:SLOTS][,NAME[:SLOTS]...]: the hosts, and how many workers each starts. Without a "
         "number: one for each GPU, or one where there is no GPU")
      ->capture_default_str();
  app.add_option("--hosts-file", options.hosts_file,
                 "A file with one host a line instead: NAME, NAME:SLOTS or NAME slots=SLOTS")
      ->excludes("--hosts");
  app.add_option(
         "--hosts-from", options.hosts_from,
         "slurm, mpi or kubernetes: the hosts of this allocation, read from the environment, "
         "or those of --hosts-file. srun, mpirun or Kubernetes must start their agents, "
         "also the one of this host")
      ->transform(choice_of({"slurm", "mpi", "kubernetes"}))  // in the order of Launcher
      ->type_name("TEXT")
      ->excludes("--hosts");
  app.add_option("--join-file", options.join_file,
                 "Writes what agents join with into this file, which only this user can read, as "
                 "long as the coordinator runs: for scripts that start agents with pfc-agent "
                 "--join-file");
  app.add_flag("--beacon", options.beacon,
               "Tells agents on this machine's networks where it is, every second by UDP "
               "multicast: pfc-agent --discover finds it with no more than a token");
}

void declare_job(CLI::App& app, Options& options) {
  auto* const config =
      app.add_option("--config", options.config,
                     "The job file (JSON): runs this job and ends with it. Without it, a service "
                     "that runs one job after another, as pfcctl submit brings them")
          ->check(CLI::Validator(
              [](const std::string& path) { return path.empty() ? "expected a file" : ""; }, ""));
  app.add_option("--set", options.overrides,
                 "key=value: changes a key of the job file, for example lr=0.02 or "
                 "lr_schedule.power=2; may be given several times")
      ->allow_extra_args(false)
      ->needs(config);
}

void declare_check(CLI::App& app, Options& options) {
  auto* const check =
      app.add_flag("--check", options.check,
                   "Trains nothing: looks at all hosts as the job of --config would use them, or "
                   "without it at the hosts alone; prints what would stop or slow it (exit code 1) "
                   "and what to do about it");
  app.add_flag("--json", options.json, "What --check has found, as JSON, for programs")
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
                 "Time that a worker waits for the others in one collective before it fails")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--progress-floor", options.progress_floor,
                 "A worker for which others wait in a collective is stuck when nobody has moved "
                 "for so long at least; before the third step, and in a checkpoint, for "
                 "--collective-timeout (docs/cluster.md)")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--progress-factor", options.progress_factor,
                 "And for so many times the longest that the job's own last steps, its "
                 "checkpoints or its evaluations have taken")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--metrics-linger", options.metrics_linger,
                 "Where Prometheus reads /metrics, this program ends only when it was read once "
                 "more after the job's end, and waits at most so long; 0: it does not wait")
      ->transform(duration(true))
      ->capture_default_str();
  app.add_option("--stop-timeout", options.stop_timeout,
                 "Time for workers to write a checkpoint and end after a signal or pfcctl stop")
      ->transform(duration())
      ->capture_default_str();
}

void declare_elastic(CLI::App& app, ElasticOptions& options) {
  app.add_option("--max-restarts", options.max_restarts,
                 "How often the job goes on from its newest checkpoint after a worker, a host or a "
                 "connection has failed. Workers that have not failed keep their processes. One "
                 "restart comes back for each 10 min that bring a new checkpoint. Default: 0; with "
                 "--min-workers or --spares " +
                     std::to_string(kElasticRestarts))
      ->check(whole_number(0, 1'000'000));
  app.add_option("--min-workers", options.min_workers,
                 "The job goes on with so few workers when hosts are lost, must be free, or have "
                 "not come after --start-timeout; lost hosts join again at the next checkpoint. "
                 "Default: with all only")
      ->check(whole_number(1, 1'000'000));
  app.add_option("--max-workers", options.max_workers,
                 "The job never has more workers; further slots are spares. Default: all slots "
                 "but for the spares")
      ->check(whole_number(1, 1'000'000));
  app.add_option("--spares", options.spares,
                 "How many slots, the last of the hosts, are kept idle at first and take the place "
                 "of one that is lost")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
}

void declare_network(CLI::App& app, Options& options) {
  app.add_option("--network", options.network,
                 "The network over which workers of several hosts talk to each other: 10.0.0.0/8, "
                 "an address, or an interface such as eth0. Without it the fastest that reaches "
                 "all hosts");
  app.add_option("--token-lifetime", options.token_lifetime,
                 "How long the token in the printed join command can be exchanged: seconds, or "
                 "90min, 2h")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--address", options.address,
                 "The name or address by which agents on other machines reach this coordinator. A "
                 "name that is looked up again and again, such as that of a Kubernetes service, "
                 "lets them follow it to another machine. By default this machine's address");
}

void declare_takeover(CLI::App& app, Options& options) {
  app.add_option("--coordinator-grace", options.coordinator_grace,
                 "How long agents and workers train on when this coordinator has gone without a "
                 "word. The same command, started again until then with the same --state-dir, goes "
                 "on with them. By default 10min; 30 s for a job whose hosts are all this machine")
      ->transform(duration(true))
      ->envname("PFC_COORDINATOR_GRACE");
  app.add_option("--take-over", options.take_over,
                 "auto: goes on with the job or service of a coordinator that was killed and was "
                 "the same command; never: starts a new job or service; or the beginning of its id")
      ->capture_default_str();
  app.add_option(
         "--state-dir", options.state_dir,
         "Folder in which pfcctl finds the addresses of this user's coordinators, and where "
         "keys, tokens and the journal are kept")
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
               "The agent that this program starts on its own machine allows pfcctl chaos, as "
               "pfc-agent --allow-chaos does");
  app.footer(
      "A first SIGINT (Ctrl-C), SIGTERM or SIGHUP lets the workers write a checkpoint and end; a "
      "second one leaves them 5 s, then they are killed. A service ends in the same way with the "
      "job that\nruns; the same command continues with jobs that wait (docs/service.md).\n"
      "Exit codes: 0 completed; 1 the job failed, or workers had to be killed; 2 bad input;\n"
      "3 a host, worker or GPU was missing at the start; 130, 143, 129: ended after a\n"
      "checkpoint by SIGINT, by SIGTERM or pfcctl stop, by SIGHUP; 5: ended after a checkpoint "
      "because a\n"
      "host leaves (docs/exit-codes.md).");
}

}  // namespace pfc
