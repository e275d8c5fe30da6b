#include "data/inspect/split_stats.hpp"

#include "data/core/memory_dataset.hpp"
#include "data/fakes.hpp"
#include "data/varied.hpp"
#include "support/catch.hpp"

#include <cmath>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// Image i has height 1, width i + 1 and the value 10 i in all pixels. The two classes alternate.
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

TEST_CASE("split_stats: mean and std are per channel over all pixels, as value / 255") {
  const Facts facts = MemoryDataset::facts(2, 3, {1, 2, 3});
  Arena images = image_memory(facts);
  const std::vector<int> pixels{0, 10, 255, 0, 20, 255, 255, 10, 255, 255, 20, 255};
  for (std::size_t i = 0; i < pixels.size(); ++i)
    images.bytes()[i] = static_cast<std::byte>(pixels[i]);
  const auto dataset = std::make_shared<const MemoryDataset>(facts, std::move(images),
                                                             std::vector<std::uint8_t>{2, 2});
  const SplitStats stats = split_stats(*dataset, {}, kSilent);
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

TEST_CASE("split_stats: images of different sizes are weighted by pixels, and sizes are counted") {
  std::int64_t reported = 0;
  const SplitStats stats = split_stats(Growing(), {}, [&](std::int64_t done) { reported = done; });
  CHECK(stats.mean[0] == Approx((0 + 2 * 10 + 3 * 20) / 6.0 / 255));
  CHECK(stats.per_class == std::vector<std::int64_t>{2, 1});
  CHECK(stats.sizes.size() == 3);
  CHECK(stats.sizes.at({1, 3}) == 1);
  CHECK(reported == 3);
}

TEST_CASE("split_stats: statistics are the same for any number of workers") {
  const auto dataset = std::make_shared<const CountingDataset>(1000);
  const SplitStats alone = split_stats(*dataset, {}, kSilent);
  const SplitStats shared = split_stats(*dataset, {.workers = 3}, kSilent);
  CHECK(alone.mean == shared.mean);
  CHECK(alone.std == shared.std);
  CHECK(alone.per_class.empty());
}

TEST_CASE("split_stats: on_error=skip leaves out damaged samples, up to max_skipped") {
  VariedDataset dataset(200);
  dataset.bad = {3, 150};
  const SplitStats stats =
      split_stats(dataset, {.workers = 2, .on_error = OnError::skip, .max_skipped = 2}, kSilent);
  CHECK(stats.samples == 198);
  CHECK(stats.per_class == std::vector<std::int64_t>{65, 67, 66});
  REQUIRE(stats.skipped.size() == 2);
  CHECK(stats.skipped[1].name == "picture 150");
  CHECK(stats.skipped[1].reason == "the image is damaged");
  CHECK_THAT(failure_of([&] {
               split_stats(dataset, {.on_error = OnError::skip, .max_skipped = 1}, kSilent);
             }),
             Contains("9: picture 150: the image is damaged (dataset.max_skipped allows only 1 "
                      "damaged sample)"));
  CHECK(failure_of([&] { split_stats(dataset, {.workers = 2}, kSilent); }) ==
        "9: picture 3: the image is damaged");
}

TEST_CASE("split_stats: features and targets have mean, deviation, minimum and maximum") {
  const auto bytes_of = [](const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  std::vector<FieldRows> fields;
  fields.push_back(owned_rows({"features", Dtype::f32, {2}}, bytes_of({1, 10, 3, 10, 5, 10})));
  fields.push_back(owned_rows({"label", Dtype::f32, {}}, bytes_of({-1, 0, 4})));
  const SplitStats stats = split_stats(RowsDataset(std::move(fields), 0), {}, kSilent);
  REQUIRE(stats.features.size() == 2);
  CHECK(stats.features[0].name == "features[0]");
  CHECK(stats.features[0].mean == Approx(3));
  CHECK(stats.features[0].deviation() == Approx(std::sqrt(8.0 / 3)));
  CHECK(stats.features[1].deviation() == 0);
  REQUIRE(stats.targets.size() == 1);
  CHECK(stats.targets[0].name == "label");
  CHECK(stats.targets[0].mean == Approx(1));
  CHECK(stats.targets[0].least == -1);
  CHECK(stats.targets[0].most == 4);
}
