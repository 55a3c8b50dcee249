// pfcctl data stage: copies a data set to faster storage.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "data/staging.h"
#include "pfcctl/data/verbs.h"
#include "pfcctl/interrupt_guard.h"

namespace pfc {

namespace fs = std::filesystem;

void add_data_stage(CLI::App& data) {
  struct Flags {
    fs::path data, where = "/dev/shm";
    bool remove = false;
  };
  const auto flags = std::make_shared<Flags>();  // owned by the verb's callback
  CLI::App* verb =
      data.add_subcommand("stage", "Copies a data set into memory or to a local disk, if it fits");
  verb->add_option("data", flags->data, "The data set: RecordIO, .tar shards, or embeddings")
      ->required();
  verb->add_option("--in", flags->where, "Folder on the faster disk")->capture_default_str();
  verb->add_flag("--remove", flags->remove, "Removes the copy instead");
  verb->footer(
      "Prints the path of the copy. A job whose \"stage\" is the same folder uses it, or creates\n"
      "it. Example:\n"
      "  pfcctl data stage /mnt/slow/faces --in /dev/shm");
  verb->callback([flags] {
    const InterruptGuard guard;  // makes Ctrl-C remove a partly copied file
    std::string told;
    const auto tell = [&](const std::string& what) {
      InterruptGuard::expect_none();
      if (what == told) return;
      std::fprintf(stderr, "%s\n", what.c_str());
      told = what;
    };
    if (flags->remove) {
      const bool removed = remove_staged(flags->data, flags->where, tell);
      std::printf("%s: %s\n", staged_folder(flags->data, flags->where).c_str(),
                  removed ? "removed" : "did not exist");
      return;
    }
    std::printf("%s\n", stage_dataset(flags->data, flags->where, tell).c_str());
  });
}

}  // namespace pfc
