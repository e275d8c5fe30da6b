#pragma once

#include "data/fakes.hpp"
#include "data/image/jpeg_files.hpp"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::data::testing {

struct NamedFile {
  std::string name;
  File bytes;
};

/// Image files in memory, each with a different size; the label is the index. With `raw` they are
/// stored decoded.
class ImageFiles final : public Dataset, public ImageStore {
 public:
  explicit ImageFiles(std::vector<NamedFile> files) : files_(std::move(files)) {}
  explicit ImageFiles(std::vector<Picture> raw) : raw_(std::move(raw)) {}

  [[nodiscard]] std::int64_t size() const override { return std::ssize(raw_) + std::ssize(files_); }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 0; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    std::memcpy(rows[1].data(), indices.data(), indices.size_bytes());
  }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string fingerprint() const override { return "files"; }

  [[nodiscard]] StoredImage read(std::int64_t index, std::vector<std::byte>&) const override {
    const auto at = static_cast<std::size_t>(index);
    if (!raw_.empty()) return {std::as_bytes(std::span(raw_[at].pixels)), raw_[at].shape};
    return {files_[at].bytes, {}};
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return raw_.empty() ? files_[static_cast<std::size_t>(index)].name : "raw";
  }

 private:
  std::vector<NamedFile> files_;
  std::vector<Picture> raw_;
  Layout layout_{{"image", Dtype::u8, {0, 0, 3}}, {"label", Dtype::i64, {}}};
};

}  // namespace trainctl::data::testing
