#include "data/chosen.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::data {
namespace {

class Chosen final : public Dataset, public ImageStore, public Fetchable {
 public:
  Chosen(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {}

  [[nodiscard]] std::int64_t size() const override { return std::ssize(indices_); }
  [[nodiscard]] const Layout& layout() const override { return dataset_->layout(); }
  [[nodiscard]] std::int64_t classes() const override { return dataset_->classes(); }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return dataset_->class_names();
  }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    std::vector<std::int64_t> theirs;
    for (const std::int64_t index : indices) theirs.push_back(at(index));
    dataset_->fill(theirs, rows);
  }
  [[nodiscard]] const ImageStore* images() const override {
    return dataset_->images() == nullptr ? nullptr : this;
  }
  [[nodiscard]] const Fetchable* fetchable() const override {
    return dataset_->fetchable() == nullptr ? nullptr : this;
  }
  [[nodiscard]] std::string fingerprint() const override { return dataset_->fingerprint(); }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    return dataset_->images()->read(at(index), scratch);
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return dataset_->images()->name(at(index));
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

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

std::shared_ptr<const Dataset> chosen(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::int64_t> indices) {
  for (const std::int64_t index : indices)
    ENSURE(data, index >= 0 && index < dataset->size(),
           "there is no sample {}: the split has {} samples", index, dataset->size());
  return std::make_shared<Chosen>(std::move(dataset), std::move(indices));
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
