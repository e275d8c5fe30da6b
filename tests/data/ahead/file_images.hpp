#pragma once

#include "data/core/dataset.hpp"
#include "data/formats/file_reader.hpp"
#include "support/temp_folder.hpp"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace trainctl::data::testing {

/// Stores images of 40 x 50 bytes in three files, in a scattered order, with or without gaps.
/// Sample i starts with its index. Counts reads.
class FileImages final : public Dataset, public ImageStore, public ImageRanges {
 public:
  enum class Gaps { some, none };
  explicit FileImages(std::int64_t count, Gaps gaps = Gaps::some) : count_(count), gaps_(gaps) {
    for (std::size_t file = 0; file < 3; ++file) {
      std::ofstream out(path(file), std::ios::binary);
      for (std::int64_t i = 0; i < count; ++i) {
        if (range(i).file != file) continue;
        std::string bytes(kBytes, static_cast<char>(i * 5));
        std::memcpy(bytes.data(), &i, sizeof i);
        out.seekp(static_cast<std::streamoff>(range(i).offset));
        out << bytes;
      }
    }
  }

  [[nodiscard]] std::filesystem::path path(std::size_t file) const {
    return folder_ / ("images" + std::to_string(file));
  }

  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 4; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    std::vector<std::byte> scratch;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t label = indices[i] % 4;
      std::memcpy(rows[1].data() + i * 8, &label, 8);
      if (rows[0].empty()) continue;
      std::memcpy(rows[0].data() + i * kBytes, read(indices[i], scratch).bytes.data(), kBytes);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return "file images"; }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return "sample " + std::to_string(index);
  }
  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    ++reads;
    scratch.resize(kBytes);
    const FileRange where = range(index);
    open(where.file).read(where.offset, scratch);
    return {scratch, {40, 50, 1}};
  }

  [[nodiscard]] const ImageRanges* ranges() const override { return this; }
  [[nodiscard]] std::uint64_t bytes() const override {
    return kBytes * static_cast<std::uint64_t>(count_);
  }
  [[nodiscard]] FileRange range(std::int64_t index) const override {
    const auto place = static_cast<std::uint64_t>(index * 7919 % count_);
    if (gaps_ == Gaps::none) return {place % 3, place / 3 * kBytes, kBytes};
    return {place % 3, place * 2600 + (place / 11) * 90'000, kBytes};
  }
  [[nodiscard]] FileReader open(std::size_t file) const override {
    ++opens;
    return FileReader(path(file));
  }
  [[nodiscard]] StoredImage image(std::int64_t, std::span<const std::byte> bytes) const override {
    ++from_ahead;
    return {bytes, {40, 50, 1}};
  }

  mutable std::atomic<std::int64_t> opens{0};
  mutable std::atomic<std::int64_t> reads{0};
  mutable std::atomic<std::int64_t> from_ahead{0};

  static constexpr std::size_t kBytes = 2000;

 private:
  TempFolder folder_;
  std::int64_t count_;
  Gaps gaps_;
  Layout layout_{{"image", Dtype::u8, {40, 50, 1}}, {"label", Dtype::i64, {}}};
};

}  // namespace trainctl::data::testing
