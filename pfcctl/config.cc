// pfcctl config: converts configurations of other programs to job files.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/config/job_file.h"
#include "common/config/job_json.h"
#include "common/config/keys/arcface_torch_keys.h"
#include "common/error.h"
#include "common/log.h"
#include "common/one_line.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

void import(const std::string& file) {
  const nlohmann::json job = read_job_file(file, {});
  std::cout << json_text(job) << std::flush;
  for (const std::string& warning : ignored_key_warnings(job)) {
    print_message("pfcctl", Severity::kWarning, warning);
  }
  try {
    parse_job(job, file);
  } catch (const InputError& e) {
    print_message("pfcctl", Severity::kWarning,
                  "pfc-coordinator would refuse this job: " + std::string(e.what()));
  }
}

}  // namespace

void add_config_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("config", "Converts configurations");
  verb->require_subcommand(1);
  CLI::App* import_verb = verb->add_subcommand(
      "import",
      "Converts a configuration of arcface_torch to a job file (JSON), without running Python");
  const auto file = std::make_shared<std::string>();  // owned by the verb's callback
  import_verb
      ->add_option("file", *file,
                   "The configuration, FILE.py. Its defaults come from base.py in the same folder, "
                   "or, if that is missing, from arcface_torch's own base.py")
      ->required();
  import_verb->footer(
      "pfc-coordinator --config FILE.py reads the same files.\n"
      "Example:\n"
      "  pfcctl config import configs/ms1mv3_r50.py > job.json");
  import_verb->callback([file] { import(*file); });
}

}  // namespace pfc
