#pragma once

#include "data/core/batch.hpp"
#include "data/core/dataset.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <vector>

namespace trainctl::engine {

/// Writes the class of each pixel that a model of pixels predicts: one gray PNG file per image,
/// with the size of the model's output and the numbers of the classes as values. A rank writes the
/// masks of the images that it reads.
class MaskWriter {
 public:
  /// `folder` gets the masks, in the subfolders that their images have in `images`. Throws
  /// Error(config) if two images would have the same mask file.
  MaskWriter(const std::filesystem::path& folder, const data::Dataset& dataset,
             const std::filesystem::path& images);

  /// Writes the valid rows of a batch; `logits` is [rows, classes, height, width]. Throws
  /// Error(config) if the model's output has another shape, Error(resource) if the disk is full.
  void add(const data::Batch& batch, const at::Tensor& logits) const;

 private:
  std::vector<std::filesystem::path> files_;  // by the position of the image in the split
};

}  // namespace trainctl::engine
