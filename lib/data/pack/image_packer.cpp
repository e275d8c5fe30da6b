#include "data/pack/image_packer.hpp"

#include "base/error.hpp"
#include "data/image/codec/jpeg_write.hpp"
#include "data/image/resize.hpp"

#include <algorithm>

namespace trainctl::data {
namespace {

/// As torchvision's Resize(size), but never larger than the image.
ImageShape shrunk(const ImageShape& shape, std::optional<std::int64_t> size) {
  const std::int64_t shorter = std::min(shape.height, shape.width);
  if (!size || shorter <= *size) return shape;
  return {shape.height * *size / shorter, shape.width * *size / shorter, shape.channels};
}

ImageView resized(const ImageView& image, const ImageShape& to, std::vector<std::uint8_t>& out) {
  if (to == image.shape) return image;
  out.resize(to.bytes());
  const ResizePlan plan{ResizeAxis::whole(image.shape.height, to.height),
                        ResizeAxis::whole(image.shape.width, to.width)};
  resize(image, plan, out.data());
  return {out.data(), to};
}

/// The header's shape; nothing of a file that no decoder can read.
ImageShape told_shape(const StoredImage& stored, PixelReader& reader) {
  try {
    return reader.shape(stored);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

ImagePacker::ImagePacker(const Dataset& dataset, const PackOptions& options)
    : dataset_(dataset), options_(options) {
  const Facts facts{.layout = dataset.layout()};
  const std::int64_t channels = image_shape(*facts.image()).channels;
  ENSURE(config, options.mode != PackMode::resize || channels == 3,
         "mode 'resize' writes JPEGs, which are read with 3 channels, and these images have {}; "
         "use mode 'raw'",
         channels);
}

void ImagePacker::make(std::int64_t index, PackedImage& out) const {
  const ImageStore& images = *dataset_.images();
  Pool<Workspace>::Lease work(pool_);
  out.name = images.name(index);
  in_context(out.name, [&] {
    const StoredImage stored = images.read(index, work->stored);
    const bool keeps = options_.mode == PackMode::keep || options_.mode == PackMode::baseline;
    keeps ? keep(stored, *work, out) : convert(stored, *work, out);
  });
}

void ImagePacker::keep(const StoredImage& stored, Workspace& work, PackedImage& out) const {
  const bool file = !stored.raw.fixed();
  if (options_.on_error == OnError::skip) (void)work.reader.read(stored);  // else it is as it is
  out.shape = told_shape(stored, work.reader);
  out.format = file ? PackFormat::file : PackFormat::raw;
  out.bytes.clear();
  if (options_.mode != PackMode::keep && file && is_jpeg(stored.bytes))
    out.bytes = baseline_jpeg(stored.bytes);
  if (out.bytes.empty()) out.bytes.assign(stored.bytes.begin(), stored.bytes.end());
}

void ImagePacker::convert(const StoredImage& stored, Workspace& work, PackedImage& out) const {
  const ImageShape shape = work.reader.shape(stored);
  const ImageShape to = shrunk(shape, options_.size);
  // A second lossy compression would only lose.
  if (options_.mode == PackMode::resize && to == shape && !stored.raw.fixed())
    return keep(stored, work, out);
  const ImageView image = resized(work.reader.read(stored), to, work.resized);
  out.shape = to;
  if (options_.mode == PackMode::resize) {
    out.format = PackFormat::file;
    out.bytes = write_jpeg(image, options_.quality);
    return;
  }
  out.format = PackFormat::raw;
  const auto* pixels = reinterpret_cast<const std::byte*>(image.pixels);
  out.bytes.assign(pixels, pixels + to.bytes());
}

}  // namespace trainctl::data
