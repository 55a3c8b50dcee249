#include "pfcctl/data/apply/corrections.h"

#include <utility>

namespace pfc {

namespace {

CorrectionKind correction_kind(const ReadFinding& read) {
  using enum CorrectionKind;
  switch (read.finding.kind) {
    case FindingKind::kWrongLabel:
      return read.action == "move" ? kMove : kDrop;
    case FindingKind::kStranger:
      return kDrop;
    case FindingKind::kSamePerson:
      return kMerge;
    case FindingKind::kTwoPeople:
      return kSplit;
    case FindingKind::kDuplicate:
      return kDropDuplicate;
    case FindingKind::kLeaked:
      break;
  }
  return kDropIdentity;
}

}  // namespace

SelectedFindings select_findings(const std::filesystem::path& file, const SetsOfFindings& sets,
                                 std::optional<double> min_confidence) {
  SelectedFindings selected;
  read_findings(file, sets, [&](ReadFinding read) {
    Finding& f = read.finding;
    const bool certain = !read.accepted && min_confidence && f.confidence >= *min_confidence;
    std::int64_t& lines = certain          ? selected.certain
                          : !read.accepted ? selected.uncertain
                          : *read.accepted ? selected.accepted
                                           : selected.rejected;
    ++lines;
    if (!read.accepted.value_or(certain)) return;
    const bool keeps_own = f.other_image < sets.first_test_image();
    selected.corrections.push_back({.kind = correction_kind(read),
                                    .image = f.image,
                                    .other_image = keeps_own ? f.other_image : -1,
                                    .identity = f.identity,
                                    .other_identity = f.other_identity,
                                    .images = std::move(f.images)});
  });
  return selected;
}

}  // namespace pfc
