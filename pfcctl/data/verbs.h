// The verbs (subcommands) of `pfcctl data`. Each function adds one verb with its options, help and
// action.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

void add_data_align(CLI::App& data);
void add_data_apply(CLI::App& data);
void add_data_bench(CLI::App& data);
void add_data_clean(CLI::App& data);
void add_data_draw_pairs(CLI::App& data);
void add_data_info(CLI::App& data);
void add_data_merge(CLI::App& data);
void add_data_pack(CLI::App& data);
void add_data_pack_pairs(CLI::App& data);
void add_data_review(CLI::App& data);
void add_data_shuffle(CLI::App& data);
void add_data_split(CLI::App& data);
void add_data_stage(CLI::App& data);
void add_data_synth(CLI::App& data);
void add_data_unpack(CLI::App& data);
void add_data_validate(CLI::App& data);

}  // namespace pfc
