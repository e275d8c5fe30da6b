#pragma once

#include "data/core/batch.hpp"
#include "data/image/image.hpp"

#include <limits>
#include <memory>

namespace trainctl::data {

class FileReader;

/// The destination of a tile: one span per field, for `indices.size()` samples each.
using Rows = std::span<const std::span<std::byte>>;

/// The properties of a data set that its headers state.
struct Facts {
  std::int64_t samples = 0;
  std::int64_t classes = 0;  // 0 when labels are not classes
  Layout layout;             // image height and width are 0 when samples differ in size
  /// Indexed by class; empty when the data set does not name them.
  std::vector<std::string> class_names = {};
  std::vector<std::string> feature_names = {};  // columns of a table, in their order

  /// Returns the image field, or nullptr when the samples have none.
  [[nodiscard]] const Field* image() const;
};

/// An image as its data set stores it: an encoded file or, when `raw` is not empty, the pixels.
struct StoredImage {
  std::span<const std::byte> bytes;
  ImageShape raw;
};

class ImageRanges;

/// Gives access to single images of a data set, before any transform. Called from several threads.
class ImageStore {
 public:
  virtual ~ImageStore() = default;
  /// Returns bytes that lie in `scratch` or in the store. Throws Error(data).
  [[nodiscard]] virtual StoredImage read(std::int64_t index,
                                         std::vector<std::byte>& scratch) const = 0;
  /// Returns the name of a sample for messages: a path, an archive entry, or "sample 7".
  [[nodiscard]] virtual std::string name(std::int64_t index) const;
  /// Starts to prefetch the sample where that is cheap.
  virtual void prefetch(std::int64_t /*index*/) const {}
  /// Returns where the images lie in files, or nullptr when they are not contiguous in files.
  [[nodiscard]] virtual const ImageRanges* ranges() const { return nullptr; }
};

/// Bytes that an open data set holds, without its caches.
struct Footprint {
  std::uint64_t memory = 0;
  std::uint64_t mapped = 0;  // mapped files: shared between processes and reclaimable
};

/// Groups of samples that an epoch draws in given proportions, such as the sources of `concat`.
struct Mixture {
  std::vector<double> weights;        // of each group; empty: an epoch has every sample once
  std::vector<std::uint32_t> groups;  // of each sample
};

/// A data set whose samples may still have to be downloaded. Called from several threads.
class Fetchable {
 public:
  virtual ~Fetchable() = default;
  /// Downloads the data of the sample and returns the number of bytes. Throws Error.
  virtual std::uint64_t fetch(std::int64_t index) const = 0;
  /// Returns the path of the file that holds the sample. The file may also be local.
  [[nodiscard]] virtual std::string object(std::int64_t index) const = 0;
};

/// A random-access set of samples. Called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The image field, if any, has the name "image".
  [[nodiscard]] virtual const Layout& layout() const = 0;
  /// Returns 0 when labels are not classes.
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  /// Indexed by class; empty when the data set does not name them.
  [[nodiscard]] virtual std::vector<std::string> class_names() const { return {}; }
  /// Samples per work item of a loader thread. 0 means a whole batch, for samples that are only
  /// copied.
  [[nodiscard]] virtual std::int64_t tile_rows() const { return 0; }
  /// Returns true when samples are in memory or in a mapped file, so that a cache would gain
  /// nothing.
  [[nodiscard]] virtual bool in_memory() const { return false; }
  [[nodiscard]] virtual Footprint footprint() const { return {}; }
  /// Copies the samples `indices` into the rows. Skips a field whose span is empty, such as an
  /// image that the caller reads through images(). Throws Error(data) that names the sample.
  virtual void fill(std::span<const std::int64_t> indices, Rows rows) const = 0;
  /// Must not be null when the layout has an image: transforms read images through it.
  [[nodiscard]] virtual const ImageStore* images() const { return nullptr; }
  /// Null when all samples are on this machine.
  [[nodiscard]] virtual const Fetchable* fetchable() const { return nullptr; }
  /// Applies to training, if it shuffles.
  [[nodiscard]] virtual Mixture mixture() const { return {}; }
  /// Returns a digest of the content (not of the path), for the manifest.
  [[nodiscard]] virtual std::string fingerprint() const = 0;
  /// Returns a digest of the samples and their order that ignores modification times, so that
  /// copying or touching image files keeps it.
  [[nodiscard]] virtual std::string membership() const { return fingerprint(); }
};

/// Returns the name of a sample of the data set for messages.
std::string sample_name(const Dataset& dataset, std::int64_t index);

/// A byte range of one of the files of a data set.
struct FileRange {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Images that are contiguous in files, so that they can be read long before they are used. Called
/// from several threads.
class ImageRanges {
 public:
  virtual ~ImageRanges() = default;
  /// Total size of all images.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  [[nodiscard]] virtual FileRange range(std::int64_t index) const = 0;
  /// Throws Error(data), also when the file has changed since it was listed.
  [[nodiscard]] virtual FileReader open(std::size_t file) const = 0;
  /// Returns the image from the bytes of its range. Throws Error(data) when they are damaged.
  [[nodiscard]] virtual StoredImage image(std::int64_t index,
                                          std::span<const std::byte> bytes) const = 0;
};

/// Summary statistics of one column.
struct ColumnStats {
  std::string name;
  bool categorical = false;  // a column of names: only missing values are counted
  std::int64_t count = 0;
  std::int64_t missing = 0;
  double mean = 0;
  double squares = 0;  // sum of squared distances from the mean
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void learn(double value);  // Welford's update
  /// Returns the population standard deviation.
  [[nodiscard]] double deviation() const;
};

}  // namespace trainctl::data
