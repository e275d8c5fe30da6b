#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "data/core/parallel.hpp"
#include "data/core/registry.hpp"
#include "data/formats/folder_scan.hpp"
#include "data/image/codec/decoder.hpp"
#include "spec/options/dataset.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace trainctl::data {
namespace {

using spec::dataset::ImageMasks;

/// Returns the path without its suffix.
std::string stem_of(std::string_view name) { return std::string(name.substr(0, name.rfind('.'))); }

/// Lists the pictures with the label 0, because data sets of files need labels. Throws
/// Error(config) for two files that differ only in their suffix.
ImageFiles pictures_in(const fs::path& folder) {
  ImageFiles files = scan_pictures(folder);
  ENSURE(data, files.files.size() > 0, "{} contains no images ({})", shown(folder),
         kImageFiles.suffixes);
  std::map<std::string, std::size_t> by_stem;
  for (std::size_t i = 0; i < files.files.size(); ++i) {
    const auto [same, is_new] = by_stem.emplace(stem_of(files.files[i]), i);
    ENSURE(config, is_new,
           "{} and {} differ only in their suffix, but an image has one mask of the same name\n"
           "hint: remove or rename one of them",
           shown(folder / files.files[same->second]), shown(folder / files.files[i]));
  }
  files.labels.rows.resize(files.files.size() * sizeof(std::int64_t));
  files.labels.classes = 1;
  return files;
}

/// Returns the masks in the order of the images. Throws Error(data) for an image without a mask.
ImageFiles masks_of(const ImageFiles& images, const ImageMasks& options) {
  const ImageFiles found = pictures_in(options.masks);
  std::map<std::string, std::size_t> by_stem;
  for (std::size_t i = 0; i < found.files.size(); ++i) by_stem[stem_of(found.files[i])] = i;
  ImageFiles masks;
  masks.labels = images.labels;
  for (std::size_t i = 0; i < images.files.size(); ++i) {
    const auto mask = by_stem.find(stem_of(images.files[i]));
    ENSURE(data, mask != by_stem.end(),
           "{} has no mask in {}\nhint: the mask of a/1.jpg is a/1.png in the folder of masks",
           shown(options.images / images.files[i]), shown(options.masks));
    masks.files.add(found.files[mask->second]);
    masks.stamps.push_back(found.stamps[mask->second]);
  }
  return masks;
}

/// Throws Error(data) for a PNG file of 16 bits, of which the decoder keeps only the upper 8.
void check_depth(std::span<const std::byte> file) {
  constexpr std::array kSignature{std::byte{0x89}, std::byte{'P'}, std::byte{'N'}, std::byte{'G'}};
  constexpr std::size_t kDepthAt = 24;
  const bool is_png =
      file.size() > kDepthAt && std::ranges::equal(kSignature, file.first(kSignature.size()));
  ENSURE(data, !is_png || file[kDepthAt] != std::byte{16},
         "the pixels of masks must have 8 bits, got 16\nhint: save masks as 8-bit gray images");
}

/// Pictures with a mask of the same size, which is the last channel of the image: transforms move
/// both together.
class MaskedImages final : public Dataset, public ImageStore {
 public:
  explicit MaskedImages(const ImageMasks& options)
      : classes_(options.classes), layout_(layout_of(options)) {
    ImageFiles images = pictures_in(options.images);
    ImageFiles masks = masks_of(images, options);
    images_ = open(options.images, std::move(images));
    masks_ = open(options.masks, std::move(masks));
  }

