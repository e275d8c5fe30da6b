#include "engine/jobs/mask_writer.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "data/image/codec/png.hpp"
#include "device/host_read.hpp"

#include <fmt/ranges.h>

#include <map>
#include <string>

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;

/// Returns the path of an image's mask in the folder of masks. Images that are not in `images`, for
/// example those of a list, have no subfolder.
fs::path mask_of(const fs::path& image, const fs::path& images) {
  const fs::path root = fs::absolute(images).lexically_normal();
  fs::path mask = fs::absolute(image).lexically_normal().lexically_relative(root);
  if (mask.empty() || *mask.begin() == "..") mask = image.filename();
  return mask.replace_extension(".png");
}

}  // namespace

MaskWriter::MaskWriter(const fs::path& folder, const data::Dataset& dataset,
                       const fs::path& images) {
  std::map<fs::path, std::string> image_of;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::string image = data::sample_name(dataset, i);
    const fs::path mask = mask_of(image, images);
    const auto [other, is_new] = image_of.emplace(mask, image);
    ENSURE(config, is_new,
           "the images {} and {} would have the same mask {}\nhint: predict them one after the "
           "other",
           other->second, image, printable(mask.string()));
    files_.push_back(folder / mask);
  }
}

void MaskWriter::add(const data::Batch& batch, const at::Tensor& logits) const {
  constexpr std::int64_t kDimensions = 4;
  ENSURE(config, logits.dim() == kDimensions && logits.size(0) >= batch.valid,
         "the output of the model must have the shape [{}, classes, height, width], got [{}]",
         batch.valid, fmt::join(logits.sizes(), ", "));
  const at::Tensor masks =
      device::copy_to_host(logits.narrow(0, 0, batch.valid).argmax(1).to(at::kByte),
                           "outputs of a batch")
          .contiguous();
  for (std::int64_t row = 0; row < batch.valid; ++row) {
    const auto position = static_cast<std::size_t>(batch.position + row * batch.position_step);
    const fs::path& file = files_.at(position);
    make_folder(file.parent_path());
    data::write_png(file, data::ImageView(masks[row].const_data_ptr<std::uint8_t>(),
                                          {masks.size(1), masks.size(2), 1}));
  }
}

}  // namespace trainctl::engine
