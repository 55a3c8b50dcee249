// pfcctl model: inspects files of networks.
#include "pfcctl/verbs.h"

namespace pfc {

void add_model_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("model", "Inspects model files");
  verb->require_subcommand(1);
  add_check_onnx(*verb);
  add_model_info(*verb);
}

}  // namespace pfc
