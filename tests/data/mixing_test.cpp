#include "data/batch_transform/mixup.hpp"
#include "data/core/pipeline.hpp"
#include "data/core/registry.hpp"
#include "data/fakes.hpp"
#include "data/image/golden_pixels.hpp"
#include "spec/options/batch_transform.hpp"
#include "spec/options/dataset.hpp"

#include <cmath>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

config::Stage mixup(double alpha) {
  return config::make_stage("batch_transform", "mixup", spec::batch_transform::Mixup{alpha});
}
config::Stage cutmix() {
  return config::make_stage("batch_transform", "cutmix", spec::batch_transform::Cutmix{});
}

std::shared_ptr<const BatchTransform> built(const config::Stage& stage) {
  return builtin_catalog().batch_transforms.at(stage.type)(stage);
}

Pipeline mixed(std::int64_t size, const std::vector<config::Stage>& stages) {
  Pipeline pipeline = counting(size);
  for (const config::Stage& stage : stages) pipeline.batch_transforms.push_back(built(stage));
  return pipeline;
}

struct Setting {
  int workers = 0;
  std::int64_t tile_rows = 0;
  int ranks = 1;
};

/// Returns the digest of two epochs of global batches of 24, over all ranks.
std::uint64_t digest_of(const Pipeline& pipeline, const Setting& setting) {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    LoaderOptions options;
    options.batch_size = 24 / setting.ranks;
    options.num_workers = setting.workers;
    options.tile_rows = setting.tile_rows;
    options.seed = 11;
    options.shard = {rank, setting.ranks};
    Loader loader(pipeline, options);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      loader.start_epoch(epoch);
      while (const Batch* batch = loader.next()) {
        sum += batch->digest * static_cast<std::uint64_t>(epoch + 1);
      }
    }
  }
  return sum;
}

template <class T>
T value_at(const Batch& batch, std::size_t field, std::int64_t row) {
  T value;
  std::memcpy(&value, batch.fields[field].data() + static_cast<std::size_t>(row) * sizeof value,
              sizeof value);
  return value;
}

int pixel_of(std::int64_t sample, std::int64_t k) {
  return static_cast<int>((7 * sample + k) & 255);
}

}  // namespace

TEST_CASE("mixup and cutmix: images and boxes are bitwise equal to torchvision's") {
  const Json golden = golden_transforms("mix");
  const Picture one = golden_picture(golden["pictures"][0]);
  const Picture other = golden_picture(golden["pictures"][1]);
  for (const Json& expected : golden["cases"]) {
    INFO(expected["kind"] << " " << expected.value("own", -1));
    Mix mix;
    if (expected["kind"] == "mixup") {
      mix.own = expected["own"];
    } else {
      const Json& drawn = expected["drawn"];
      const Json& box = expected["box"];
      mix.swapped = cutmix_box(drawn[0], drawn[1], drawn[2], one.shape);
      CHECK(mix.swapped == Box{box[0], box[1], box[2], box[3]});
    }
    std::vector<std::uint8_t> a = one.pixels;
    std::vector<std::uint8_t> b = other.pixels;
    mix_images(mix, one.shape, a.data(), b.data());
    Json copy = expected;
    copy["shape"] = golden["pictures"][0]["shape"];
    CHECK(a == golden_picture(copy).pixels);
    copy["pixels"] = expected["other"];
    CHECK(b == golden_picture(copy).pixels);
  }
}

TEST_CASE("draw_beta: draws have the mean, variance and quantiles of the distribution") {
  for (const double alpha : {0.01, 0.2, 0.5, 1.0, 8.0, 1000.0}) {
    INFO(alpha);
    constexpr int kDraws = 40'000;
    double sum = 0;
    double squares = 0;
    int below_tenth = 0;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      CounterRng rng(1, 0, i, 0);
      const double x = draw_beta(rng, alpha);
      REQUIRE((x >= 0 && x <= 1));
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
      below_tenth += x < 0.1 ? 1 : 0;
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    CHECK(std::abs(sum / kDraws - 0.5) < 6 * std::sqrt(variance / kDraws));
    CHECK(std::abs(squares / kDraws / variance - 1) < 0.05);
    if (alpha == 1.0) CHECK(std::abs(below_tenth / (0.1 * kDraws) - 1) < 0.1);
    if (alpha == 0.5)
      CHECK(std::abs(below_tenth / (0.204833 * kDraws) - 1) < 0.07);  // 2 asin(sqrt(0.1)) / pi
  }
}

