#pragma once

#include "data/core/dataset.hpp"
#include "data/formats/file_reader.hpp"
#include "data/formats/labels.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace trainctl::data {

/// Many names in one piece of memory: a million strings would cost an allocation each.
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
  /// What encode() writes. Decoded bytes need not make a list: is_valid() tells.
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

/// Images that are pieces of files beneath one folder: whole files, or members of archives. The
/// manifest of such a set.
struct ImageFiles {
  NameList files;                 // relative to the folder
  std::vector<FileStamp> stamps;  // of each file; an empty one: unknown until it is fetched
  NameList names;                 // of each sample
  /// Each sample's file; empty: sample i is the whole of file i, and has its name.
  std::vector<std::uint32_t> file_of;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  Labels labels;

  /// What encode() writes; of the labels their rows, as the others are among the facts.
  static auto parts(auto& self) {
    return std::tie(self.files, self.stamps, self.names, self.file_of, self.offsets, self.sizes,
                    self.labels.rows);
  }
  [[nodiscard]] std::int64_t samples() const {
    return std::ssize(labels.rows) / static_cast<std::int64_t>(labels.field.bytes());
  }
  [[nodiscard]] Facts facts() const;
  [[nodiscard]] std::uint64_t bytes() const;  // that the lists take
};

/// Whether some of the files are remote, wherever the folder lies.
bool names_remote(const ImageFiles& files);

/// True where the name ends as an image that trainctl can decode: .jpg .jpeg .png .webp .bmp .tif
/// .tiff, in any case.
bool has_image_suffix(std::string_view name);

/// The data set over those files. Layout: image u8 {0, 0, 3}, then the label. A file that has
/// changed since it was listed ends the run with ChangedFile, after `forget` has dropped what was
/// cached.
std::shared_ptr<const Dataset> image_file_dataset(DataRoot root, ImageFiles files,
                                                  std::function<void()> forget);

/// Digest of the samples and their order that does not depend on the times of files: copying or
/// touching image files leaves it the same. For data sets without image files, their fingerprint.
std::string membership_digest(const Dataset& dataset);

}  // namespace trainctl::data
