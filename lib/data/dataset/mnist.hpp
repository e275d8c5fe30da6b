#pragma once

#include "data/core/dataset.hpp"
#include "data/core/memory_dataset.hpp"
#include "spec/options/dataset.hpp"

#include <memory>
#include <string>

namespace trainctl::data {

/// The two files of one split in MNIST's IDX format: {train,t10k}-images-idx3-ubyte and
/// -labels-idx1-ubyte, plain or with .gz behind the name; 28x28 pixels, 10 classes. `type` is the
/// data set's name, for the advice in errors. Every function throws Error(data) naming file,
/// offset, what was found, what was expected and how to fix it.
class IdxFiles {
 public:
  IdxFiles(const spec::dataset::Idx& options, std::string type);

  /// Reads the two headers only.
  [[nodiscard]] Facts facts() const;
  /// Reads everything.
  [[nodiscard]] std::shared_ptr<const Dataset> load() const;

 private:
  std::string type_;
  std::filesystem::path root_;
  std::filesystem::path images_;
  std::filesystem::path labels_;
};

}  // namespace trainctl::data
