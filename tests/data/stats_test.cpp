#include "data/stats.hpp"

#include "data/fakes.hpp"
#include "data/memory_dataset.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// Image i is 1 high and i + 1 wide; all its pixels are 10 i. Two classes in turns.
class Growing final : public Dataset, public ImageStore {
 public:
  [[nodiscard]] std::int64_t size() const override { return 3; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 2; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t label = indices[i] % 2;
      std::memcpy(rows[1].data() + i * 8, &label, 8);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return "growing"; }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    scratch.assign(static_cast<std::size_t>(index) + 1, static_cast<std::byte>(10 * index));
    return {scratch, {1, index + 1, 1}};
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return std::to_string(index);
  }

 private:
  Layout layout_{{"image", Dtype::u8, {0, 0, 1}}, {"label", Dtype::i64, {}}};
};

const StatsProgress kSilent = [](std::int64_t) {};

}  // namespace

TEST_CASE("mean and deviation are those of each channel over all pixels, as value / 255") {
  const Facts facts = MemoryDataset::facts(2, 3, {1, 2, 3});
  Arena images = image_memory(facts);
  const std::vector<int> pixels{0, 10, 255, 0, 20, 255, 255, 10, 255, 255, 20, 255};
  for (std::size_t i = 0; i < pixels.size(); ++i)
    images.bytes()[i] = static_cast<std::byte>(pixels[i]);
  const auto dataset = std::make_shared<const MemoryDataset>(facts, std::move(images),
                                                             std::vector<std::uint8_t>{2, 2});
  const SplitStats stats = split_stats(dataset, 0, kSilent);
  CHECK(stats.samples == 2);
  REQUIRE(stats.mean.size() == 3);
  CHECK(stats.mean[0] == Approx(0.5));
  CHECK(stats.std[0] == Approx(0.5));
  CHECK(stats.mean[1] == Approx(15.0 / 255));
  CHECK(stats.std[1] == Approx(5.0 / 255));
  CHECK(stats.mean[2] == Approx(1));
  CHECK(stats.std[2] == Approx(0).margin(1e-9));
  CHECK(stats.per_class == std::vector<std::int64_t>{0, 0, 2});
}

TEST_CASE("images that differ in size count by their pixels, and their sizes are listed") {
  std::int64_t told = 0;
  const SplitStats stats =
      split_stats(std::make_shared<const Growing>(), 0, [&](std::int64_t done) { told = done; });
  CHECK(stats.mean[0] == Approx((0 + 2 * 10 + 3 * 20) / 6.0 / 255));
  CHECK(stats.per_class == std::vector<std::int64_t>{2, 1});
  CHECK(stats.sizes.size() == 3);
  CHECK(stats.sizes.at({1, 3}) == 1);
  CHECK(told == 3);
}

TEST_CASE("any number of workers gives the same statistics") {
  const auto dataset = std::make_shared<const CountingDataset>(1000);
  const SplitStats alone = split_stats(dataset, 0, kSilent);
  const SplitStats shared = split_stats(dataset, 3, kSilent);
  CHECK(alone.mean == shared.mean);
  CHECK(alone.std == shared.std);
  CHECK(alone.per_class.empty());
}
