#pragma once

#include "data/core/dataset.hpp"
#include "data/formats/file_reader.hpp"
#include "data/formats/labels.hpp"

#include <algorithm>

namespace trainctl::data {

/// Many names in one buffer, because a million strings would cost one allocation each.
class NameList {
 public:
  void add(std::string_view name) {
    blob_.append(name);
    ends_.push_back(blob_.size());
  }
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const {
    const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(blob_).substr(begin, ends_[i] - begin);
  }
  /// Returns the members that encode() writes. Decoded members may be inconsistent: check
  /// is_valid().
  static auto parts(auto& self) { return std::tie(self.blob_, self.ends_); }
  [[nodiscard]] bool is_valid() const {
    return std::ranges::is_sorted(ends_) && blob_.size() == (ends_.empty() ? 0 : ends_.back());
  }
  [[nodiscard]] const std::string& blob() const { return blob_; }
  [[nodiscard]] const std::vector<std::uint64_t>& ends() const { return ends_; }

 private:
  std::string blob_;
  std::vector<std::uint64_t> ends_;
};

/// The manifest of a set of images that are parts of files below one folder: whole files, or
/// members of archives.
struct ImageFiles {
  NameList files;                 // relative to the folder
  std::vector<FileStamp> stamps;  // of each file; empty stamp: unknown until downloaded
  NameList names;                 // of each sample
  /// The file of each sample. If empty, sample i is the whole of file i and has its name.
  std::vector<std::uint32_t> file_of;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  Labels labels;

  /// Returns the members that encode() writes. Only the rows of the labels are included, because
  /// the facts hold the other members.
  static auto parts(auto& self) {
    return std::tie(self.files, self.stamps, self.names, self.file_of, self.offsets, self.sizes,
                    self.labels.rows);
  }
  [[nodiscard]] std::int64_t samples() const {
    return std::ssize(labels.rows) / static_cast<std::int64_t>(labels.field.bytes());
  }
  [[nodiscard]] Facts facts() const;
  [[nodiscard]] std::uint64_t bytes() const;  // memory of the lists
};

/// Returns whether some of the files are remote, wherever the folder is.
bool names_remote(const ImageFiles& files);

/// Returns whether the suffix is an image format that trainctl decodes: .jpg .jpeg .png .webp .bmp
/// .tif .tiff, in any case.
bool has_image_suffix(std::string_view name);

/// Returns the data set of those files. Layout: image u8 {0, 0, 3}, then the label. When a file has
/// changed since it was listed, calls `forget` to drop cached manifests and throws ChangedFile.
std::shared_ptr<const Dataset> image_file_dataset(DataRoot root, ImageFiles files,
                                                  std::function<void()> forget);

}  // namespace trainctl::data
