// pfc-agent: starts and watches the workers of one host for a coordinator.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdlib>

#include "agent/agent.h"
#include "common/command_line.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/machine/child_process.h"
#include "common/machine/descriptors.h"
#include "common/machine/event_loop.h"
#include "common/machine/exit_deadline.h"
#include "common/machine/stop_signals.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kExitLimit{20};  // for gRPC and the workers' processes to end

/// This host's name for itself. The coordinator's --hosts may have another one for it.
std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

int run_agent(const AgentOptions& options) {
  boost::asio::io_context loop(1);
  std::string problem;
  Agent agent(loop, options, [&](const std::string& why) {
    problem = why;
    loop.stop();
  });
  // The first signal ends the workers in good order, the second one kills them.
  const StopSignals signals(loop, [&agent](int, bool again) {
    if (again) return agent.kill_workers();
    agent.end({});
  });
  run_event_loop(loop, [](const std::string& what) {
    print_message("pfc-agent", Severity::kWarning, "an event was not handled: " + what);
  });
  const int code = signals.first()   ? exit_code_of_signal(*signals.first())
                   : problem.empty() ? kExitSuccess
                                     : kExitFailed;
  if (code == kExitFailed) print_message("pfc-agent", Severity::kError, problem);
  end_process_after(kExitLimit, code);
  return code;
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
  pfc::raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // its terminal may be closed while it runs
  // gRPC's own log is for its developers; errors are reported as messages of this program.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  return pfc::run_program("pfc-agent", [&] { return pfc::run(argc, argv); });
}
