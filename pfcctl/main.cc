// pfcctl: commands to prepare, watch and control training.
#include <CLI/CLI.hpp>
#include <string>

#include "common/command_line.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "pfcctl/verbs.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Submits, shows and stops jobs; checks machines, plans memory, converts data, evaluates and "
      "exports models",
      "pfcctl");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  std::string level = "info";
  app.add_option("--log-level", level, "trace, debug, info, warning, error or off")
      ->capture_default_str();
  app.parse_complete_callback([&level] { pfc::set_up_log("pfcctl", level); });
  pfc::add_check_verb(app);
  pfc::add_config_verb(app);
  pfc::add_data_verb(app);
  pfc::add_export_verb(app);
  pfc::add_model_verb(app);
  pfc::add_verify_verb(app);
  pfc::add_ijbc_verb(app);
  pfc::add_identify_verb(app);
  pfc::add_embed_verb(app);
  pfc::add_prune_verb(app);
  pfc::add_plan_verb(app);
  pfc::add_replay_verb(app);
  pfc::add_submit_verb(app);
  pfc::add_queue_verb(app);
  pfc::add_status_verb(app);
  pfc::add_top_verb(app);
  pfc::add_trace_verb(app);
  pfc::add_logs_verb(app);
  pfc::add_stop_verb(app);
  pfc::add_drain_verb(app);
  pfc::add_token_verb(app);
  pfc::add_audit_verb(app);
  pfc::add_chaos_verb(app);
  app.footer("Exit codes: docs/exit-codes.md.");
  try {
    return pfc::parse_command_line(app, argc, argv).value_or(pfc::kExitSuccess);
  } catch (const pfc::ExitStatus& exit) {
    return exit.status;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return pfc::run_program("pfcctl", [&] { return run(argc, argv); });
}
