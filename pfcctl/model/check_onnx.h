// pfcctl model check-onnx.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

/// Adds the verb, which prints what of an ONNX file is beyond the limits of InsightFace's
/// competition.
void add_check_onnx(CLI::App& model);

}  // namespace pfc
