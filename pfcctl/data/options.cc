#include "pfcctl/data/options.h"

#include <cmath>
#include <string>

namespace pfc {

void add_data_set(CLI::App& verb, std::filesystem::path& data) {
  verb.add_option("data", data, "Folder of people, .lst, .tsv, .tar shards, LMDB, or .rec")
      ->required();
}

void add_threads(CLI::App& verb, int& threads) {
  verb.add_option("--threads", threads, "Number of threads; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void add_max_damaged(CLI::App& verb, double& part) {
  verb.add_option("--max-damaged", part, "Fraction of the images that may be damaged")
      ->check(part_of_one())
      ->capture_default_str();
}

void add_force(CLI::App& verb, bool& replace, const std::string& option) {
  verb.add_flag("--force", replace, "Replaces an existing data set in " + option);
}

CLI::Validator part_of_one() {
  CLI::Validator validator("FLOAT in [0 - 1]");
  validator.operation([](std::string& text) {
    double part = NAN;
    if (CLI::detail::lexical_cast(text, part) && part >= 0 && part <= 1) return std::string();
    return "found " + text + ", expected a number from 0 to 1";
  });
  return validator;
}

}  // namespace pfc
