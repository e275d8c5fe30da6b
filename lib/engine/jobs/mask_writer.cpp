#include "engine/jobs/mask_writer.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "data/image/codec/png.hpp"
#include "device/host_read.hpp"
#include "spec/options/dataset.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <map>

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;

/// Writes a file of the scratch folder, which is not synced to the disk.
void write_mask(const fs::path& path, const std::string& content) {
  make_folder(path.parent_path());
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ENSURE(resource, file.valid(), "cannot write {}: {}", path.string(), std::strerror(errno));
  write_all(file.get(), content, path.string());
}

}  // namespace

fs::path mask_path(const std::string& image, const fs::path& images) {
  const fs::path root = fs::absolute(images).lexically_normal();
  fs::path mask = fs::absolute(image).lexically_normal().lexically_relative(root);
  if (mask.empty() || *mask.begin() == "..") mask = fs::path(image).filename();
  return mask.replace_extension(".png");
}

fs::path mask_path(const std::string& image, const config::Stage& dataset) {
  if (const auto* pairs = dataset.get_if<spec::dataset::ImageMasks>())
    return mask_path(image, pairs->images);
  if (const auto* subset = dataset.get_if<spec::dataset::Subset>())
    return mask_path(image, subset->source);
  const std::size_t colon = image.find(':');
  const auto* concat = dataset.get_if<spec::dataset::Concat>();
  if (concat == nullptr || colon == std::string::npos)
    return fs::path(image).filename().replace_extension(".png");
  const std::string number = image.substr(0, colon);  // see the names of the data set concat
  return number / mask_path(image.substr(colon + 1), concat->sources.at(std::stoul(number)));
}

MaskWriter::MaskWriter(fs::path folder, std::vector<fs::path> masks, const data::Dataset& dataset)
    : folder_(std::move(folder)), masks_(std::move(masks)) {
  std::map<fs::path, std::string> image_of;
  for (std::size_t i = 0; i < masks_.size(); ++i) {
    const std::string image = data::sample_name(dataset, static_cast<std::int64_t>(i));
    const auto other = image_of.emplace(masks_[i], image).first;
    ENSURE(config, other->second == image,
           "the images {} and {} would have the same mask {}\nhint: rename one of them, or predict "
           "them one after the other",
           other->second, image, printable(masks_[i].string()));
  }
}

void MaskWriter::add(const data::Batch& batch, const at::Tensor& logits) const {
  constexpr std::int64_t kDimensions = 4;
  ENSURE(config, logits.dim() == kDimensions && logits.size(0) >= batch.valid,
         "the output of the model must have the shape [{}, classes, height, width], got [{}]",
         batch.valid, fmt::join(logits.sizes(), ", "));
  const at::Tensor classes =
      device::copy_to_host(logits.narrow(0, 0, batch.valid).argmax(1).to(at::kByte),
                           "outputs of a batch")
          .contiguous();
  for (std::int64_t row = 0; row < batch.valid; ++row) {
    const auto position = static_cast<std::size_t>(batch.position + row * batch.position_step);
    const data::ImageView mask(classes[row].const_data_ptr<std::uint8_t>(),
                               {classes.size(1), classes.size(2), 1});
    write_mask(folder_ / masks_.at(position), data::png_of(mask));
  }
}

}  // namespace trainctl::engine
