#pragma once

#include "data/core/dataset.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::data {

/// One split of a set in CIFAR's binary version: records of label bytes and 3 x 32 x 32 planes.
struct CifarSplit {
  std::string type;                // the data set's name, for the advice in errors
  std::string archive;             // cifar-10-binary.tar.gz
  std::string folder;              // where the archive unpacks to
  std::vector<std::string> files;  // in the order of their samples
  std::int64_t records = 0;        // in each file
  std::int64_t label_bytes = 1;
  std::int64_t label_at = 0;  // which of them counts
  std::int64_t classes = 0;
};

/// Where its bytes lie beneath `root`: unpacked files first, else the archive. Every function
/// throws Error(data) naming file and offset, and how to fix it.
class CifarFiles {
 public:
  CifarFiles(const std::filesystem::path& root, CifarSplit split);

  /// Looks at the sizes of the files; the archive is not unpacked for it.
  [[nodiscard]] Facts facts() const;
  [[nodiscard]] std::shared_ptr<const Dataset> load() const;

 private:
  void find(const std::filesystem::path& root);

  CifarSplit split_;
  std::filesystem::path root_;
  std::vector<std::filesystem::path> paths_;  // one for each file, or empty
  std::filesystem::path archive_;
};

}  // namespace trainctl::data
