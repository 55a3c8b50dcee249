// The verbs of `pfcctl data`. Each function adds one, with its options, its help and its action.
#pragma once

#include <CLI/CLI.hpp>

namespace pfc {

void add_data_align(CLI::App& data);
void add_data_bench(CLI::App& data);
void add_data_draw_pairs(CLI::App& data);
void add_data_info(CLI::App& data);
void add_data_merge(CLI::App& data);
void add_data_pack(CLI::App& data);
void add_data_pack_pairs(CLI::App& data);
void add_data_shuffle(CLI::App& data);
void add_data_split(CLI::App& data);
void add_data_stage(CLI::App& data);
void add_data_synth(CLI::App& data);
void add_data_unpack(CLI::App& data);
void add_data_validate(CLI::App& data);

}  // namespace pfc
