#include "data/pack/image_packer.hpp"

#include "base/error.hpp"
#include "data/image/jpeg_write.hpp"

namespace trainctl::data {

void ImagePacker::make(std::int64_t index, PackedImage& out) const {
  const ImageStore& images = *dataset_.images();
  out.name = images.name(index);
  in_context(out.name, [&] {
    std::vector<std::byte> scratch;
    convert(images.read(index, scratch), out);
  });
}

void ImagePacker::convert(const StoredImage& stored, PackedImage& out) const {
  out.shape = stored.raw;
  out.format = stored.raw.fixed() ? PackFormat::raw : PackFormat::file;
  out.bytes.clear();
  if (options_.mode == PackMode::baseline && is_jpeg(stored.bytes) && !stored.raw.fixed()) {
    out.bytes = baseline_jpeg(stored.bytes);
  }
  if (out.bytes.empty()) out.bytes.assign(stored.bytes.begin(), stored.bytes.end());
}

}  // namespace trainctl::data
