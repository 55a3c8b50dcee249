// pfcctl model info: says what a file of a network holds.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

/// Adds the verb to `pfcctl model`.
void add_model_info(CLI::App& model);

}  // namespace pfc
