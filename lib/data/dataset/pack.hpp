#pragma once

#include "data/formats/mapped_file.hpp"
#include "data/pack/pack_format.hpp"

namespace trainctl::data {

/// Reads only the header and notes of a pack.
struct PackHead {
  PackHeader header;
  PackNotes notes;

  /// Throws Error(data) with file and offset.
  explicit PackHead(const std::filesystem::path& path);
  [[nodiscard]] Facts facts() const;
};

/// The samples of a mapped pack file. Opening reads the header and index; each image is verified on
/// first read. The file must not be modified while it is open; 'trainctl data pack' never does
/// that.
class PackDataset final : public Dataset, public ImageStore, public ImageRanges, public Fetchable {
 public:
  /// Throws Error(data) with file and offset.
  explicit PackDataset(const std::filesystem::path& path);

  [[nodiscard]] const PackHeader& header() const { return pack_.header(); }
  [[nodiscard]] const PackNotes& notes() const { return pack_.notes(); }

  [[nodiscard]] std::int64_t size() const override { return pack_.header().samples; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return pack_.header().classes; }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return pack_.notes().class_names;
  }
  [[nodiscard]] std::int64_t tile_rows() const override { return 16; }
  [[nodiscard]] bool in_memory() const override { return true; }
  [[nodiscard]] Footprint footprint() const override {
    return {checked_.size(), file_.bytes().size()};
  }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override;
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] const Fetchable* fetchable() const override { return remote_ ? this : nullptr; }
  std::uint64_t fetch(std::int64_t index) const override;
  [[nodiscard]] std::string object(std::int64_t) const override { return path_.string(); }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override;
  [[nodiscard]] std::string name(std::int64_t index) const override;

  [[nodiscard]] const ImageRanges* ranges() const override { return remote_ ? nullptr : this; }
  [[nodiscard]] std::uint64_t bytes() const override { return pack_.header().data_bytes; }
  [[nodiscard]] FileRange range(std::int64_t index) const override;
  [[nodiscard]] FileReader open(std::size_t file) const override;
  [[nodiscard]] StoredImage image(std::int64_t index,
                                  std::span<const std::byte> bytes) const override;

 private:
  /// Verifies the checksum on the first call for an image. Throws Error(data).
  [[nodiscard]] StoredImage checked_image(std::int64_t index, const PackEntry& entry,
                                          std::span<const std::byte> bytes) const;
  void copy_image(std::int64_t index, std::span<std::byte> out) const;

  std::filesystem::path path_;
  bool remote_;
  MappedFile file_;
  PackView pack_;
  Layout layout_;
  mutable std::vector<std::atomic<bool>> checked_;
};

}  // namespace trainctl::data
