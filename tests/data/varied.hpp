#pragma once

#include "data/fakes.hpp"

#include <atomic>
#include <set>

namespace trainctl::data::testing {

/// Images of different sizes: sample i is (5 + i mod 4) x (6 + i mod 3) x 3, with unique pixels.
/// Counts reads; samples in `bad` cannot be read.
class VariedDataset final : public Dataset, public ImageStore {
 public:
  explicit VariedDataset(std::int64_t size) : size_(size) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 3; }
  [[nodiscard]] std::int64_t tile_rows() const override { return 2; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    ASSERT(rows[0].empty());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t label = indices[i] % 3;
      std::memcpy(rows[1].data() + i * 8, &label, 8);
    }
  }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string fingerprint() const override { return content; }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    ++reads;
    ENSURE(data, !bad.contains(index), "the image is damaged");
    const ImageShape shape{5 + index % 4, 6 + index % 3, 3};
    scratch.resize(shape.bytes());
    for (std::size_t i = 0; i < scratch.size(); ++i)
      scratch[i] = static_cast<std::byte>(index * 31 + static_cast<int>(i));
    return {scratch, shape};
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return "picture " + std::to_string(index);
  }

  /// Returns the bytes of all images.
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < size_; ++i)
      sum += static_cast<std::uint64_t>((5 + i % 4) * (6 + i % 3) * 3);
    return sum;
  }

  mutable std::atomic<int> reads{0};
  std::set<std::int64_t> bad;
  std::string content = "varied";  // the fingerprint

 private:
  std::int64_t size_;
  Layout layout_{{"image", Dtype::u8, {0, 0, 3}}, {"label", Dtype::i64, {}}};
};

/// A fixed transform that keeps the upper left corner.
class Corner final : public Transform {
 public:
  explicit Corner(std::int64_t side) : side_(side) {}
  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {side_, side_, input.channels};
  }
  [[nodiscard]] bool random() const override { return false; }
  void apply(const ImageView& input, ImageTarget& output, CounterRng&) const override {
    output.copy(input.window({0, 0, side_, side_}));
  }

 private:
  std::int64_t side_;
};

}  // namespace trainctl::data::testing
