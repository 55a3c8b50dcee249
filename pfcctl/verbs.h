// The verbs (subcommands) of pfcctl. Each function adds one verb with its options, help and action.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

/// Thrown by a verb that has printed its result and ends with this exit code, for example because
/// this machine cannot train.
struct ExitStatus {
  int status = 0;
};

void add_audit_verb(CLI::App& pfcctl);
void add_chaos_verb(CLI::App& pfcctl);
void add_check_verb(CLI::App& pfcctl);
void add_config_verb(CLI::App& pfcctl);
void add_data_verb(CLI::App& pfcctl);
void add_drain_verb(CLI::App& pfcctl);
void add_embed_verb(CLI::App& pfcctl);
void add_export_verb(CLI::App& pfcctl);
void add_identify_verb(CLI::App& pfcctl);
void add_ijbc_verb(CLI::App& pfcctl);
void add_logs_verb(CLI::App& pfcctl);
void add_model_verb(CLI::App& pfcctl);
void add_plan_verb(CLI::App& pfcctl);
void add_prune_verb(CLI::App& pfcctl);
void add_queue_verb(CLI::App& pfcctl);
void add_replay_verb(CLI::App& pfcctl);
void add_status_verb(CLI::App& pfcctl);
void add_stop_verb(CLI::App& pfcctl);
void add_submit_verb(CLI::App& pfcctl);
void add_token_verb(CLI::App& pfcctl);
void add_top_verb(CLI::App& pfcctl);
void add_trace_verb(CLI::App& pfcctl);
void add_verify_verb(CLI::App& pfcctl);

// The verbs of `pfcctl model`.
void add_check_onnx(CLI::App& model);
void add_model_info(CLI::App& model);

}  // namespace pfc
