#include "worker/report/check_message.h"

#include "common/one_line.h"

namespace pfc {
namespace {

proto::CheckVerdict proto_verdict(CheckFinding::Verdict verdict) {
  switch (verdict) {
    case CheckFinding::Verdict::kOk:
      return proto::CHECK_OK;
    case CheckFinding::Verdict::kNote:
      return proto::CHECK_NOTE;
    case CheckFinding::Verdict::kSlows:
      return proto::CHECK_SLOWS;
    case CheckFinding::Verdict::kStops:
      break;
  }
  return proto::CHECK_STOPS;
}

proto::CheckComparison proto_comparison(CheckFinding::Comparison comparison) {
  switch (comparison) {
    case CheckFinding::Comparison::kSameEverywhere:
      return proto::CHECK_SAME_EVERYWHERE;
    case CheckFinding::Comparison::kAsFastAsOthers:
      return proto::CHECK_AS_FAST_AS_OTHERS;
    case CheckFinding::Comparison::kNone:
      break;
  }
  return proto::CHECK_NOT_COMPARED;
}

}  // namespace

proto::CheckFinding to_proto(const CheckFinding& finding) {
  proto::CheckFinding message;
  message.set_rank(finding.of_host ? -1 : 0);  // the coordinator knows the sender's rank
  message.set_what(one_line(finding.what));
  message.set_found(finding.found);
  message.set_expected(finding.expected);
  message.set_verdict(proto_verdict(finding.verdict));
  message.set_remedy(finding.remedy);
  message.set_value(finding.value);
  message.set_unit(finding.unit);
  message.set_comparison(proto_comparison(finding.comparison));
  message.set_otherwise(proto_verdict(finding.otherwise));
  message.set_enough(finding.enough);
  return message;
}

}  // namespace pfc
