// pfc-agent: starts and watches the workers of one host for a coordinator.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "agent/agent.h"
#include "common/command_line.h"
#include "common/error.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/machine/child_process.h"
#include "common/version.h"

namespace pfc {
namespace {

/// This host's name for itself. The coordinator's --hosts may have another one for it.
std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// The first signal ends the workers in good order, the second one kills them.
class StopSignals {
 public:
  StopSignals(boost::asio::io_context& loop, Agent& agent)
      : signals_(loop, SIGINT, SIGTERM, SIGHUP), agent_(agent) {
    wait();
  }
  [[nodiscard]] std::optional<int> first() const { return first_; }

 private:
  void wait() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      if (first_) return agent_.kill_workers();
      first_ = number;
      agent_.end({});
      wait();
    });
  }

  boost::asio::signal_set signals_;
  Agent& agent_;
  std::optional<int> first_;
};

int run_agent(const AgentOptions& options) {
  boost::asio::io_context loop(1);
  std::string problem;
  Agent agent(loop, options, [&](const std::string& why) {
    problem = why;
    loop.stop();
  });
  const StopSignals signals(loop, agent);
  loop.run();
  if (const auto signal = signals.first()) return exit_code_of_signal(*signal);
  if (problem.empty()) return kExitSuccess;
  std::cerr << message_line("pfc-agent", Severity::kError, problem, stderr_has_colour())
            << std::endl;
  return kExitFailed;
}

int run(int argc, char** argv) {
  CLI::App app("Starts and watches the workers of this host for a coordinator.", "pfc-agent");
  AgentOptions options{.host = host_name(), .worker_program = program_folder() / "pfc-worker"};
  double patience = 60;
  app.add_option("--coordinator", options.coordinator, "HOST:PORT of the coordinator")
      ->required()
      ->check(host_and_port());
  app.add_option("--host", options.host, "This host's name in the coordinator's --hosts")
      ->capture_default_str();
  app.add_option("--patience", patience,
                 "Seconds without a connection to the coordinator after which this host's workers "
                 "are ended")
      ->transform(duration())
      ->capture_default_str();
  app.footer("Exit codes: docs/exit-codes.md.");
  if (const auto done = parse_command_line(app, argc, argv)) return *done;
  options.gpus = usable_gpus();
  options.patience = std::chrono::milliseconds{static_cast<std::int64_t>(patience * 1000)};
  return run_agent(options);
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // its terminal may be closed while it runs
  // gRPC's own log is for its developers; errors are reported as messages of this program.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  return pfc::run_program("pfc-agent", [&] { return pfc::run(argc, argv); });
}
