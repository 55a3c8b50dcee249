// pfcctl data: inspects, creates and converts data sets.
#include "pfcctl/data/verbs.h"
#include "pfcctl/verbs.h"

namespace pfc {

void add_data_verb(CLI::App& pfcctl) {
  CLI::App* data = pfcctl.add_subcommand("data", "Inspects, creates and converts data sets");
  data->require_subcommand(1);
  add_data_info(*data);
  add_data_bench(*data);
  add_data_validate(*data);
  add_data_clean(*data);
  add_data_review(*data);
  add_data_apply(*data);
  add_data_pack(*data);
  add_data_align(*data);
  add_data_unpack(*data);
  add_data_shuffle(*data);
  add_data_merge(*data);
  add_data_split(*data);
  add_data_pack_pairs(*data);
  add_data_draw_pairs(*data);
  add_data_stage(*data);
  add_data_synth(*data);
}

}  // namespace pfc
