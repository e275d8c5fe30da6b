#pragma once

#include "data/core/workspace_pool.hpp"
#include "data/image/codec/pixel_reader.hpp"
#include "data/pack/make_pack.hpp"
#include "data/pack/pack_writer.hpp"

namespace trainctl::data {

/// Turns the images of a data set into what a pack holds. Called from several threads.
class ImagePacker {
 public:
  /// Throws Error(config) where the images do not suit the mode.
  ImagePacker(const Dataset& dataset, const PackOptions& options);

  /// All but the label. Throws Error(data) naming the image.
  void make(std::int64_t index, PackedImage& out) const;

 private:
  struct Workspace {
    std::vector<std::byte> stored;
    PixelReader reader;
    std::vector<std::uint8_t> resized;
  };

  void keep(const StoredImage& stored, Workspace& work, PackedImage& out) const;
  void convert(const StoredImage& stored, Workspace& work, PackedImage& out) const;

  const Dataset& dataset_;
  PackOptions options_;
  mutable Pool<Workspace> pool_;
};

}  // namespace trainctl::data
