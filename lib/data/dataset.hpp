#pragma once

#include "data/batch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trainctl::data {

/// Where the rows of a tile go: one span a field, `indices.size()` samples each.
using Rows = std::span<const std::span<std::byte>>;

/// A random-access set of samples. `fill` is called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual const Layout& layout() const = 0;
  /// Number of classes; 0 where labels are not classes.
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  /// Samples that one thread should make in one go; 0: a whole batch (right where a sample is only copied).
  [[nodiscard]] virtual std::int64_t tile_rows() const { return 0; }
  /// Copies the samples `indices` into the rows. Throws Error(data) naming the sample.
  virtual void fill(std::span<const std::int64_t> indices, Rows rows) const = 0;
  /// Digest of the content (not of the path), for the manifest.
  [[nodiscard]] virtual std::string fingerprint() const = 0;
};

}  // namespace trainctl::data
