// pfcctl data: looks at data sets, makes them and changes them.
#include "pfcctl/data/verbs.h"
#include "pfcctl/verbs.h"

namespace pfc {

void add_data_verb(CLI::App& pfcctl) {
  CLI::App* data = pfcctl.add_subcommand("data", "Looks at data sets, makes and changes them");
  data->require_subcommand(1);
  add_data_synth(*data);
}

}  // namespace pfc
