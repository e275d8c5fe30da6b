#pragma once

#include "data/pack/make_pack.hpp"
#include "data/pack/writer.hpp"

namespace trainctl::data {

/// Turns the images of a data set into what a pack holds. Called from several threads.
class ImagePacker {
 public:
  ImagePacker(const Dataset& dataset, const PackOptions& options) : dataset_(dataset), options_(options) {}

  /// All but the label. Throws Error(data) naming the image.
  void make(std::int64_t index, PackedImage& out) const;

 private:
  void convert(const StoredImage& stored, PackedImage& out) const;

  const Dataset& dataset_;
  PackOptions options_;
};

}  // namespace trainctl::data