  [[nodiscard]] std::int64_t size() const override { return images_->size(); }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return std::ssize(classes_); }
  [[nodiscard]] std::vector<std::string> class_names() const override { return classes_; }
  [[nodiscard]] std::int64_t tile_rows() const override { return images_->tile_rows(); }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] Footprint footprint() const override {
    return {images_->footprint().memory + masks_->footprint().memory, 0};
  }
  [[nodiscard]] std::string fingerprint() const override {
    return joined(images_->fingerprint(), masks_->fingerprint());
  }
  [[nodiscard]] std::string membership() const override {
    return joined(images_->membership(), masks_->membership());
  }

  void fill(std::span<const std::int64_t> /*indices*/, Rows rows) const override {
    ASSERT(rows[0].empty());  // files differ in size, so a transform makes the pixels
    std::ranges::fill(rows[1], std::byte{0});
  }

  [[nodiscard]] std::string name(std::int64_t index) const override {
    return images_->images()->name(index);
  }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    Pool<Workspace>::Lease work(pool_);
    const ImageView image = work->image.read(images_->images()->read(index, work->stored_image));
    const std::string place = masks_->images()->name(index);
    const ImageView mask = in_context(place, [&] {
      const StoredImage stored = masks_->images()->read(index, work->stored_mask);
      check_depth(stored.bytes);
      return work->mask.read(stored);
    });
    const ImageShape& shape = image.shape;
    ENSURE(data, mask.shape.height == shape.height && mask.shape.width == shape.width,
           "the mask {} has {}x{} pixels, but the image has {}x{}", place, mask.shape.height,
           mask.shape.width, shape.height, shape.width);
    const ImageShape whole{shape.height, shape.width, shape.channels + 1};
    scratch.resize(whole.bytes());
    auto* out = reinterpret_cast<std::uint8_t*>(scratch.data());
    for (std::int64_t y = 0; y < shape.height; ++y) {
      const std::uint8_t* from = image.row(y);
      const std::uint8_t* label = mask.row(y);
      for (std::int64_t x = 0; x < shape.width; ++x, from += shape.channels) {
        out = std::copy_n(from, shape.channels, out);
        *out++ = checked(label + x * mask.shape.channels, place, x, y);
      }
    }
    return {std::span(scratch).first(whole.bytes()), whole};
  }

 private:
  struct Workspace {
    std::vector<std::byte> stored_image, stored_mask;
    PixelReader image, mask;
  };

  static Layout layout_of(const ImageMasks& options) {
    ENSURE(config, options.classes.size() <= spec::kIgnoredPixel,
           "'classes' must have at most {0} names, got {1}: a pixel of a mask is one byte, and {0} "
           "means that it does not count",
           spec::kIgnoredPixel, options.classes.size());
    return {image_field({0, 0, 4}), {spec::kPixels, Dtype::i64, {}}};
  }
  static std::shared_ptr<const Dataset> open(const fs::path& folder, ImageFiles files) {
    return image_file_dataset(DataRoot(folder, DataRoot::Links::follow), std::move(files), {});
  }
  static std::string joined(const std::string& images, const std::string& masks) {
    Hasher hasher;
    hasher.add(images);
    hasher.add(masks);
    return hasher.hex();
  }

  /// Returns the class of a pixel. The decoder has made gray pixels RGB.
  [[nodiscard]] std::uint8_t checked(const std::uint8_t* rgb, const std::string& place,
                                     std::int64_t x, std::int64_t y) const {
    ENSURE(data, rgb[0] == rgb[1] && rgb[1] == rgb[2],
           "the mask {} has a colored pixel at x {}, y {}\nhint: save masks as gray images whose "
           "values are the numbers of the classes",
           place, x, y);
    ENSURE(data, rgb[0] < classes_.size() || rgb[0] == spec::kIgnoredPixel,
           "the mask {} has the value {} at x {}, y {}, but there are {} classes: values must be "
           "from 0 to {}, or {} to ignore a pixel",
           place, rgb[0], x, y, classes_.size(), classes_.size() - 1, spec::kIgnoredPixel);
    return rgb[0];
  }

  std::vector<std::string> classes_;
  Layout layout_;
  std::shared_ptr<const Dataset> images_, masks_;
  mutable Pool<Workspace> pool_;
};

}  // namespace

void register_dataset_image_masks(Catalog& catalog) {
  catalog.datasets["image_masks"] = maker<MaskedImages, ImageMasks>();
  catalog.facts["image_masks"] = [](const config::Stage& stage) {
    const MaskedImages set(stage.as<ImageMasks>());
    return Facts{set.size(), set.classes(), set.layout(), set.class_names()};
  };
}

}  // namespace trainctl::data
