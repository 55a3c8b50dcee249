// pfcctl model info: describes a model file.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

/// Adds the verb to `pfcctl model`.
void add_model_info(CLI::App& model);

}  // namespace pfc
