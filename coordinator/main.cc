// pfc-coordinator: runs one training job on its hosts and ends with it, or runs as a service for
// one job after another.
#include <CLI/CLI.hpp>
#include <csignal>

#include "common/command_line.h"
#include "common/machine/descriptors.h"
#include "coordinator/program/coordinator_program.h"
#include "coordinator/program/options.h"

namespace pfc {
namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Runs a training job on its hosts, and ends when the job has ended; or, as a service, one "
      "job after another.",
      "pfc-coordinator");
  Options options;
  declare(app, options);
  if (const auto done = parse_command_line(app, argc, argv)) return *done;
  return CoordinatorProgram(options).run();
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  pfc::raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // the job continues when its output is no longer read
  return pfc::run_program("pfc-coordinator", [&] { return pfc::run(argc, argv); });
}
