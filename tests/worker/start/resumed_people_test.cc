// Tests to which people the class centres of a resumed job belong.
#include "worker/start/resumed_people.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;

class ResumedPeople : public ::testing::Test {
 protected:
  static std::string compare(const json& before, const json& now) {
    return compare_people("out/step-000000003", before, now);
  }
  static std::string compare_recs(const json& before, const json& now) {
    return compare({{"rec", before}}, {{"rec", now}});
  }
  static std::string refusal(const json& before, const json& now) {
    return message_of<InputError>([&] { compare(before, now); });
  }
  static std::string refusal_of_recs(const json& before, const json& now) {
    return refusal({{"rec", before}}, {{"rec", now}});
  }
};

TEST_F(ResumedPeople, RejectsReorderedDataSets) {
  EXPECT_EQ(refusal_of_recs({"sy", "ppl"}, {"ppl", "sy"}),
            "rec: out/step-000000003 was trained with [\"sy\",\"ppl\"], and with [\"ppl\",\"sy\"] "
            "its class centres would belong to other people: use the checkpoint's order, or "
            "use another output");
  EXPECT_THAT(refusal_of_recs({"/a/sy", "/a/ppl"}, {"/a/ppl/", "/a/./sy/train.rec"}),
              HasSubstr("other people"));
  EXPECT_THAT(refusal_of_recs({"/a/x", "/a/x", "/a/y"}, {"/a/x", "/a/y", "/a/x"}),
              HasSubstr("other people"));
}

TEST_F(ResumedPeople, RejectsReorderedDataSetsAtNewPaths) {
  EXPECT_THAT(refusal_of_recs({"/a/sy", "/a/ppl"}, {"/b/c/ppl", "/b/c/sy"}),
              HasSubstr("other people"));
  EXPECT_THAT(refusal_of_recs({"/a/sy", "/a/ppl"}, {"/b/ppl", "/c/sy"}), HasSubstr("other people"));
  EXPECT_THAT(refusal_of_recs({"/a/sy/f.rec", "/a/ppl/f.rec"}, {"/b/ppl/f.rec", "/b/sy/f.rec"}),
              HasSubstr("other people"));
}

TEST_F(ResumedPeople, WarnsOfChangedData) {
  const auto compare_now = [](const std::vector<std::string>& before) {
    return compare_data("out/step-000000003", before, {"80 images, sha256 b"});
  };
  EXPECT_THAT(compare_now({}), IsEmpty()) << "an older checkpoint does not record its data";
  EXPECT_THAT(compare_now({"80 images, sha256 b"}), IsEmpty());
  EXPECT_EQ(compare_now({"80 images, sha256 a"}),
            "out/step-000000003 was trained on other data: 80 images, sha256 a became 80 images, "
            "sha256 b; each class continues with the centre of the same number");
}

TEST_F(ResumedPeople, AcceptsMovedDataSets) {
  EXPECT_THAT(compare_recs("/a/faces", "/b/faces"), IsEmpty());
  EXPECT_THAT(compare_recs("faces", "/b/faces/train.rec"), IsEmpty());
  EXPECT_THAT(compare_recs({"/a/sy", "/a/ppl"}, {"/b/sy", "/c/ppl"}), IsEmpty());
  EXPECT_THAT(compare_recs({"/a/x", "/b/x"}, {"/c/x", "/d/x"}), IsEmpty());
}

TEST_F(ResumedPeople, WarnsOfARenamedDataSet) {
  EXPECT_EQ(compare_recs("/a/faces", "/a/cleaned"),
            "out/step-000000003 was trained on other data: rec \"/a/faces\" became \"/a/cleaned\"; "
            "each class continues with the centre of the same number");
}

TEST_F(ResumedPeople, ComparesIdentitiesIfTheyAreShared) {
  json before{{"rec", {"a", "b"}}, {"identities", {"a.txt", "b.txt"}}, {"share_identities", true}};
  json now = before;
  now["identities"] = {"b.txt", "a.txt"};
  EXPECT_THAT(refusal(before, now), HasSubstr("identities: out/step"));
  now["identities"] = {"a.txt", "c.txt"};
  EXPECT_THAT(compare(before, now), HasSubstr("identities [\"a.txt\",\"b.txt\"] became"));
  before["share_identities"] = now["share_identities"] = false;
  EXPECT_THAT(compare(before, now), IsEmpty());
}

TEST_F(ResumedPeople, RejectsReorderedHeads) {
  const json before{{"head_classes", {10, 20}}};
  EXPECT_THAT(refusal(before, {{"head_classes", {20, 10}}}), HasSubstr("head_classes: out/step"));
  EXPECT_THAT(compare(before, {{"head_classes", {12, 18}}}),
              HasSubstr("head_classes [10,20] became [12,18]"));
  EXPECT_THAT(compare(before, {{"head_classes", json::array()}}), IsEmpty());
}

TEST_F(ResumedPeople, IgnoresKeysThatAnOlderVersionDidNotWrite) {
  EXPECT_THAT(compare(json::object(), {{"rec", {"a", "b"}}, {"head_classes", {1, 2}}}), IsEmpty());
}

}  // namespace
}  // namespace pfc
