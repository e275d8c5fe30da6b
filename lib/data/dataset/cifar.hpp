#pragma once

#include "data/core/dataset.hpp"

#include <filesystem>

namespace trainctl::data {

/// One split in CIFAR's binary format: records of label bytes and 3 x 32 x 32 planes.
struct CifarSplit {
  std::string type;                // data set name in error messages
  std::string archive;             // for example cifar-10-binary.tar.gz
  std::string folder;              // root folder inside the archive
  std::vector<std::string> files;  // in sample order
  std::int64_t records = 0;        // per file
  std::int64_t label_bytes = 1;
  std::int64_t label_at = 0;  // index of the label byte to use
  std::int64_t classes = 0;
};

/// The files of a split below `root`: the unpacked files if present, else the archive. All
/// functions throw Error(data) with file, offset and a hint.
class CifarFiles {
 public:
  CifarFiles(const std::filesystem::path& root, CifarSplit split);

  /// Checks the sizes of the files without unpacking the archive.
  [[nodiscard]] Facts facts() const;
  [[nodiscard]] std::shared_ptr<const Dataset> load() const;

 private:
  void find(const std::filesystem::path& root);

  CifarSplit split_;
  std::filesystem::path root_;
  std::vector<std::filesystem::path> paths_;  // one per file, or empty when the archive is read
  std::filesystem::path archive_;
};

}  // namespace trainctl::data
