// pfcctl data synth: generates a data set of artificial people.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "common/clock.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"
#include "pfcctl/synth/synth.h"

namespace pfc {
namespace {

struct SynthFlags {
  synth::SynthOptions options;
  std::filesystem::path out;
};

void run_synth(const SynthFlags& flags) {
  const synth::SynthOptions& o = flags.options;
  const TimePoint start = Clock::now();
  synth::write_synthetic_set(o, flags.out, Progress("drawing", "images").as_function());
  std::printf(
      "%s: %lld images of %lld identities; val.bin: %lld pairs of %lld other identities "
      "(%.1f s)\n",
      flags.out.c_str(), static_cast<long long>(o.identities) * o.images_per_identity,
      static_cast<long long>(o.identities), static_cast<long long>(o.val_pairs),
      static_cast<long long>(o.val_identities), seconds_since(start));
}

}  // namespace

void add_data_synth(CLI::App& data) {
  const auto flags = std::make_shared<SynthFlags>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand(
      "synth", "Generates a training set and a verification set of artificial people");
  synth::SynthOptions& o = flags->options;
  verb->add_option("--out", flags->out,
                   "Output folder for train.rec, train.idx, property and val.bin")
      ->required();
  verb->add_option("--identities", o.identities, "Number of people in the training set")
      ->capture_default_str();
  verb->add_option("--images-per-identity", o.images_per_identity, "Images of each person")
      ->capture_default_str();
  verb->add_option("--val-identities", o.val_identities, "Number of other people, for val.bin")
      ->capture_default_str();
  verb->add_option("--val-pairs", o.val_pairs, "Number of pairs in val.bin; half are of one person")
      ->capture_default_str();
  verb->add_option("--size", o.size, "Width and height in pixels; networks need multiples of 16")
      ->capture_default_str();
  verb->add_option("--difficulty", o.difficulty,
                   "0 to 1; a higher value makes people more alike and the images of a person more "
                   "different")
      ->capture_default_str();
  verb->add_option("--seed", o.seed, "The same seed generates the same data")
      ->capture_default_str();
  verb->add_option("--threads", o.threads, "Number of threads; 0: all cores")
      ->capture_default_str();
  verb->add_flag("--force", o.replace, "Replaces an existing data set in --out");
  verb->footer(
      "Writes InsightFace's RecordIO layout, images as JPEG. Example:\n"
      "  pfcctl data synth --identities 200 --images-per-identity 30 --out /tmp/faces\n"
      "  pfc-coordinator --hosts localhost:2 --config job.json --set rec=/tmp/faces "
      "--set 'val_targets=[\"val\"]'");
  verb->callback([flags] { run_synth(*flags); });
}

}  // namespace pfc
