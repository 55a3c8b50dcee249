// Decodes an image as training and evaluation do, for image_crops.py.
//   image_crops IMAGE SIDE SHORTER REGIONS > PIXELS
// Writes REGIONS random resized crops and then the centre, each [SIDE, SIDE, 3]. Prints to stderr a
// line for each crop: top, left, height and width of the region.
#include <cstdio>
#include <string>
#include <vector>

#include "data/augment/augmenter.h"
#include "data/images/decode.h"
#include "data/images/image_file.h"

int main(int argc, char** argv) {
  using namespace pfc;
  if (argc != 5) return 2;
  ImageBuffer buffer;
  const auto encoded = read_image_file(argv[1], buffer);
  const std::int64_t side = std::stoll(argv[2]);
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(side * side * 3));
  ImageDecoder decoder;
  const ImageSize own = decoder.size(encoded);
  const Augmenter augmenter({.random_resized_crop = RandomResizedCrop{}}, /*seed=*/5);
  const auto write = [&] { std::fwrite(rgb.data(), 1, rgb.size(), stdout); };
  for (std::int64_t position = 0; position < std::stoll(argv[4]); ++position) {
    augmenter.decode(decoder, encoded, 0, position, {rgb, {side, side}});
    write();
    const ImageRegion r = augmenter.region(0, position, own);
    std::fprintf(stderr, "%lld %lld %lld %lld\n", static_cast<long long>(r.top),
                 static_cast<long long>(r.left), static_cast<long long>(r.height),
                 static_cast<long long>(r.width));
  }
  decoder.decode_centre(encoded, std::stoll(argv[3]), {side, side}, rgb);
  write();
}
