#include "pfcctl/model/check_onnx.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "common/exit_codes.h"
#include "common/one_line.h"
#include "kernels/make_ops.h"
#include "model/files/onnx_file.h"
#include "model/files/onnx_limits.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

struct CheckFlags {
  std::filesystem::path file;
  std::size_t track = 0;
  bool json = false;
};

void show(const std::vector<OnnxLimit>& limits, bool as_json) {
  nlohmann::json list = nlohmann::json::array();
  for (const OnnxLimit& each : limits) {
    list.push_back({{"what", each.what},
                    {"found", each.found},
                    {"expected", each.expected},
                    {"kept", each.kept}});
    if (!as_json) {
      std::printf("%-4s %-24s %-22s expected %s\n", each.kept ? "ok" : "FAIL", each.what.c_str(),
                  one_line(each.found).c_str(), each.expected.c_str());
    }
  }
  if (as_json) std::fputs(json_text(list).c_str(), stdout);
}

void check_file(const CheckFlags& flags) {
  const onnx::ModelProto model = read_onnx(flags.file);
  check_onnx(flags.file, model);
  const auto ops = make_ops({.choice = DeviceChoice::kCpu});
  const std::vector<OnnxLimit> limits = check_limits(
      *ops, model, std::filesystem::file_size(flags.file), competition_tracks()[flags.track]);
  show(limits, flags.json);
  if (!std::ranges::all_of(limits, &OnnxLimit::kept)) throw ExitStatus{kExitBadInput};
}

}  // namespace

void add_check_onnx(CLI::App& model) {
  const auto flags = std::make_shared<CheckFlags>();  // owned by the verb's callback
  std::vector<std::string> tracks;
  for (const CompetitionTrack& each : competition_tracks()) tracks.emplace_back(each.name);
  CLI::App* verb = model.add_subcommand(
      "check-onnx", "Checks an ONNX file against the limits of InsightFace's competition");
  verb->add_option("file", flags->file, "The ONNX file")->required();
  verb->add_option("--track", flags->track, "Whose limits: ms1m, cfat, glint or unconstrained")
      ->transform(choice_of(tracks))
      ->default_str(tracks.front());
  verb->add_flag("--json", flags->json, "For programs");
  verb->footer(
      "Checks all limits except the time per image. The exit code is 2 if a limit is broken.\n"
      "Example:\n"
      "  pfcctl model check-onnx backbone.onnx --track glint");
  verb->callback([flags] { check_file(*flags); });
}

}  // namespace pfc
