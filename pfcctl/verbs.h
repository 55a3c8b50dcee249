// What pfcctl can do: each verb registers itself with its flags, its help and what it runs.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

/// A verb that runs and finds that the answer is no (this machine cannot train) throws this: the
/// program has already said why and exits with the status.
struct ExitStatus {
  int status = 0;
};

void add_check_verb(CLI::App& pfcctl);
void add_data_verb(CLI::App& pfcctl);
void add_plan_verb(CLI::App& pfcctl);
void add_replay_verb(CLI::App& pfcctl);
void add_status_verb(CLI::App& pfcctl);

}  // namespace pfc
