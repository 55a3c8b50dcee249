#include "coordinator/journal/journal_file.h"

#include <gmock/gmock.h>

#include "common/error.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

proto::JournalIdentity identity() {
  proto::JournalIdentity identity;
  identity.set_id("0123456789abcdef");
  identity.add_hosts("localhost:2");
  return identity;
}

std::string change(const std::string& key, const std::string& value) {
  proto::JournalRecord record;
  proto::JournalEntry& entry = *record.add_entries();
  entry.set_key(key);
  entry.set_value(value);
  return encode_record(record);
}

std::string removal(const std::string& key) {
  proto::JournalRecord record;
  proto::JournalEntry& entry = *record.add_entries();
  entry.set_key(key);
  entry.set_erased(true);
  return encode_record(record);
}

std::string problem_of(const std::string& bytes) {
  try {
    parse_journal(bytes, "x.journal");
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(JournalFile, ReturnsTheLastValueOfEachKey) {
  const JournalContents contents =
      parse_journal(encode_header(identity()) + change("a", "1") + change("b", "2") +
                        change("a", "3") + removal("b"),
                    "x.journal");
  EXPECT_EQ(contents.identity.id(), "0123456789abcdef");
  EXPECT_THAT(contents.values, ElementsAre(Pair("a", "3")));
  EXPECT_EQ(contents.records, 4);
  EXPECT_EQ(contents.torn_bytes, 0);
}

TEST(JournalFile, IgnoresARecordTruncatedAtAnyByte) {
  const std::string whole = encode_header(identity()) + change("a", "1");
  const std::string last = change("a", "2");
  for (std::size_t kept = 0; kept < last.size(); ++kept) {
    const auto contents = parse_journal(whole + last.substr(0, kept), "x.journal");
    EXPECT_THAT(contents.values, ElementsAre(Pair("a", "1"))) << kept;
    EXPECT_EQ(contents.torn_bytes, kept);
  }
}

TEST(JournalFile, IgnoresALastRecordWithUnwrittenBlocks) {
  std::string last = change("a", std::string(100, 'x'));
  last.replace(40, 30, 30, '\0');
  const std::string whole = encode_header(identity()) + change("a", "1");
  EXPECT_THAT(parse_journal(whole + last, "x").values, ElementsAre(Pair("a", "1")));
  EXPECT_THAT(parse_journal(whole + last + std::string(4096, '\0'), "x").values,
              ElementsAre(Pair("a", "1")));
  EXPECT_THAT(parse_journal(whole + std::string(4096, '\0'), "x").values,
              ElementsAre(Pair("a", "1")));
}

TEST(JournalFile, RefusesEveryFlippedBitBeforeTheLastRecord) {
  const std::string header = encode_header(identity());
  const std::string first = change("a", "1"), second = change("b", "2");
  const std::string whole = header + first + second;
  for (std::size_t bit = 0; bit < 8 * (header.size() + first.size()); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(problem_of(bytes), "none") << "bit " << bit;
  }
}

TEST(JournalFile, NamesTheFileAndTheOffsetOfTheDamage) {
  const std::string header = encode_header(identity());
  std::string bytes = header + change("a", "1") + change("b", "2");
  bytes[header.size() + 14] ^= 1;
  EXPECT_THAT(problem_of(bytes),
              HasSubstr("x.journal: damaged at byte " + std::to_string(header.size())));
  EXPECT_THAT(problem_of(bytes), HasSubstr("remove the file"));
}

TEST(JournalFile, RejectsAHeaderTruncatedAtAnyByte) {
  const std::string header = encode_header(identity());
  for (std::size_t kept = 0; kept < header.size(); ++kept) {
    EXPECT_NE(problem_of(header.substr(0, kept)), "none") << kept;
  }
  EXPECT_THAT(problem_of("something else"), HasSubstr("not a coordinator's journal"));
}

TEST(JournalFile, ReadsTheIdentityWithoutTheRecords) {
  const std::string bytes = encode_header(identity()) + change("a", "1");
  EXPECT_EQ(parse_identity(bytes.substr(0, bytes.size() - 3), "x").hosts(0), "localhost:2");
}

}  // namespace
}  // namespace pfc
