// pfc-agent: starts and watches the workers of one host for a coordinator.
#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "agent/agent.h"
#include "agent/machine.h"
#include "common/error.h"
#include "common/machine/child_process.h"
#include "common/version.h"

namespace pfc {
namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;
constexpr int kSignalBase = 128;

void check_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const bool whole = colon != std::string::npos && colon > 0 && colon + 1 < address.size() &&
                     address.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (!whole) throw InputError("--coordinator '" + address + "': expected HOST:PORT");
}

int run(const AgentOptions& options) {
  boost::asio::io_context loop(1);
  std::string problem;
  std::optional<int> stopped_by;
  Agent agent(loop, options, [&](const std::string& why) {
    problem = why;
    loop.stop();
  });
  boost::asio::signal_set signals(loop, SIGINT, SIGTERM, SIGHUP);
  signals.async_wait([&](const boost::system::error_code& error, int number) {
    if (error) return;
    stopped_by = number;
    agent.end({});
  });
  loop.run();
  if (stopped_by) return kSignalBase + *stopped_by;
  if (problem.empty()) return 0;
  std::cerr << "pfc-agent: " << problem << std::endl;
  return kFailed;
}

int main_or_throw(int argc, char** argv) {
  CLI::App app("Starts and watches the workers of this host for a coordinator.", "pfc-agent");
  AgentOptions options{.host = host_name(), .worker_program = program_folder() / "pfc-worker"};
  double patience = 60;
  app.add_option("--coordinator", options.coordinator, "HOST:PORT of the coordinator")->required();
  app.add_option("--host", options.host, "This host's name in the coordinator's --hosts")
      ->capture_default_str();
  app.add_option("--patience", patience,
                 "Seconds without a coordinator after which the workers are ended")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.set_version_flag("--version", version());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw InputError(std::string(error.what()) + "; pfc-agent --help tells more");
  }
  check_address(options.coordinator);
  options.gpus = usable_gpus();
  options.patience = std::chrono::milliseconds{static_cast<std::int64_t>(patience * 1000)};
  return run(options);
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // the terminal that started it may go
  // gRPC's own messages are for its authors; errors come as our one line.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  try {
    return pfc::main_or_throw(argc, argv);
  } catch (const pfc::InputError& error) {
    std::cerr << "pfc-agent: " << error.what() << std::endl;
    return pfc::kBadInput;
  } catch (const std::exception& error) {
    std::cerr << "pfc-agent: internal error: " << error.what() << std::endl;
    return pfc::kFailed;
  }
}
