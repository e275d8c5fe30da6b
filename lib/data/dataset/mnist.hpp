#pragma once

#include "data/core/memory_dataset.hpp"
#include "spec/options/dataset.hpp"

namespace trainctl::data {

/// The two files of one split in MNIST's IDX format: {train,t10k}-images-idx3-ubyte and
/// -labels-idx1-ubyte, plain or with the suffix .gz; 28x28 pixels, 10 classes. `type` is the data
/// set name in error messages. All functions throw Error(data) with file, offset, found and
/// expected value, and a hint.
class IdxFiles {
 public:
  IdxFiles(const spec::dataset::Idx& options, std::string type);

  /// Reads only the two headers.
  [[nodiscard]] Facts facts() const;
  [[nodiscard]] std::shared_ptr<const Dataset> load() const;

 private:
  std::string type_;
  std::filesystem::path root_;
  std::filesystem::path images_;
  std::filesystem::path labels_;
};

}  // namespace trainctl::data
