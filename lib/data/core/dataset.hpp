#pragma once

#include "data/core/batch.hpp"
#include "data/image/image.hpp"

#include <limits>
#include <memory>

namespace trainctl::data {

class FileReader;

/// Where the rows of a tile go: one span a field, `indices.size()` samples each.
using Rows = std::span<const std::span<std::byte>>;

/// What is known of a data set from its headers alone.
struct Facts {
  std::int64_t samples = 0;
  std::int64_t classes = 0;  // 0 where labels are not classes
  Layout layout;             // an image of height and width 0: each sample has its own
  /// In the order of their numbers; empty where nobody named them.
  std::vector<std::string> class_names = {};
  std::vector<std::string> feature_names = {};  // of a table, in their order

  /// The image's field; nullptr where the samples have none.
  [[nodiscard]] const Field* image() const;
};

/// An image as its data set keeps it: a file of some format, or, where `raw` is not empty, the
/// pixels themselves.
struct StoredImage {
  std::span<const std::byte> bytes;
  ImageShape raw;
};

class ImageRanges;

/// The images of a data set one at a time, before any transform. Called from several threads.
class ImageStore {
 public:
  virtual ~ImageStore() = default;
  /// The bytes lie in `scratch` or in the store. Throws Error(data).
  [[nodiscard]] virtual StoredImage read(std::int64_t index,
                                         std::vector<std::byte>& scratch) const = 0;
  /// What a person would call the sample: a path, an entry of an archive, or "sample 7".
  [[nodiscard]] virtual std::string name(std::int64_t index) const;
  /// Begins to bring the sample near, if that costs nothing.
  virtual void prefetch(std::int64_t /*index*/) const {}
  /// Where the images lie in files as they are read; nullptr where they do not.
  [[nodiscard]] virtual const ImageRanges* ranges() const { return nullptr; }
};

/// Bytes that an open data set holds, without those of a cache.
struct Footprint {
  std::uint64_t memory = 0;
  std::uint64_t mapped = 0;  // of files: processes share their pages, and they give way
};

/// A data set whose samples may still have to come to this machine. Called from several threads.
class Fetchable {
 public:
  virtual ~Fetchable() = default;
  /// Brings what the sample needs; returns its bytes. Throws Error.
  virtual std::uint64_t fetch(std::int64_t index) const = 0;
  /// The path of the file that the sample lies in; not every one need be remote.
  [[nodiscard]] virtual std::string object(std::int64_t index) const = 0;
};

/// A random-access set of samples. Called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The image field, if any, is called "image".
  [[nodiscard]] virtual const Layout& layout() const = 0;
  /// Number of classes; 0 where labels are not classes.
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  /// In the order of their numbers; empty where nobody named them.
  [[nodiscard]] virtual std::vector<std::string> class_names() const { return {}; }
  /// Samples that one thread should make in one go; 0: a whole batch, for samples that are copied.
  [[nodiscard]] virtual std::int64_t tile_rows() const { return 0; }
  /// Samples lie in memory already, or in a mapped file: a cache would gain nothing.
  [[nodiscard]] virtual bool in_memory() const { return false; }
  [[nodiscard]] virtual Footprint footprint() const { return {}; }
  /// Copies the samples `indices` into the rows. An empty span: the field is not wanted, such as an
  /// image that is taken from images(). Throws Error(data) naming the sample.
  virtual void fill(std::span<const std::int64_t> indices, Rows rows) const = 0;
  /// Required where the layout has an image: the way in for transforms.
  [[nodiscard]] virtual const ImageStore* images() const { return nullptr; }
  /// Null where all samples are on this machine.
  [[nodiscard]] virtual const Fetchable* fetchable() const { return nullptr; }
  /// Digest of the content (not of the path), for the manifest.
  [[nodiscard]] virtual std::string fingerprint() const = 0;
};

/// What a person would call a sample of the data set.
std::string sample_name(const Dataset& dataset, std::int64_t index);

/// Consecutive bytes of one of the files of a data set.
struct FileRange {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Images that lie in files, each in one piece, so that they can be read long before they are
/// wanted. Called from several threads.
class ImageRanges {
 public:
  virtual ~ImageRanges() = default;
  /// Of all images.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  [[nodiscard]] virtual FileRange range(std::int64_t index) const = 0;
  /// Throws Error(data), also where the file has changed since it was listed.
  [[nodiscard]] virtual FileReader open(std::size_t file) const = 0;
  /// The image in the bytes of its range. Throws Error(data) where they are damaged.
  [[nodiscard]] virtual StoredImage image(std::int64_t index,
                                          std::span<const std::byte> bytes) const = 0;
};

/// What the numbers of one column are.
struct ColumnStats {
  std::string name;
  bool categorical = false;  // of names: only those that are missing are counted
  std::int64_t count = 0;
  std::int64_t missing = 0;
  double mean = 0;
  double squares = 0;  // sum of squared distances from the mean
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void learn(double value);  // Welford
  /// The population's standard deviation.
  [[nodiscard]] double deviation() const;
};

}  // namespace trainctl::data
