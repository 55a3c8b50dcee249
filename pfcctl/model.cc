// pfcctl model: inspects files of networks.
#include "pfcctl/model/check_onnx.h"
#include "pfcctl/model/info.h"
#include "pfcctl/verbs.h"

namespace pfc {

void add_model_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("model", "Looks at files of networks");
  verb->require_subcommand(1);
  add_check_onnx(*verb);
  add_model_info(*verb);
}

}  // namespace pfc
