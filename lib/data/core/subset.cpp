#include "data/core/subset.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/core/image_ranges.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::data {
namespace {

class Subset final : public Dataset, public ImageStore, public ImageRanges, public Fetchable {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {}

  [[nodiscard]] std::int64_t size() const override { return std::ssize(indices_); }
  [[nodiscard]] const Layout& layout() const override { return dataset_->layout(); }
  [[nodiscard]] std::int64_t classes() const override { return dataset_->classes(); }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return dataset_->class_names();
  }
  [[nodiscard]] std::int64_t tile_rows() const override { return dataset_->tile_rows(); }
  [[nodiscard]] bool in_memory() const override { return dataset_->in_memory(); }
  /// Its share of the whole, so that the subsets of one data set add up to it.
  [[nodiscard]] Footprint footprint() const override {
    const Footprint whole = dataset_->footprint();
    const double share = static_cast<double>(size()) / static_cast<double>(dataset_->size());
    return {static_cast<std::uint64_t>(static_cast<double>(whole.memory) * share) +
                indices_.size() * sizeof(std::int64_t),
            static_cast<std::uint64_t>(static_cast<double>(whole.mapped) * share)};
  }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    std::vector<std::int64_t> of_whole;
    of_whole.reserve(indices.size());
    for (const std::int64_t index : indices) of_whole.push_back(at(index));
    dataset_->fill(of_whole, rows);
  }
  [[nodiscard]] const ImageStore* images() const override {
    return dataset_->images() == nullptr ? nullptr : this;
  }
  [[nodiscard]] const Fetchable* fetchable() const override {
    return dataset_->fetchable() == nullptr ? nullptr : this;
  }
  [[nodiscard]] std::string fingerprint() const override {
    Hasher hasher;
    hasher.add(dataset_->fingerprint());
    hasher.add(std::as_bytes(std::span(indices_)));
    return hasher.hex();
  }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    return dataset_->images()->read(at(index), scratch);
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return dataset_->images()->name(at(index));
  }
  void prefetch(std::int64_t index) const override { dataset_->images()->prefetch(at(index)); }
  [[nodiscard]] const ImageRanges* ranges() const override {
    return dataset_->images()->ranges() == nullptr ? nullptr : this;
  }

  [[nodiscard]] std::uint64_t bytes() const override {
    const double share = static_cast<double>(size()) / static_cast<double>(dataset_->size());
    return static_cast<std::uint64_t>(static_cast<double>(whole_ranges().bytes()) * share);
  }
  [[nodiscard]] FileRange range(std::int64_t index) const override {
    return whole_ranges().range(at(index));
  }
  [[nodiscard]] FileReader open(std::size_t file) const override {
    return whole_ranges().open(file);
  }
  [[nodiscard]] StoredImage image(std::int64_t index,
                                  std::span<const std::byte> bytes) const override {
    return whole_ranges().image(at(index), bytes);
  }

  std::uint64_t fetch(std::int64_t index) const override {
    return dataset_->fetchable()->fetch(at(index));
  }
  [[nodiscard]] std::string object(std::int64_t index) const override {
    return dataset_->fetchable()->object(at(index));
  }

 private:
  [[nodiscard]] std::int64_t at(std::int64_t index) const {
    return indices_.at(static_cast<std::size_t>(index));
  }
  [[nodiscard]] const ImageRanges& whole_ranges() const { return *dataset_->images()->ranges(); }

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::int64_t> indices) {
  for (const std::int64_t index : indices)
    ENSURE(data, index >= 0 && index < dataset->size(),
           "there is no sample {}: the split has {} samples", index, dataset->size());
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

std::vector<std::uint8_t> shrunk(const ImageView& image, std::int64_t most, ImageShape& shape) {
  const ImageShape& from = image.shape;
  const std::int64_t longest = std::max(from.height, from.width);
  const std::int64_t block = std::max<std::int64_t>(1, (longest + most - 1) / most);
  shape = {std::max<std::int64_t>(1, from.height / block),
           std::max<std::int64_t>(1, from.width / block), from.channels};
  std::vector<std::uint8_t> pixels;
  pixels.reserve(shape.bytes());
  for (std::int64_t y = 0; y < shape.height; ++y) {
    for (std::int64_t x = 0; x < shape.width * shape.channels; ++x) {
      const std::int64_t column = x / shape.channels;
      const std::int64_t channel = x % shape.channels;
      std::int64_t sum = 0;
      std::int64_t count = 0;
      for (std::int64_t i = y * block; i < std::min((y + 1) * block, from.height); ++i) {
        for (std::int64_t j = column * block; j < std::min((column + 1) * block, from.width); ++j) {
          sum += image.row(i)[j * from.channels + channel];
          ++count;
        }
      }
      pixels.push_back(static_cast<std::uint8_t>((sum + count / 2) / count));
    }
  }
  return pixels;
}

}  // namespace trainctl::data
