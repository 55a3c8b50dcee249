// The verbs of `pfcctl data`. Each function adds one, with its options, its help and its action.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

void add_data_synth(CLI::App& data);

}  // namespace pfc
