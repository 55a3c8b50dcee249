// pfcctl: what a person types beside the training itself.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "common/error.h"
#include "common/log.h"
#include "common/version.h"
#include "pfcctl/verbs.h"

namespace {

constexpr int kFailed = 1, kBadInput = 2;

int fail(const char* what, int status) {
  std::fprintf(stderr, "pfcctl: %s\n", what);
  return status;
}

int run(int argc, char** argv) {
  CLI::App app("Checks, plans, data tools and status for pfc", "pfcctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", pfc::version());
  app.get_formatter()->column_width(34);
  std::string level = "info";
  app.add_option("--log-level", level, "trace, debug, info, warning, error or off")
      ->capture_default_str();
  app.parse_complete_callback([&level] { pfc::set_up_log("", level); });
  pfc::add_check_verb(app);
  pfc::add_data_verb(app);
  pfc::add_plan_verb(app);
  pfc::add_replay_verb(app);
  pfc::add_status_verb(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const bool asked = e.get_exit_code() == 0;  // --help, --version
    return asked ? app.exit(e) : fail(e.what(), kBadInput);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const pfc::ExitStatus& e) {
    return e.status;
  } catch (const pfc::InputError& e) {
    return fail(e.what(), kBadInput);
  } catch (const std::exception& e) {
    return fail(e.what(), kFailed);
  }
}
