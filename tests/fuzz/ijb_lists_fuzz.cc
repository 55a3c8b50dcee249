// Lists of IJB. The first byte selects one: f: landmarks, t: templates, p: pairs, g: a gallery. The
// other lists are valid.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/error.h"
#include "pfcctl/data/align/landmarks.h"
#include "pfcctl/evaluation/ijb_files.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace {

struct List {
  std::string name, good;
};

const std::map<char, List>& lists() {
  static const std::map<char, List> all{
      {'f',
       {"name_5pts_score.txt", "a.jpg 1 2 3 4 5 6 7 8 9 10 0.5\nb.jpg 1 2 3 4 5 6 7 8 9 9 1\n"}},
      {'t', {"face_tid_mid.txt", "a.jpg 7 2\nb.jpg 3 1\n"}},
      {'p', {"template_pair_label.txt", "7 3 0\n7 7 1\n"}},
      {'g', {"1N_gallery_G2.csv", "TEMPLATE_ID,SUBJECT_ID\n3,30\n7,70\n"}}};
  return all;
}

}  // namespace

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const auto& [kind, list] : lists()) all.push_back(kind + list.good);
  return all;
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  if (size == 0 || !lists().contains(static_cast<char>(data[0]))) return 0;
  std::filesystem::create_directory(folder / "meta");
  for (const auto& [kind, list] : lists()) {
    const std::string text = kind == static_cast<char>(data[0])
                                 ? std::string(reinterpret_cast<const char*>(data) + 1, size - 1)
                                 : list.good;
    pfc::testing::write_file(folder / ("meta/ijbc_" + list.name), text);
  }
  const std::string& subjects = lists().at('g').good;
  pfc::testing::write_file(folder / "meta/ijbc_1N_gallery_G1.csv", subjects);
  pfc::testing::write_file(folder / "meta/ijbc_1N_probe_mixed.csv", subjects);
  try {
    for (const pfc::IjbFace& face : pfc::read_ijb_lists(folder.path()).faces) {
      static_cast<void>(pfc::place_face(face.landmarks, 112));
    }
  } catch (const pfc::InputError&) {
  }
  return 0;
}
