# Generates a C++ source that contains files, and defines FUNCTION, which returns a span of TYPE, as
# HEADER declares it:
#   cmake -DOUT=assets_data.cc -DHEADER=coordinator/web/assets.h -DTYPE=Asset -DFUNCTION=assets
#         "-DFILES=a.html|b.js" -P embed.cmake
string(REPLACE "|" ";" FILES "${FILES}")
set(arrays "")
set(rows "")
set(number 0)
foreach(file IN LISTS FILES)
  cmake_path(GET file FILENAME name)
  file(READ ${file} hex HEX)
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 hash)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," values "${hex}")
  string(APPEND arrays "const char kFile${number}[] = {${values}'\\0'};\n")
  string(APPEND rows "    {\"${name}\", \"\\\"${hash}\\\"\", {kFile${number}, ${bytes}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "// Made by cmake/embed.cmake.
#include \"${HEADER}\"

namespace pfc {
namespace {

${arrays}
const ${TYPE} kFiles[] = {
${rows}};

}  // namespace

std::span<const ${TYPE}> ${FUNCTION}() { return kFiles; }

}  // namespace pfc
")
