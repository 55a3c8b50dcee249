// pfcctl model check-onnx.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

/// Adds the verb, which checks an ONNX file against the limits of InsightFace's competition.
void add_check_onnx(CLI::App& model);

}  // namespace pfc
