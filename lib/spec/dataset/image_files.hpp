#pragma once

#include "config/schema/describe.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

struct ImageList {
  static constexpr auto kSummary =
      "Images named in a table: path,label a line, or path and several numbers.";

  std::filesystem::path path;
  std::optional<std::filesystem::path> root;
  std::vector<std::string> classes;
  std::optional<std::int64_t> rows;
  bool follow_links = false;
  std::optional<std::string> group_by = {};  // set by apply_split(), never by a file

  static void describe(config::Describe<ImageList>& options) {
    options
        .field("path", &ImageList::path,
               "The list: .csv with commas, .tsv or .txt with tabs. A first line without an "
               "image's name is its head. "
               "One label is a class, by name or number; several are numbers, one target each. "
               "16-bit gray PNG and TIFF images are read as their upper 8 bits.")
        .required()
        .example("data/birds/train.csv");
    options
        .field("root", &ImageList::root, "Folder the listed paths are in, when not the list's own.")
        .example("data/birds/images");
    options
        .field("classes", &ImageList::classes,
               "Class names in the order of their numbers; otherwise the names in the list, "
               "sorted. Give it where train "
               "and val do not hold the same classes.")
        .example("[crow, owl]");
    options
        .field("rows", &ImageList::rows,
               "Number of samples the list must have: finds a list that was cut off.")
        .at_least(1)
        .example("50000");
    options.field("follow_links", &ImageList::follow_links,
                  "Whether symbolic links and paths that lead out of the root are followed; "
                  "otherwise an error.");
  }
};

}  // namespace trainctl::spec::dataset
