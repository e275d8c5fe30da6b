#pragma once

#include "config/schema/describe.hpp"

#include <filesystem>

namespace trainctl::spec::dataset {

struct ImageFolder {
  static constexpr auto kSummary =
      "Images in one folder a class, as torchvision's ImageFolder: root/cat/1.jpg; classes are "
      "sorted by name.";

  std::filesystem::path root;
  bool allow_empty = false;
  bool follow_links = false;

  static void describe(config::Describe<ImageFolder>& options) {
    options
        .field("root", &ImageFolder::root,
               "Folder with the class folders; JPEG, PNG, WebP, BMP and TIFF files are found by "
               "their suffix. 16-bit gray PNG and TIFF images are read as their upper 8 bits.")
        .required()
        .example("data/imagenet/train");
    options.field("allow_empty", &ImageFolder::allow_empty,
                  "Whether a class folder may hold no images.");
    options.field(
        "follow_links", &ImageFolder::follow_links,
        "Whether symbolic links are followed, wherever they lead; otherwise they are an error.");
  }
};

}  // namespace trainctl::spec::dataset