TEST_CASE(
    "mixup and cutmix: batches are the same for any workers, tiles and ranks with even batches") {
  for (const std::vector<config::Stage>& stages :
       {std::vector{mixup(0.4)}, std::vector{cutmix()}, std::vector{mixup(0.4), cutmix()}}) {
    const Pipeline pipeline = mixed(24 * 5 + 17, stages);
    const std::uint64_t expected = digest_of(pipeline, {});
    CHECK(digest_of(counting(24 * 5 + 17), {}) != expected);
    for (const int workers : {0, 1, 3}) {
      for (const std::int64_t tile_rows : {0, 1, 2, 7, 24})
        CHECK(digest_of(pipeline, {workers, tile_rows, 1}) == expected);
    }
    for (const int ranks : {2, 3, 4, 6, 12}) CHECK(digest_of(pipeline, {1, 2, ranks}) == expected);
  }
}

TEST_CASE("mixup: pixels are the mean of two images, weighted by lambda") {
  LoaderOptions options;
  options.batch_size = 10;
  Loader loader(mixed(45, {mixup(1)}), options);
  CHECK(loader.layout()[2] == Field{"label_b", Dtype::i64, {}});
  CHECK(loader.layout()[3] == Field{"lambda", Dtype::f32, {}});
  std::map<float, int> lambdas;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    loader.start_epoch(epoch);
    while (const Batch* batch = loader.next()) {
      for (std::int64_t row = 0; row < batch->valid; ++row) {
        const auto label = value_at<std::int64_t>(*batch, 1, row);
        const auto partner = value_at<std::int64_t>(*batch, 2, row);
        const auto lambda = value_at<float>(*batch, 3, row);
        const bool paired = batch->valid == 10;  // the last batch has 5 rows, none with a partner
        CHECK(paired == (partner != label));
        if (paired) {
          CHECK(partner == value_at<std::int64_t>(*batch, 1, (row + 5) % 10));
        } else {
          CHECK(lambda == 1);
        }
        lambdas[lambda] += 1;
        for (std::int64_t k = 0; k < 16; ++k) {
          const double own = lambda;
          const double mix = own * pixel_of(label, k) + (1.0 - own) * pixel_of(partner, k);
          CHECK(std::to_integer<int>(batch->fields[0][static_cast<std::size_t>(row * 16 + k)]) ==
                std::floor(mix + 0.5));
        }
      }
    }
  }
  CHECK(lambdas.size() > 6);  // one lambda per batch
}

TEST_CASE("cutmix: rows of a short batch without a partner have lambda 1") {
  LoaderOptions options;
  options.batch_size = 8;
  options.order = Order::sequential;
  Loader loader(mixed(8 + 6, {cutmix()}), options);
  loader.start_epoch(0);
  loader.next();
  const Batch* last = loader.next();
  REQUIRE(last->valid == 6);
  const std::vector<std::int64_t> partners{12, 13, 10, 11, 8, 9};
  for (std::int64_t row = 0; row < 6; ++row) {
    CHECK(value_at<std::int64_t>(*last, 2, row) == partners[static_cast<std::size_t>(row)]);
  }
  CHECK(value_at<float>(*last, 3, 2) == 1);
  CHECK(value_at<float>(*last, 3, 3) == 1);
}

TEST_CASE("mixup and cutmix: an odd batch size, tables and number labels are errors with a hint") {
  CHECK_THAT(failure_of([] {
               LoaderOptions options;
               options.batch_size = 9;
               const Loader loader(mixed(40, {mixup(1)}), options);
             }),
             Contains("2: batch_transforms need an even batch size") &&
                 Contains("set loader.batch_size to 8 or 10"));
  CHECK_THAT(failure_of([] {
               LoaderOptions options;
               options.batch_size = 1;
               const Loader loader(mixed(40, {mixup(1)}), options);
             }),
             EndsWith("set loader.batch_size to 2"));
  const Layout table{{"features", Dtype::f32, {5}}, {"label", Dtype::i64, {}}};
  CHECK_THAT(failure_of([&] { mixed_layout(table, 4); }), Contains("the data set has none"));
  const Layout regression{{"image", Dtype::u8, {2, 2, 1}}, {"label", Dtype::f32, {}}};
  CHECK_THAT(failure_of([&] { mixed_layout(regression, 4); }),
             Contains("the labels of the data set are not classes"));
}

TEST_CASE("build_pipeline: only a training split has batch_transforms") {
  spec::TrainSplit split;
  split.dataset =
      config::make_stage("dataset", "synthetic_digits", spec::dataset::SyntheticDigits{});
  split.batch_transforms = {mixup(0.2), cutmix()};
  CHECK(build_pipeline(split).batch_transforms.size() == 2);
  CHECK(build_pipeline(static_cast<const spec::DataSplit&>(split)).batch_transforms.empty());
}
