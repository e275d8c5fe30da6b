#pragma once

#include "config/schema/schema.hpp"
#include "data/core/batch.hpp"
#include "data/core/dataset.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::engine {

/// Returns the path of the mask of an image in the folder of masks: that of the image in the folder
/// `images`, with the suffix .png. An image in another folder has no subfolder.
std::filesystem::path mask_path(const std::string& image, const std::filesystem::path& images);

/// The same for an image of a data set. The masks of each source of a `concat` have a folder with
/// the number of the source.
std::filesystem::path mask_path(const std::string& image, const config::Stage& dataset);

/// Writes the class of each pixel that a model of pixels predicts: one gray PNG file per image,
/// with the size of the model's output and the numbers of the classes as values. A rank writes the
/// masks of the images that it reads.
class MaskWriter {
 public:
  /// `masks` has the path of each sample's mask in `folder`. Throws Error(config) if two different
  /// images have the same path.
  MaskWriter(std::filesystem::path folder, std::vector<std::filesystem::path> masks,
             const data::Dataset& dataset);

  /// Writes the valid rows of a batch; `logits` is [rows, classes, height, width]. Throws
  /// Error(config) if the model's output has another shape, Error(resource) if the disk is full.
  void add(const data::Batch& batch, const at::Tensor& logits) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> masks_;  // by the position of the image in the split
};

}  // namespace trainctl::engine
